"""NamedMpk: records as MessagePack with field names, as Burn 0.21 writes them. Imports no torch.

https://github.com/msgpack/msgpack/blob/master/spec.md; integers and lengths in their shortest form, as in rmp-serde.
"""

import struct
import sys
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ...errors import RecordError, RecordFormatError
from ..bytes.budget import CONTAINER, MAX_DEPTH, NUMBER, TEXT, TensorCost
from ..bytes.source import Cursor, Source
from ..outline import Outline, Payload, Segment
from .dtypes import burn_dtype
from .envelope import EnvelopeFormat, artifact_of, no_text, outline_of_artifact
from .record_tree import Blob, TensorLeaf, has_values

_pack = msgspec.msgpack.encode
_TENSOR = TensorCost(memory=3600, steps=500, file_bytes=8)


class NamedMpk(EnvelopeFormat):
    """See `burnlike.record.formats.Format`."""

    def segments(self, outline: Outline) -> Iterator[Segment]:
        yield from _encode(artifact_of(outline, self.recorder, []), outline)

    def read(self, source: Source, layout: object = None) -> Outline:
        cursor = Cursor(source)
        found = _Parser(cursor).value(0)
        if not cursor.at_end():
            raise RecordFormatError(f"{source.path}: bytes lie behind the record, at byte {cursor.position}")
        return outline_of_artifact(found, source, self.name)


def _encode(item: Any, outline: Outline) -> Iterator[Segment]:
    if isinstance(item, TensorLeaf):
        entry = outline.entries[item.name]
        if item.id is not None:
            yield b"\x82" + _pack("id") + _pack(str(item.id)) + _pack("param")
        if entry.nbytes >= 2**32:
            raise RecordError(
                f"'{item.name}' has {entry.nbytes} bytes, MessagePack holds 4 GiB; save it as safetensors"
            )
        count = entry.nbytes
        form, code = (">BB", 0xC4) if count < 2**8 else (">BH", 0xC5) if count < 2**16 else (">BI", 0xC6)
        yield b"\x83" + _pack("bytes") + struct.pack(form, code, count)
        yield Payload(item.name)
        yield _pack("shape") + _pack(list(entry.shape)) + _pack("dtype") + _pack(burn_dtype(entry.dtype, item.name))
    elif isinstance(item, Mapping):
        yield _header(0x80, 0xDE, len(item))
        for name, below in item.items():
            yield _packed(name)
            yield from _encode(below, outline)
    elif isinstance(item, list):
        yield _header(0x90, 0xDC, len(item))
        for below in item:
            yield from _encode(below, outline)
    else:
        yield _packed(item)


def _packed(value: Any) -> bytes:
    try:
        return _pack(value)
    except UnicodeEncodeError as error:
        raise no_text(error) from error


def _header(short: int, long: int, count: int) -> bytes:
    if count < 16:
        return bytes([short + count])
    return struct.pack(">BH", long, count) if count < 2**16 else struct.pack(">BI", long + 1, count)


class _Parser:
    """Reads values; bytes are gone over, and their place is kept."""

    def __init__(self, cursor: Cursor) -> None:
        self.cursor = cursor
        self.path = cursor.source.path
        self.budget = cursor.source.budget

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise RecordFormatError(f"{self.path}: nested too deeply (more than {MAX_DEPTH} levels)")
        self.budget.take_part(1, NUMBER, 10)
        byte = self.cursor.take_byte()
        if byte < 0x80:
            return byte
        if byte >= 0xE0:
            return byte - 0x100
        if byte < 0x90:
            return self._map(byte - 0x80, depth)
        if byte < 0xA0:
            return self._array(byte - 0x90, depth)
        if byte < 0xC0:
            return self._text(byte - 0xA0)
        if byte in _CONSTANTS:
            return _CONSTANTS[byte]
        if byte in _NUMBERS:
            return self._number(_NUMBERS[byte])
        if byte in _LENGTHS:
            kind, form = _LENGTHS[byte]
            count = self._number(form)
            if kind == "bin":
                start = self.cursor.position
                self.cursor.skip(count)
                self.budget.take(2 * NUMBER, 20)
                return Blob(start, count)
            if kind == "str":
                return self._text(count)
            return self._array(count, depth) if kind == "array" else self._map(count, depth)
        raise RecordFormatError(f"{self.path}: byte {self.cursor.position - 1} begins no value (0x{byte:02x})")

    def _number(self, form: str) -> Any:
        return struct.unpack(form, self.cursor.take(struct.calcsize(form)))[0]

    def _text(self, count: int) -> str:
        start = self.cursor.position
        self.budget.take_part(count, TEXT + 2 * count, 8)
        try:
            return self.cursor.take(count).decode()
        except UnicodeDecodeError as error:
            raise RecordFormatError(f"{self.path}: a text is not UTF-8 (byte {start + error.start})") from error

    def _array(self, count: int, depth: int) -> list[Any]:
        self.budget.take(CONTAINER, 12)
        return [self.value(depth + 1) for _ in range(count)]

    def _map(self, count: int, depth: int) -> dict[str, Any]:
        self.budget.take(CONTAINER, 12)
        found: dict[str, Any] = {}
        for _ in range(count):
            name = self.value(depth + 1)
            if not isinstance(name, str) or name in found:
                what = "comes twice" if isinstance(name, str) else "is no text"
                raise RecordFormatError(f"{self.path}: the key {name!r:.60} of a map {what}")
            found[sys.intern(name)] = self.value(depth + 1)  # most names come in many maps
        if has_values(found):
            self.budget.add_tensor(_TENSOR)
        return found


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_LENGTHS = {
    0xC4: ("bin", ">B"),
    0xC5: ("bin", ">H"),
    0xC6: ("bin", ">I"),
    0xD9: ("str", ">B"),
    0xDA: ("str", ">H"),
    0xDB: ("str", ">I"),
    0xDC: ("array", ">H"),
    0xDD: ("array", ">I"),
    0xDE: ("map", ">H"),
    0xDF: ("map", ">I"),
}
_FILE = "burn_core::record::file::NamedMpk{}FileRecorder"
NAMED_MPK = NamedMpk("NamedMpk", ".mpk", False, _FILE.format(""))
NAMED_MPK_GZ = NamedMpk("NamedMpkGz", ".mpk.gz", True, _FILE.format("Gz"))
NAMED_MPK_BYTES = NamedMpk("NamedMpk", ".mpk", False, "burn_core::record::memory::NamedMpkBytesRecorder")
