"""ParamId, the 64-bit identity that ties optimizer state and records to a parameter."""

import base64
import hashlib
import uuid
from dataclasses import dataclass

from .id_source import SOURCE

_BYTES = 8
_CHARACTERS, _UUID_CHARACTERS = 13, 36


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
        if not 0 <= self.value < 2 ** (8 * _BYTES):
            raise ValueError(f"a ParamId is an unsigned 64-bit number, got {self.value}")

    @classmethod
    def new(cls, fingerprint: str = "") -> "ParamId":
        """Draw a new id: random, but the same on all ranks of a job and after the same `seed_param_ids`.

        Args:
            fingerprint: what the id is for; ids of other fingerprints don't depend on it.
        """
        return cls(SOURCE.draw(fingerprint))

    @classmethod
    def parse(cls, text: str) -> "ParamId":
        """Read Burn's text form, in either case; shorter ids of older versions are extended with zero bytes.

        The UUIDs that Burn wrote before 0.15 are hashed to 64 bits: to the same id each time, but not to Burn's, whose
        hash differs from one build to the next.

        Raises:
            ValueError: `text` is neither base32 of at most 8 bytes nor a UUID.
        """
        raw = _uuid_hash(text) if len(text) == _UUID_CHARACTERS else _base32(text)
        if raw is None:
            raise ValueError(f"Invalid id. {text!r}: expected a ParamId of 13 characters from 0-9 and a-v")
        return cls(int.from_bytes(raw, "little"))

    def __str__(self) -> str:
        raw = self.value.to_bytes(_BYTES, "little")
        return base64.b32hexencode(raw).decode().rstrip("=").lower()

    def __int__(self) -> int:
        return self.value


def _base32(text: str) -> bytes | None:
    try:
        if len(text) == _CHARACTERS and text.isascii() and text.isalnum():  # a million of them are read in a second
            return (int(text, 32) >> 1).to_bytes(_BYTES, "big")
        raw = base64.b32hexdecode(text + "=" * (-len(text) % 8), casefold=True)
    except ValueError:
        return None
    return raw if 0 < len(raw) <= _BYTES else None


def _uuid_hash(text: str) -> bytes | None:
    try:
        value = uuid.UUID(text)
    except ValueError:
        return None
    return hashlib.blake2b(value.bytes, digest_size=_BYTES).digest() if str(value) == text.lower() else None


def seed_param_ids(seed: int) -> None:
    """Make the ids drawn from now on a function of `seed`: equal programs, and the ranks of one job, get equal ids."""
    SOURCE.seed(f"burnlike.ParamId {seed}")
