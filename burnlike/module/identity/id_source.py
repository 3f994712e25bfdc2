"""Makes new ParamIds: random for each job, the same on all its ranks, without communication.

An id is a keyed hash of a fingerprint and of how often that fingerprint was met before. The key is random, or what the
ranks of one job know in common. The fingerprint says what the tensor is: the class, name and shape of a burnlike
module's, the tree and path of another's at the first traversal. So ids depend neither on the order in which ranks meet
different tensors nor on what one rank does with other models; only where one rank alone meets more tensors of one
fingerprint do later ones differ. `agree_ids` mends that.
"""

import hashlib
import os
import secrets
import threading
from typing import Any

from ... import _env
from ..._torch_compat.distributed import meeting_place

_KEY_BYTES = 16
MOST_COUNTED = 100_000
"""How many fingerprints are counted, before counting starts again with another key."""


class IdSource:
    """Draws the ids of one process.

    Attributes:
        key: secret of the job; two sources with one key draw equal ids for equal fingerprints.
    """

    def __init__(self) -> None:
        self.key: bytes | None = None
        self._met: dict[bytes, int] = {}
        self._lock: Any = threading.Lock()
        os.register_at_fork(after_in_child=self._lock._at_fork_reinit)  # the thread that held it is not in the child

    def seed(self, text: str) -> None:
        """Start again with a key made of `text`."""
        with self._lock:
            self._start(_digest(text, _KEY_BYTES))

    def draw(self, fingerprint: str) -> int:
        """The next 64-bit number for `fingerprint`."""
        with self._lock:
            if self.key is None:
                job = _env.distributed_job() or meeting_place()
                self._start(secrets.token_bytes(_KEY_BYTES) if job is None else _digest(job, _KEY_BYTES))
            elif len(self._met) >= MOST_COUNTED:
                self._start(_digest("the next key", _KEY_BYTES, self.key))
            met = _digest(fingerprint, 8)
            count = self._met[met] = self._met.get(met, -1) + 1
            return int.from_bytes(_digest(f"{count} {fingerprint}", 8, self.key), "little")

    def _start(self, key: bytes) -> None:
        self.key = key
        self._met.clear()


def _digest(text: str, size: int, key: bytes | None = None) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=size, key=key or b"").digest()


SOURCE = IdSource()
