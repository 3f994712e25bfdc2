"""The safetensors file format: headers read with suspicion and built from shapes alone. Imports no torch.

A file is 8 bytes (the header's length, little-endian), the header (JSON, padded with spaces), and the tensors' bytes
without a gap, little-endian and in row-major order: https://github.com/huggingface/safetensors#format.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import RecordError, RecordFormatError
from . import metadata
from .files.source import Source
from .outline import DTYPE_BITS, Entry, Outline, Payload, Segment, StoredTensor, byte_count

MAX_HEADER_BYTES = 100_000_000
"""Longer headers are refused, here and by the safetensors library."""

_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_ENTRY_KEYS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, slots=True)
class Header:
    """A file's header, checked.

    Attributes:
        tensors: by name, in the order of their bytes.
        metadata: the free-form texts under `__metadata__`.
        data_start: offset of the first tensor's first byte.
        file_bytes: length of the whole file.
    """

    tensors: Mapping[str, StoredTensor]
    metadata: Mapping[str, str]
    data_start: int
    file_bytes: int


def build_header(entries: Iterable[Entry], texts: Mapping[str, str]) -> tuple[bytes, list[Entry]]:
    """Make the first bytes of a file from names, dtypes and shapes.

    Args:
        entries: the tensors. The bytes are laid out in this order, but wider elements first, so that every tensor is
            aligned to its element.
        texts: for `__metadata__`.

    Returns:
        The length and header bytes, a multiple of 8 long, and the entries in file order.

    Raises:
        RecordError: a name can't be stored, or the header is longer than readers accept.
    """
    ordered = sorted(entries, key=lambda entry: -DTYPE_BITS[entry.dtype])
    header: dict[str, Any] = {_METADATA: dict(texts)} if texts else {}
    offset = 0
    for entry in ordered:
        if entry.name in header or entry.name == _METADATA:
            raise RecordError(f"tensor name {entry.name!r} is reserved or comes twice; rename it")
        stop = offset + entry.nbytes
        header[entry.name] = {"dtype": entry.dtype, "shape": list(entry.shape), "data_offsets": [offset, stop]}
        offset = stop
    try:
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise RecordError(f"a tensor's name or a text is not valid Unicode ({error}); rename it") from error
    text += b" " * (-len(text) % _LENGTH_BYTES)
    if len(text) > MAX_HEADER_BYTES:
        raise RecordError(
            f"the names and values of the record take {len(text)} bytes, readers accept {MAX_HEADER_BYTES}; "
            "store long values as tensors"
        )
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text, ordered


def read_header(source: Source) -> Header:
    """Read and check the header of a file; no tensor's bytes are read.

    Raises:
        RecordFormatError: it is truncated, damaged, or no safetensors file.
        RecordIOError: reading fails.
    """
    path = source.path
    if not source.has(0, _LENGTH_BYTES):
        raise RecordFormatError(
            f"{path}: expected a safetensors file, got fewer than {_LENGTH_BYTES} bytes, too short for any record;"
            " it may be an interrupted download or copy: fetch it again"
        )
    length = int.from_bytes(source.read(0, _LENGTH_BYTES), "little")
    try:
        if length > MAX_HEADER_BYTES:
            raise RecordFormatError(f"its first 8 bytes promise a header of {length} bytes, it is no safetensors file")
        if not source.has(_LENGTH_BYTES, length):
            raise RecordFormatError(
                f"truncated within the header: it takes {length + _LENGTH_BYTES} bytes, more than the file has"
            )
        return _parse(source.read(_LENGTH_BYTES, length), source)
    except RecordFormatError as error:
        raise RecordFormatError(
            f"{path}: {error}; expected a whole safetensors file: save or fetch it again"
        ) from error


def _parse(text: bytes, source: Source) -> Header:
    raw = _decode(text)
    texts = raw.pop(_METADATA, {})
    if not isinstance(texts, dict) or not all(isinstance(value, str) for value in texts.values()):
        raise RecordFormatError("'__metadata__' is not a map from text to text")
    data_start = _LENGTH_BYTES + len(text)
    infos = sorted((_entry(name, fields, source, data_start) for name, fields in raw.items()), key=_place)
    end = data_start
    for info in infos:
        if info.start != end:
            raise RecordFormatError(
                f"tensor '{info.name}' begins at data byte {info.start - data_start}, expected {end - data_start} "
                "(a gap or an overlap)"
            )
        end = info.start + info.nbytes
    if not source.has(data_start, end - data_start):
        raise RecordFormatError(f"truncated: the tensors end at byte {end}, the file ends before")
    if source.has(end, 1):
        raise RecordFormatError("bytes lie behind the last tensor")
    return Header({info.name: info for info in infos}, texts, data_start, end)


def _place(info: StoredTensor) -> tuple[int, int]:
    return info.start, info.nbytes


def _decode(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=_without_duplicates)
    except RecordFormatError:
        raise
    except UnicodeDecodeError as error:
        raise RecordFormatError(f"the header is not UTF-8 (byte {_LENGTH_BYTES + error.start})") from error
    except (ValueError, RecursionError) as error:
        raise RecordFormatError(f"the header is not valid JSON ({error})") from error
    if not isinstance(found, dict):
        raise RecordFormatError("the header is not a JSON object")
    return found


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RecordFormatError(f"the name {twice[:80]!r} comes twice in the header")
    return found


def _entry(name: str, fields: Any, source: Source, data_start: int) -> StoredTensor:
    if not isinstance(fields, dict) or set(fields) != _ENTRY_KEYS:
        raise RecordFormatError(f"tensor {name[:80]!r} needs exactly dtype, shape and data_offsets")
    dtype, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_BITS:
        raise RecordFormatError(
            f"tensor {name[:80]!r} has the unknown dtype {str(dtype)[:40]!r}; known: {', '.join(DTYPE_BITS)}"
        )
    if not _naturals(shape) or not _naturals(offsets) or len(offsets) != 2:
        raise RecordFormatError(f"tensor {name[:80]!r}: shape and data_offsets must be lists of non-negative integers")
    start, stop = offsets
    needed = byte_count(dtype, shape)
    if stop - start != needed:
        raise RecordFormatError(
            f"tensor {name[:80]!r} of shape {shape[:16]} and dtype {dtype} takes {needed} bytes, "
            f"its offsets give {stop - start}"
        )
    return StoredTensor(name, dtype, tuple(shape), source, data_start + start)


def _naturals(value: Any) -> bool:
    limit = 2**63
    return isinstance(value, list) and all(type(item) is int and 0 <= item < limit for item in value)


class SafetensorsFormat:
    """See `burnlike.record.formats.Format`."""

    name, extension, compressed = "safetensors", ".safetensors", False

    def segments(self, outline: Outline) -> list[Segment]:
        """The header, then all tensors."""
        head, ordered = build_header(outline.entries.values(), metadata.encode(outline))
        return [head, *(Payload(entry.name) for entry in ordered)]

    def read(self, source: Source, layout: object = None) -> Outline:
        """The header; the file has names, so that no layout is needed."""
        header = read_header(source)
        return metadata.decode(header.metadata, header.tensors, source.path)


SAFETENSORS = SafetensorsFormat()
