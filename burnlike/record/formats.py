"""Formats: an Outline is a record without its tensors' values, a Format turns one into a file's bytes and back.

And which format a file has, by its name or its first bytes. Imports no torch.
"""

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Any, NamedTuple

from .._dtypes import DTYPES
from .._lazy import resolve
from ..errors import ArgumentError, RecordError, RecordFormatError
from ..module.identity.param_id import ParamId
from .bytes.source import Source

# By the names of the safetensors format, here for every format.
DTYPE_BITS: Mapping[str, int] = {dtype.record: dtype.bits for dtype in DTYPES}
_KINDS = {dtype.record: dtype.kind for dtype in DTYPES}


def byte_count(dtype: str, shape: Collection[int]) -> int:
    """Bytes of a tensor; elements narrower than a byte are packed."""
    bits = DTYPE_BITS[dtype] * prod(shape)
    if bits % 8:
        raise RecordFormatError(f"{list(shape)} elements of {dtype} do not fill whole bytes")
    return bits // 8


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
        return _KINDS[self.dtype]


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
        """True if its values are best read from front to back, by one thread."""
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


class Format(ABC):
    """Turns an Outline into the bytes of a file, and back."""

    name: str
    extension: str
    compressed: bool  # whether the segments are gzipped on their way into the file
    has_names = True  # whether a file tells the names of its tensors; else its reader needs a layout
    has_top_level_keys = False  # whether `read` takes a third argument, the key of the outermost map to read under

    @abstractmethod
    def segments(self, outline: Outline) -> Iterable[Segment]:
        """The file's bytes, with places for the tensors' values; RecordError names what the format has no place for."""

    @abstractmethod
    def read(self, source: Source, layout: object = None) -> Outline:
        """Read all but the tensors' values, which become `StoredTensor`s; `source` is not compressed.

        Formats that carry no names need a layout. RecordFormatError says what is damaged or not of this format.
        """


_BURN = "burnlike.record.burn"
# Extension -> where the Format is, and how its files begin (within 16 bytes); gzipped ones as those inside.
_FORMATS = {
    ".safetensors": ("burnlike.record.safetensors.format:SAFETENSORS", rb".{4}\0{4}\{"),  # a length that readers accept
    ".mpk": (f"{_BURN}.envelope:NAMED_MPK", rb"[\x80-\x8f](\xa8metadata|\xa4item|\xa2_b|\xa8burnlike)"),
    ".mpk.gz": (f"{_BURN}.envelope:NAMED_MPK_GZ", None),
    ".json": (f"{_BURN}.json_text:PRETTY_JSON", rb"[ \t\r\n]*\{"),
    ".json.gz": (f"{_BURN}.json_text:JSON_GZ", None),
    ".bin": (f"{_BURN}.bincode:BIN", rb"[\x03\x12\x13](f32|f64|hal)"),  # a length and a text
    ".bin.gz": (f"{_BURN}.bincode:BIN_GZ", None),
    ".bpk": (f"{_BURN}.burnpack:BURNPACK", rb"NRUB"),
}
# With what is not written: a zip archive or, of older versions, a pickle.
_READABLE = _FORMATS | {".pt": ("burnlike.record.torch_files.torch_file:TORCH", rb"PK\x03\x04|\x80")}
# Names, in lower case, that are those of files of `torch.save`: readers would take them for such.
_OF_TORCH = re.compile(
    r"\.(pt|pt2|pth|ckpt|pkl|pickle)(\.(tar|gz|zip))?$|(^|[_-])(pytorch_model|adapter_model)\b.*\.bin$"
)

DETAILS = "record.safetensors"
"""In a directory that `DistributedRecorder` wrote, the file without tensors that has what burnlike adds to torch's."""
# File that a directory of several processes has -> what reads the directory.
_DIRECTORIES = {
    DETAILS: "burnlike.record.safetensors.format:read_parts",
    ".metadata": "burnlike.record.torch_files.dcp:read_dcp",
}
_PART = re.compile(r"shard-\d{5}-.*\.safetensors")
"""The names that torch gives to safetensors files of parts of tensors."""

INDEX_SUFFIX = ".index.json"  # of the name of the index of a sharded set
SINGLE_NAME = "model.safetensors"
"""What `transformers` looks for in a directory."""
EXTENSIONS = tuple(_FORMATS)
"""Endings of files' names that say the format in which a record is written."""
DEFAULT_EXTENSION = ".safetensors"


def format_of_path(path: str | os.PathLike[str]) -> Format:
    """The format that a file to be written has by its extension."""
    check_name(path)
    text = os.fspath(path)
    for extension in sorted(_FORMATS, key=len, reverse=True):
        if text.endswith(extension):
            return _format(_FORMATS[extension][0])
    raise RecordError(f"{text}: expected a name that ends in one of {', '.join(_FORMATS)}")


def path_text(path: Any, arguments: str = "") -> str:
    """The text of a path; ArgumentError for anything else, with the `arguments` in their order."""
    if not isinstance(text := os.fspath(path) if isinstance(path, os.PathLike) else path, str):
        remedy = f"; the arguments are {arguments}" if arguments else ""
        raise ArgumentError(f"expected a path, a text or a pathlib.Path, got {type(path).__name__}{remedy}")
    return text


def check_name(path: str | os.PathLike[str]) -> str:
    """The path of a file to write; refuses a name that stands for something that burnlike does not write."""
    text = path_text(path, "save(object, path)")
    name = os.path.basename(text)
    if name in ("", ".", ".."):
        raise RecordError(f"'{text}': expected the name of a file, such as {os.path.join(text, 'model')}.safetensors")
    if _OF_TORCH.search(name.lower()):
        raise RecordError(
            f"{text}: files of this name are read by torch.load, and burnlike writes no pickles; choose a name that"
            f" ends in {DEFAULT_EXTENSION}, or call torch.save(module.state_dict(), path)"
        )
    if name.endswith(INDEX_SUFFIX):
        raise RecordError(
            f"{text}: is the name of the index of a set of files; write one by SafetensorsRecorder(shard_bytes=...)"
        )
    return text


def directory_reader(path: str | os.PathLike[str]) -> Callable[[str, str | None], tuple[Source, Outline]] | None:
    """The reader of a directory of several processes, for its path and a top-level key; None for other paths."""
    whole = (SINGLE_NAME, SINGLE_NAME + INDEX_SUFFIX)
    if not os.path.isdir(path) or any(os.path.exists(os.path.join(path, it)) for it in whole):
        return None
    names = {*os.listdir(path)}
    details = next((directory for directory in _DIRECTORIES if directory in names), None)
    if details is None and any(map(_PART.fullmatch, names)):
        details = DETAILS
    return None if details is None else resolve(_DIRECTORIES[details])


def detect(source: Source) -> Format:
    """The format of a file, by its first bytes; `source` is the file as it is, compressed or not."""
    head = _head(source)
    is_compressed = head.startswith(b"\x1f\x8b")
    if is_compressed:
        from .bytes.source import GzipSource

        head = _head(GzipSource(source))
    extension = ""
    for ending, (_, beginning) in _READABLE.items():
        if not extension and beginning is not None and re.match(beginning, head, re.DOTALL):
            extension = ending
    if not extension:
        raise RecordFormatError(
            f"{source.path}: expected a record ({', '.join(_READABLE)}), got {source.stored_bytes} bytes that begin"
            f" with {head[:8]!r}; it may be an interrupted download or copy: fetch it again"
        )
    if is_compressed:
        extension += ".gz"
        if extension not in _FORMATS:
            raise RecordFormatError(f"{source.path}: expected a record, got a gzipped one: unpack it by gunzip")
    return _format(_READABLE[extension][0])


def _head(source: Source) -> bytes:
    """The first bytes: as many as tell any format, or those that there are."""
    for count in (16, 9, 2, 1):
        if source.has(0, count):
            return source.read(0, count)
    return b""


_format: Callable[[str], Format] = cache(resolve)
