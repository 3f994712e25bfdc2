"""The formats of record files: what each has to offer, and which one a file is of. Imports no torch."""

import os
import re
from collections.abc import Iterable
from typing import Protocol

from .._lazy import resolve
from ..errors import RecordError, RecordFormatError
from .files.source import Source
from .outline import Outline, Segment


class Format(Protocol):
    """How an Outline becomes the bytes of a file, and back."""

    @property
    def name(self) -> str:
        """What inspect calls it."""
        ...

    @property
    def extension(self) -> str:
        """What names of such files end in."""
        ...

    @property
    def compressed(self) -> bool:
        """Whether the segments are gzipped on their way into the file."""
        ...

    def segments(self, outline: Outline) -> Iterable[Segment]:
        """The file's bytes, with places for the values of the tensors.

        Raises:
            RecordError: the format has no place for something that the record holds.
        """
        ...

    def read(self, source: Source, layout: object = None) -> Outline:
        """Read all but the tensors' values, which become `StoredTensor`s; `source` is not compressed.

        Args:
            source: the file.
            layout: see `burnlike.record.layout`; needed by formats that carry no names.

        Raises:
            RecordFormatError: the file is damaged or not of this format.
            RecordIOError: reading fails.
        """
        ...


_FORMATS = {
    ".safetensors": "burnlike.record.safetensors_format:SAFETENSORS",
    ".mpk": "burnlike.record.burn.messagepack:NAMED_MPK",
    ".mpk.gz": "burnlike.record.burn.messagepack:NAMED_MPK_GZ",
    ".json": "burnlike.record.burn.json_text:PRETTY_JSON",
    ".json.gz": "burnlike.record.burn.json_text:JSON_GZ",
    ".bin": "burnlike.record.burn.bincode:BIN",
    ".bin.gz": "burnlike.record.burn.bincode:BIN_GZ",
    ".bpk": "burnlike.record.burn.burnpack:BURNPACK",
}
"""Extension -> the format's object. A longer extension comes before the shorter one that it ends in."""

_OF_TORCH = re.compile(
    r"\.(pt|pt2|pth|ckpt|pkl|pickle)(\.(tar|gz|zip))?$|(^|[_-])(pytorch_model|adapter_model)\b.*\.bin$"
)
"""Names, in lower case, that are those of files of `torch.save`: readers would take them for such."""

_OF_AN_INDEX = ".index.json"
"""What the name of the index of a sharded set ends in."""

_TORCH = ".pt"
_READABLE = {**_FORMATS, _TORCH: "burnlike.record.torch_files.torch_file:TORCH"}

EXTENSIONS = tuple(_FORMATS)
"""What the names of records' files end in."""

DEFAULT_EXTENSION = ".safetensors"


def format_of_path(path: str | os.PathLike[str]) -> Format:
    """The format that a file to be written has by its extension.

    Raises:
        RecordError: no format has this extension.
    """
    check_name(path)
    text = os.fspath(path)
    for extension in sorted(_FORMATS, key=len, reverse=True):
        if text.endswith(extension):
            return resolve(_FORMATS[extension])
    raise RecordError(f"{text}: expected a name that ends in one of {', '.join(_FORMATS)}")


def check_name(path: str | os.PathLike[str]) -> None:
    """Refuse the name of a file that is to be written if it stands for something that burnlike does not write.

    Raises:
        RecordError: it is the name of a pickle, or of the index of a set of files.
    """
    text = os.fspath(path)
    name = os.path.basename(text)
    if _OF_TORCH.search(name.lower()):
        raise RecordError(
            f"{text}: files of this name are read by torch.load, and burnlike writes no pickles; choose a name that"
            f" ends in {DEFAULT_EXTENSION}, or call torch.save(module.state_dict(), path)"
        )
    if name.endswith(_OF_AN_INDEX):
        raise RecordError(
            f"{text}: is the name of the index of a set of files; write one by SafetensorsRecorder(shard_bytes=...)"
        )


def detect(source: Source, path: str | os.PathLike[str] = "") -> Format:
    """The format of a file, by its first bytes; `source` is the file as it is, compressed or not.

    Raises:
        RecordFormatError: it is none of them.
    """
    from .files.gzip_source import GzipSource, is_gzip

    compressed = is_gzip(source)
    inner = GzipSource(source) if compressed else source
    head = b""
    for count in (16, 9, 1):
        if inner.has(0, count):
            head = inner.read(0, count)
            break
    extension = _extension_of(head)
    if extension is not None and compressed:
        extension += ".gz"
        if extension not in _FORMATS:
            raise RecordFormatError(f"{source.path}: expected a record, got a gzipped one: unpack it by gunzip")
    if extension is None:
        size = getattr(source, "size", "?")
        raise RecordFormatError(
            f"{source.path}: expected a record ({', '.join(_READABLE)}), got {size} bytes that begin with {head[:8]!r};"
            " it may be an interrupted download or copy: fetch it again"
        )
    return resolve(_READABLE[extension])


_FIRST_KEYS = (b"\xa8metadata", b"\xa4item", b"\xa2_b", b"\xa8burnlike")
"""Texts in MessagePack, of which one begins a record: maps have no order."""


def _extension_of(head: bytes) -> str | None:
    if not head:
        return None
    if head[:4] == b"NRUB":
        return ".bpk"
    if head[4:9] == b"\0\0\0\0{":  # a length that readers accept
        return ".safetensors"
    if head.lstrip(b" \t\r\n")[:1] == b"{":
        return ".json"
    if 0x80 <= head[0] < 0x90 and head[1:10].startswith(_FIRST_KEYS):
        return ".mpk"
    if head[:1] in (b"\x03", b"\x12", b"\x13") and head[1:4] in (b"f32", b"f64", b"hal"):  # a length and a text
        return ".bin"
    if head[:4] == b"PK\x03\x04" or head[:1] == b"\x80":  # a zip archive or, of older versions, a pickle
        return _TORCH
    return None
