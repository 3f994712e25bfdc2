"""ParamId, the 64-bit identity that ties optimizer state and records to a parameter, and where new ones come from.

New ids are random for each job, and the same on all of its ranks, without communication. An id is a keyed hash of a
fingerprint and of how often that fingerprint was met before. The key is random, or what the ranks of one job know in
common. The fingerprint says what the tensor is: the class, name and shape of a burnlike module's, the tree and path of
another's at the first traversal. So ids depend neither on the order in which ranks meet different tensors nor on what
one rank does with other models; only where one rank alone meets more tensors of one fingerprint do later ones differ.
`agree_ids` mends that.
"""

import base64
import hashlib
import os
import secrets
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ... import _env
from ..._torch_compat.distributed import meeting_place

_BYTES = 8
_LARGEST = 2**64 - 1
_CHARACTERS, _UUID_CHARACTERS = 13, 36
_KEY_BYTES = 16
MOST_COUNTED = 100_000
"""How many fingerprints are counted, before counting starts again with another key."""


class IdSource:
    """Draws the ids of one process; two sources with one `key`, secret of the job, draw equal ids for equal
    fingerprints.
    """

    def __init__(self) -> None:
        self.key: bytes | None = None
        self._met: dict[str, int] = {}
        self._lock: Any = threading.Lock()
        os.register_at_fork(after_in_child=self._lock._at_fork_reinit)  # the thread that held it is not in the child

    def seed(self, text: str) -> None:
        with self._lock:
            self._start(_digest(text, _KEY_BYTES))

    def draw(self, fingerprint: str) -> int:
        """The next 64-bit number for `fingerprint`."""
        with self._lock:
            if self.key is None:
                job = _env.distributed_job() or meeting_place()
                self._start(secrets.token_bytes(_KEY_BYTES) if job is None else _digest(job, _KEY_BYTES))
            elif len(self._met) >= MOST_COUNTED:
                # From the key before, so that the ranks of a job, which count alike, go on with equal ids.
                self._start(_digest("the next key", _KEY_BYTES, self.key))
            count = self._met[fingerprint] = self._met.get(fingerprint, -1) + 1
            # Keyed: else each run of a program would draw the same ids, and their records could not be told apart.
            return int.from_bytes(_digest(f"{count} {fingerprint}", 8, self.key), "little")

    def _start(self, key: bytes) -> None:
        self.key = key
        self._met.clear()


def _digest(text: str, size: int, key: bytes | None = None) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=size, key=key or b"").digest()


SOURCE = IdSource()


@dataclass(frozen=True, slots=True, order=True)
class ParamId:
    """A parameter's identity: 64 bits, written as Burn writes it (13 characters).

    The text is base32 in the extended hex alphabet, lower case and unpadded, of the 8 little-endian bytes.

    >>> str(ParamId(123456))
    '83h0200000000'
    >>> ParamId.parse("83h0200000000") == ParamId(123456)
    True
    """

    value: int

    def __post_init__(self) -> None:
        if not 0 <= self.value <= _LARGEST:
            raise ValueError(f"a ParamId is an unsigned 64-bit number, got {self.value}")

    @classmethod
    def new(cls, fingerprint: str = "") -> "ParamId":
        """Draw a new id: random, but the same on all ranks of a job and after the same `seed_param_ids`.

        `fingerprint` says what it is for; ids of other fingerprints don't depend on it.
        """
        return cls(SOURCE.draw(fingerprint))

    @classmethod
    def parse(cls, text: str) -> "ParamId":
        """Read Burn's text form, in either case; ValueError if it is none. Shorter ids of older versions get zero
        bytes.

        The UUIDs that Burn wrote before 0.15 are hashed to 64 bits: to the same id each time, but not to Burn's, whose
        hash differs from one build to the next.
        """
        raw = None
        with suppress(ValueError):
            if len(text) == _UUID_CHARACTERS:
                value = uuid.UUID(text)
                digest = hashlib.blake2b(value.bytes, digest_size=_BYTES).digest()
                raw = digest if str(value) == text.lower() else None
            elif len(text) == _CHARACTERS and text.isascii() and text.isalnum():  # a million are read in a second
                raw = (int(text, 32) >> 1).to_bytes(_BYTES, "big")
            else:
                raw = base64.b32hexdecode(text + "=" * (-len(text) % 8), casefold=True)
        if raw is None or not 0 < len(raw) <= _BYTES:
            raise ValueError(f"Invalid id. {text!r}: expected a ParamId of 13 characters from 0-9 and a-v")
        return cls(int.from_bytes(raw, "little"))

    def __str__(self) -> str:
        raw = self.value.to_bytes(_BYTES, "little")
        return base64.b32hexencode(raw).decode().rstrip("=").lower()

    def __int__(self) -> int:
        return self.value


def seed_param_ids(seed: int) -> None:
    """Make the ids drawn from now on a function of `seed`: equal programs, and the ranks of one job, get equal ids."""
    SOURCE.seed(f"burnlike.ParamId {seed}")
