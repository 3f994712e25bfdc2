"""CBOR (RFC 8949), as far as serde's data model goes: the metadata of burnpack files. Imports no torch."""

import struct
import sys
from collections.abc import Mapping
from typing import Any

from ...errors import RecordError, RecordFormatError
from ..bytes.budget import CONTAINER, MAX_DEPTH, NUMBER, TEXT, Budget, TensorCost
from ..bytes.source import BytesSource

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_INDEFINITE = 31
_BREAK = object()
_TENSOR = TensorCost(memory=3000, steps=800, file_bytes=40)
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}
_SIMPLE_VALUES = {20: False, 21: True, 22: None, 23: None}  # 23 is "undefined"


def encode(value: Any) -> bytes:
    """The bytes of a value, in their shortest form and with definite lengths; maps keep their order.

    Floats take the shortest of 16, 32 and 64 bits that keeps every bit of their value.

    >>> encode({"a": [1, 2.5]}).hex()
    'a161618201f94100'
    """
    found = bytearray()
    _encode(value, found)
    return bytes(found)


def _encode(value: Any, found: bytearray) -> None:
    if isinstance(value, bool) or value is None:
        found.append(0xF6 if value is None else 0xF4 + value)
    elif isinstance(value, int):
        _head(_NEGATIVE if value < 0 else _UNSIGNED, -1 - value if value < 0 else value, found)
    elif isinstance(value, float):
        found += _float(value)
    elif isinstance(value, str | bytes):
        try:
            data = value.encode() if isinstance(value, str) else value
        except UnicodeEncodeError as error:
            raise RecordError(f"{value[:80]!r} is not valid Unicode ({error}); rename it") from error
        _head(_TEXT if isinstance(value, str) else _BYTES, len(data), found)
        found += data
    elif isinstance(value, list | tuple):
        _head(_ARRAY, len(value), found)
        for item in value:
            _encode(item, found)
    elif isinstance(value, Mapping):
        _head(_MAP, len(value), found)
        for key, item in value.items():
            _encode(key, found)
            _encode(item, found)
    else:
        raise RecordError(
            f"expected a number, text, bytes, bool, None, list or map, got {type(value).__name__}; turn it into one"
        )


def _head(major: int, argument: int, found: bytearray) -> None:
    if argument < 24:
        found.append(major << 5 | argument)
        return
    for code, count in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << 8 * count:
            found.append(major << 5 | code)
            found += argument.to_bytes(count, "big")
            return
    raise RecordError(f"{argument} takes more than 64 bits; store it as text or as a tensor")


def _float(value: float) -> bytes:
    exact = struct.pack(">d", value)
    for code, form in ((0xF9, ">e"), (0xFA, ">f")):
        try:
            data = struct.pack(form, value)
        except OverflowError:
            continue
        if struct.pack(">d", *struct.unpack(form, data)) == exact:
            return bytes([code]) + data
    return b"\xfb" + exact


def decode(data: bytes, place: str, budget: Budget | None = None) -> Any:
    """The value that `data` is, whole. `place` names it in messages; a budget of None is what its length justifies.

    Numbers may be longer than need be and lengths indefinite. Tags are passed over; the value that they stand before is
    taken as it is. Keys of maps are texts.
    """
    if budget is None:
        budget = BytesSource(data, place).budget
        budget.add_header(len(data))
    decoder = _Decoder(data, place, budget)
    found = decoder.value(0)
    if decoder.position != len(data):
        raise decoder.wrong("bytes lie behind the value")
    return found


class _Decoder:
    def __init__(self, data: bytes, place: str, budget: Budget) -> None:
        self.data = data
        self.place = place
        self.position = 0
        self.budget = budget

    def wrong(self, what: str) -> RecordFormatError:
        return RecordFormatError(f"{self.place}: {what}, at byte {self.position} of the CBOR; it is damaged")

    def value(self, depth: int) -> Any:
        found = self._item(depth)
        if found is _BREAK:
            raise self.wrong("the end of something indefinite, where nothing indefinite is")
        return found

    def _item(self, depth: int) -> Any:
        self.budget.take(NUMBER, 13)
        if depth > MAX_DEPTH:
            raise self.wrong(f"nested too deeply (more than {MAX_DEPTH} levels)")
        if self.position >= len(self.data):
            raise self.wrong("truncated: 1 bytes expected")
        first = self.data[self.position]
        self.position += 1
        major, info = first >> 5, first & 31
        if major == _SIMPLE:
            return self._simple(info)
        if info == _INDEFINITE:
            return self._indefinite(major, depth)
        argument = self._argument(info)
        match major:
            case 0:
                return argument
            case 1:
                return -1 - argument
            case 2:
                return self._take(argument)
            case 3:
                return self._text(argument)
            case 4:
                self.budget.take(CONTAINER, 12)
                return [self.value(depth + 1) for _ in range(argument)]
            case 5:
                return self._map(argument, depth)
            case _:
                return self.value(depth + 1)

    def _take(self, count: int) -> bytes:
        end = self.position + count
        if end > len(self.data):
            raise self.wrong(f"truncated: {count} bytes expected")
        self.budget.take(2 * count, 3)
        found = self.data[self.position : end]
        self.position = end
        return found

    def _argument(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise self.wrong(f"the reserved length {info}")
        return int.from_bytes(self._take(1 << info - 24), "big")

    def _simple(self, info: int) -> Any:
        if info in _SIMPLE_VALUES:
            return _SIMPLE_VALUES[info]
        if info in _FLOATS:
            form = _FLOATS[info]
            return struct.unpack(form, self._take(struct.calcsize(form)))[0]
        if info == _INDEFINITE:
            return _BREAK
        raise self.wrong(f"the simple value {info}, which means nothing here")

    def _text(self, count: int) -> str:
        self.budget.take(TEXT, 8)
        try:
            return self._take(count).decode()
        except UnicodeDecodeError as error:
            raise self.wrong(f"a text that is not UTF-8 ({error.reason})") from error

    def _map(self, count: int, depth: int) -> dict[str, Any]:
        self.budget.take(CONTAINER, 12)
        found: dict[str, Any] = {}
        for _ in range(count):
            self._put(found, self.value(depth + 1), depth)
        return self._map_read(found)

    def _map_read(self, found: dict[str, Any]) -> dict[str, Any]:
        """The map; it may be what burnpack says of a tensor."""
        match found.get("data_offsets"):
            case [int(begin), int(end)] if begin < end:
                self.budget.add_tensor(_TENSOR)
        return found

    def _put(self, found: dict[str, Any], key: Any, depth: int) -> None:
        if not isinstance(key, str):
            raise self.wrong(f"the key {key!r:.60} of a map is no text")
        if key in found:
            raise self.wrong(f"the key {key!r:.60} of a map comes twice")
        found[sys.intern(key)] = self.value(depth + 1)  # most names come in many maps

    def _indefinite(self, major: int, depth: int) -> Any:
        self.budget.take(CONTAINER, 12)
        if major == _ARRAY:
            return list(iter(lambda: self._item(depth + 1), _BREAK))
        if major == _MAP:
            found: dict[str, Any] = {}
            while (key := self._item(depth + 1)) is not _BREAK:
                self._put(found, key, depth)
            return self._map_read(found)
        if major in (_BYTES, _TEXT):
            kind = bytes if major == _BYTES else str
            parts = list(iter(lambda: self._chunk(major), _BREAK))
            return kind().join(parts)
        raise self.wrong("a number or tag of indefinite length")

    def _chunk(self, major: int) -> Any:
        """A part of a text or of bytes of indefinite length; parts are definite and of the same kind."""
        first = self._take(1)[0]
        if first == 0xFF:
            return _BREAK
        if first >> 5 != major or first & 31 == _INDEFINITE:
            raise self.wrong("a part of another kind in a text or bytes of indefinite length")
        self.budget.take(TEXT, 8)
        count = self._argument(first & 31)
        return self._take(count) if major == _BYTES else self._text(count)
