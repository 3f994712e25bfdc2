"""Outline: a record without its tensors' values, which a format reads and writes. Imports no torch."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

from .._dtypes import DTYPES
from ..errors import RecordFormatError
from ..module.identity.param_id import ParamId
from .bytes.source import Source

# By the names of the safetensors format, here for every format.
DTYPE_BITS: Mapping[str, int] = {it.record: it.bits for it in DTYPES}
_KINDS = {it.record: it.kind for it in DTYPES}


def byte_count(dtype: str, shape: Collection[int]) -> int:
    """Bytes of a tensor; elements narrower than a byte are packed."""
    bits = DTYPE_BITS[dtype] * prod(shape)
    if bits % 8:
        raise RecordFormatError(f"{list(shape)} elements of {dtype} do not fill whole bytes")
    return bits // 8


def kind_of_name(dtype: str) -> str:
    """`float`, `int`, `bool` or `complex`: what the values of a dtype are."""
    return _KINDS[dtype]


# Entries are never changed; "frozen" would make a file of a million take three times as long to open.
@dataclass(slots=True, unsafe_hash=True)
class TensorEntry:
    """The name (a dotted path), dtype (one of `DTYPE_BITS`) and shape of a tensor."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return byte_count(self.dtype, self.shape)

    @property
    def kind(self) -> str:
        """`float`, `int`, `bool` or `complex`."""
        return kind_of_name(self.dtype)


@dataclass(slots=True, unsafe_hash=True)
class StoredTensor(TensorEntry):
    """A tensor whose values lie in a source from byte `start` on, little-endian and in row-major order.

    `stored_as` is the dtype of the bytes, where it is another than `dtype` (bools of four bytes), `crc32` their
    checksum; None where the file has none.
    """

    source: Source
    start: int
    stored_as: str = ""
    crc32: int | None = None

    @property
    def stored_bytes(self) -> int:
        """Bytes that its values take in the source."""
        return byte_count(self.stored_as or self.dtype, self.shape)

    @property
    def sequential(self) -> bool:
        """Whether its values are best read from front to back, by one thread."""
        return self.source.sequential

    def read_into(self, begin: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `begin` on, counted from the first of this tensor; several threads may."""
        self.source.read_into(self.start + begin, into)


class Payload(NamedTuple):
    """The place of a tensor's values among the segments of a file: their bytes or, by `json_indent`, a JSON array.

    -1 writes its numbers on one line, a number of spaces (that of the array's own line) on a line each.
    """

    name: str
    json_indent: int | None = None


class ChecksumSlot(NamedTuple):
    """The place of the checksums of all payloads, each 8 hexadecimal digits, in their order."""

    nbytes: int


Segment = bytes | Payload | ChecksumSlot


@dataclass(frozen=True, slots=True)
class Outline:
    """A record without its tensors' values.

    Attributes:
        entries: its tensors by name, in their order; `StoredTensor`s where it was read.
        ids, aliases, values, states, layout: as in a `Record`.
        metadata: what the file says about itself beside burnlike's own.
        version: of the format, None where the file has none.
        precision: in an outline that is to be written: the dtype that floats are stored in, None for as they are.
        changed: the file, of those that it was read from, whose header is not the one that was saved, as its checksum
            tells; empty for none.
    """

    entries: Mapping[str, TensorEntry] = field(default_factory=dict)
    ids: Mapping[str, ParamId] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    states: Collection[str] = ()
    layout: Any = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    format: str = ""
    version: str | None = None
    precision: str | None = None
    changed: str = ""
