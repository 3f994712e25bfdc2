"""The safetensors file format: headers read with suspicion and built from shapes alone. Imports no torch.

A file is 8 bytes (the header's length, little-endian), the header (JSON, padded with spaces), and the tensors' bytes
without a gap, little-endian and in row-major order: https://github.com/huggingface/safetensors#format.
"""

import json
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

from ..errors import RecordError, RecordFormatError, RecordIOError

DTYPE_BITS: Mapping[str, int] = {
    **dict.fromkeys(["F64", "I64", "U64", "C64"], 64),
    **dict.fromkeys(["F32", "I32", "U32"], 32),
    **dict.fromkeys(["F16", "BF16", "I16", "U16"], 16),
    **dict.fromkeys(["BOOL", "U8", "I8"], 8),
    **dict.fromkeys(["F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ"], 8),
    **dict.fromkeys(["F6_E2M3", "F6_E3M2"], 6),
    "F4": 4,
}
"""Bits of one element of each dtype of the format."""

MAX_HEADER_BYTES = 100_000_000
"""Longer headers are refused, here and by the safetensors library."""

_LENGTH_BYTES = 8
_METADATA = "__metadata__"
_ENTRY_KEYS = {"dtype", "shape", "data_offsets"}


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Where one tensor lies in the file.

    Attributes:
        name: its name.
        dtype: one of `DTYPE_BITS`.
        shape: its dimensions.
        start: offset of its first byte, counted from the beginning of the file.
        stop: offset after its last byte.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def nbytes(self) -> int:
        """Bytes that the tensor takes in the file."""
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Header:
    """A file's header, checked.

    Attributes:
        tensors: by name, in the order of their bytes.
        metadata: the free-form texts under `__metadata__`.
        data_start: offset of the first tensor's first byte.
        file_bytes: length of the whole file.
    """

    tensors: Mapping[str, TensorInfo]
    metadata: Mapping[str, str]
    data_start: int
    file_bytes: int


def build_header(
    entries: Iterable[tuple[str, str, tuple[int, ...]]], metadata: Mapping[str, str]
) -> tuple[bytes, list[TensorInfo]]:
    """Make the first bytes of a file from names, dtypes and shapes.

    Args:
        entries: (name, dtype, shape) of each tensor. The bytes are laid out in this order, but wider elements first,
            so that every tensor is aligned to its element.
        metadata: texts for `__metadata__`.

    Returns:
        The length and header bytes, a multiple of 8 long, and the place of each tensor in file order.

    Raises:
        RecordError: a name can't be stored, or the header is longer than readers accept.
    """
    ordered = sorted(entries, key=lambda entry: -DTYPE_BITS[entry[1]])
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    offset = 0
    for name, dtype, shape in ordered:
        if name in header or name == _METADATA:
            raise RecordError(f"tensor name {name!r} is reserved or comes twice; rename it")
        stop = offset + byte_count(dtype, shape)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, stop]}
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
    data_start = _LENGTH_BYTES + len(text)
    places = []
    for name, dtype, shape in ordered:
        begin, end = header[name]["data_offsets"]
        places.append(TensorInfo(name, dtype, tuple(shape), data_start + begin, data_start + end))
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text, places


def byte_count(dtype: str, shape: Iterable[int]) -> int:
    """Bytes of a tensor; elements narrower than a byte are packed.

    Raises:
        RecordFormatError: the elements do not fill whole bytes.
    """
    bits = DTYPE_BITS[dtype] * prod(shape)
    if bits % 8:
        raise RecordFormatError(f"{list(shape)} elements of {dtype} do not fill whole bytes")
    return bits // 8


def open_file(path: str | os.PathLike[str]) -> int:
    """Open a record's file for reading.

    Raises:
        RecordIOError: there is none, it can't be read, or it is no file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise RecordIOError(f"{os.fspath(path)}: no such file; expected a record (safetensors)") from error
    except OSError as error:
        raise RecordIOError(f"{os.fspath(path)}: can't be opened for reading: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise RecordIOError(f"{os.fspath(path)}: expected a record's file, got a directory or a device")
    return descriptor


def read_header(descriptor: int, path: str | os.PathLike[str]) -> Header:
    """Read and check the header of an open file; no tensor's bytes are read.

    Args:
        descriptor: open file.
        path: its name, for messages.

    Raises:
        RecordFormatError: it is truncated, damaged, or no safetensors file.
        RecordIOError: reading fails.
    """
    try:
        file_bytes = os.fstat(descriptor).st_size
        length_bytes = os.pread(descriptor, _LENGTH_BYTES, 0)
        if len(length_bytes) < _LENGTH_BYTES:
            raise RecordFormatError(
                f"{os.fspath(path)}: expected a safetensors file, got {file_bytes} bytes, too short for any record;"
                " it may be an interrupted download or copy: fetch it again"
            )
        length = int.from_bytes(length_bytes, "little")
        text = os.pread(descriptor, length, _LENGTH_BYTES) if length <= min(MAX_HEADER_BYTES, file_bytes) else b""
    except OSError as error:
        raise RecordIOError(f"{os.fspath(path)}: reading failed: {error.strerror}") from error
    try:
        if length > MAX_HEADER_BYTES:
            raise RecordFormatError(f"its first 8 bytes promise a header of {length} bytes, it is no safetensors file")
        if len(text) < length:
            raise RecordFormatError(
                f"truncated within the header: it takes {length + _LENGTH_BYTES} bytes, the file has {file_bytes}"
            )
        return _parse(text, file_bytes)
    except RecordFormatError as error:
        raise RecordFormatError(
            f"{os.fspath(path)}: {error}; expected a whole safetensors file: save or fetch it again"
        ) from error


def _parse(text: bytes, file_bytes: int) -> Header:
    raw = _decode(text)
    metadata = raw.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise RecordFormatError("'__metadata__' is not a map from text to text")
    data_start = _LENGTH_BYTES + len(text)
    infos = sorted((_entry(name, fields) for name, fields in raw.items()), key=lambda info: (info.start, info.stop))
    end = 0
    for info in infos:
        if info.start != end:
            raise RecordFormatError(
                f"tensor '{info.name}' begins at data byte {info.start}, expected {end} (a gap or an overlap)"
            )
        end = info.stop
    if data_start + end > file_bytes:
        raise RecordFormatError(f"truncated: the tensors end at byte {data_start + end}, the file has {file_bytes}")
    if data_start + end < file_bytes:
        raise RecordFormatError(f"{file_bytes - data_start - end} bytes lie behind the last tensor")
    tensors = {
        info.name: TensorInfo(info.name, info.dtype, info.shape, data_start + info.start, data_start + info.stop)
        for info in infos
    }
    return Header(tensors, metadata, data_start, file_bytes)


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


def _entry(name: str, fields: Any) -> TensorInfo:
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
    return TensorInfo(name, dtype, tuple(shape), start, stop)


def _naturals(value: Any) -> bool:
    limit = 2**63
    return isinstance(value, list) and all(type(item) is int and 0 <= item < limit for item in value)
