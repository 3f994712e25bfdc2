"""Where new ParamIds come from: random for each job, the same on all of its ranks, without communication.

An id is a keyed hash of a fingerprint and of how often that fingerprint was met before. The key is random, or what the
ranks of one job know in common. The fingerprint says what the tensor is: the class, name and shape of a burnlike
module's, the tree and path of another's at the first traversal. So ids depend neither on the order in which ranks meet
different tensors nor on what one rank does with other models; only where one rank alone meets more tensors of one
fingerprint do later ones differ. `agree_ids` mends that.
"""

import hashlib
import itertools
import secrets
import sys
from collections import defaultdict
from collections.abc import Iterator

from .. import _env

_KEY_BYTES = 16


class IdSource:
    """Draws the ids of one process.

    Attributes:
        key: secret of the job; two sources with one key draw equal ids for equal fingerprints.
    """

    def __init__(self) -> None:
        self.key: bytes | None = None
        self._met: defaultdict[str, Iterator[int]] = defaultdict(itertools.count)

    def seed(self, text: str) -> None:
        """Start again with a key made of `text`."""
        self.key = hashlib.blake2b(text.encode(), digest_size=_KEY_BYTES).digest()
        self._met.clear()

    def draw(self, fingerprint: str) -> int:
        """The next 64-bit number for `fingerprint`."""
        if self.key is None:
            job = _env.distributed_job() or _process_group()
            if job is None:
                self.key = secrets.token_bytes(_KEY_BYTES)
            else:
                self.seed(job)
        count = next(self._met[fingerprint])
        digest = hashlib.blake2b(f"{count} {fingerprint}".encode(), key=self.key or b"", digest_size=8).digest()
        return int.from_bytes(digest, "little")


def _process_group() -> str | None:
    """Where the ranks of torch's process group met, for ranks that were started by hand; nothing is exchanged."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    if distributed.get_world_size() == 1:
        return None
    store = distributed.distributed_c10d._get_default_store()
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    place = [str(getattr(store, name)) for name in ("host", "port", "path") if hasattr(store, name)]
    return " ".join(place) or None


SOURCE = IdSource()
