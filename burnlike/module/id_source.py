"""Where new ParamIds come from: random for each job, the same on all of its ranks, without communication.

An id is a keyed hash of a fingerprint (class and name of the tensor, or its path at the first traversal) and of how
often that fingerprint was met before. So it depends neither on the order in which ranks meet other tensors nor on
what only one rank does with other modules. The key is random, or what the ranks of one job know in common.
"""

import hashlib
import secrets
from collections import Counter

from .. import _env

_KEY_BYTES = 16


class IdSource:
    """Draws the ids of one process.

    Attributes:
        key: secret of the job; two sources with one key draw equal ids for equal fingerprints.
    """

    def __init__(self) -> None:
        self.key: bytes | None = None
        self._met: Counter[str] = Counter()

    def seed(self, text: str) -> None:
        """Start again with a key made of `text`."""
        self.key = hashlib.blake2b(text.encode(), digest_size=_KEY_BYTES).digest()
        self._met.clear()

    def draw(self, fingerprint: str) -> int:
        """The next 64-bit number for `fingerprint`."""
        if self.key is None:
            job = _env.distributed_job()
            if job is None:
                self.key = secrets.token_bytes(_KEY_BYTES)
            else:
                self.seed(job)
        count = self._met[fingerprint]
        self._met[fingerprint] = count + 1
        digest = hashlib.blake2b(f"{count} {fingerprint}".encode(), key=self.key or b"", digest_size=8).digest()
        return int.from_bytes(digest, "little")


SOURCE = IdSource()
