"""CBOR (RFC 8949), as far as serde's data model goes: the metadata of burnpack files. Imports no torch."""

import struct
from collections.abc import Mapping
from typing import Any

from ...errors import RecordError
from ..bytes.budget import NUMBER, TEXT, Budget, TensorCost
from ..bytes.source import BytesSource
from .record_tree import TreeReader

_UNSIGNED, _NEGATIVE, _BYTES, _TEXT, _ARRAY, _MAP, _TAG, _SIMPLE = range(8)
_INDEFINITE = 31
_BREAK = object()
_FLOATS = {25: ">e", 26: ">f", 27: ">d"}
_SIMPLE_VALUES = {20: False, 21: True, 22: None, 23: None}  # 23 is "undefined"


def encode(value: Any) -> bytes:
    """The bytes of a value, in their shortest form and with definite lengths; maps keep their order.

    Floats take the shortest of 16, 32 and 64 bits that keeps every bit of their value.

    >>> encode({"a": [1, 2.5]}).hex()
    'a161618201f94100'
    """
    encoded = bytearray()
    _encode(value, encoded)
    return bytes(encoded)


def _encode(value: Any, encoded: bytearray) -> None:
    if isinstance(value, bool) or value is None:
        encoded.append(0xF6 if value is None else 0xF4 + value)
    elif isinstance(value, int):
        _head(_NEGATIVE if value < 0 else _UNSIGNED, -1 - value if value < 0 else value, encoded)
    elif isinstance(value, float):
        encoded += _float(value)
    elif isinstance(value, str | bytes):
        try:
            data = value.encode() if isinstance(value, str) else value
        except UnicodeEncodeError as error:
            raise RecordError(f"{value[:80]!r} is not valid Unicode ({error}); rename it") from error
        _head(_TEXT if isinstance(value, str) else _BYTES, len(data), encoded)
        encoded += data
    elif isinstance(value, list | tuple):
        _head(_ARRAY, len(value), encoded)
        for item in value:
            _encode(item, encoded)
    elif isinstance(value, Mapping):
        _head(_MAP, len(value), encoded)
        for key, item in value.items():
            _encode(key, encoded)
            _encode(item, encoded)
    else:
        raise RecordError(
            f"expected a number, text, bytes, bool, None, list or map, got {type(value).__name__}; turn it into one"
        )


def _head(major: int, argument: int, encoded: bytearray) -> None:
    if argument < 24:
        encoded.append(major << 5 | argument)
        return
    for code, count in ((24, 1), (25, 2), (26, 4), (27, 8)):
        if argument < 1 << 8 * count:
            encoded.append(major << 5 | code)
            encoded += argument.to_bytes(count, "big")
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
    source = BytesSource(data, place)
    source.budget = budget or source.budget
    return _Decoder(source).whole()


class _Decoder(TreeReader):
    tensor = TensorCost(memory=3000, steps=800, file_bytes=40)

    def value(self, depth: int) -> Any:
        item = self._item(depth)
        if item is _BREAK:
            raise self.wrong("the end of something indefinite, where nothing indefinite is")
        return item

    @staticmethod
    def has_values(item: Mapping[str, Any]) -> bool:
        """True if it is what burnpack says of such a tensor."""
        match item.get("data_offsets"):
            case [int(begin), int(end)]:
                return begin < end
        return False

    def _item(self, depth: int) -> Any:
        first = self.cursor.take_byte()
        major, info = first >> 5, first & 31
        if info == _INDEFINITE:
            return _BREAK if major == _SIMPLE else self._indefinite(major, depth)
        if major == _SIMPLE:
            self.budget.take(NUMBER, 13, 1)
            if info in _FLOATS:
                return self.number(_FLOATS[info])
            if info not in _SIMPLE_VALUES:
                raise self.wrong(f"the simple value {info}, which means nothing here")
            return _SIMPLE_VALUES[info]
        argument = info if info < 24 else self._argument(info)
        if major == _TEXT:
            return self.text(argument)
        if major == _ARRAY:
            return self.list_of(argument, depth)
        if major == _MAP:
            return self.map_of(argument, depth)
        if major == _TAG:
            self.go_down(depth)
            return self.value(depth + 1)
        self.budget.take(NUMBER, 13, 1)
        if major == _BYTES:
            return self._take(argument)
        return argument if major == _UNSIGNED else -1 - argument

    def _take(self, count: int) -> bytes:
        self.budget.take(2 * count, 3, count)
        return self.cursor.take(count)

    def _argument(self, info: int) -> int:
        if info < 24:
            return info
        if info > 27:
            raise self.wrong(f"the reserved length {info}")
        return int.from_bytes(self._take(1 << info - 24), "big")

    def _indefinite(self, major: int, depth: int) -> Any:
        self.go_down(depth)
        match major:
            case 2 | 3:
                return (b"" if major == 2 else "").join(iter(lambda: self._chunk(major), _BREAK))
            case 4:
                return list(iter(lambda: self._item(depth + 1), _BREAK))
            case 5:
                return self.map_with(iter(lambda: self._item(depth + 1), _BREAK), depth)
        raise self.wrong("a number or tag of indefinite length")

    def _chunk(self, major: int) -> Any:
        """A part of a text or of bytes of indefinite length; parts are definite and of the same kind."""
        first = self.cursor.take_byte()
        if first == 0xFF:
            return _BREAK
        if first >> 5 != major or first & 31 == _INDEFINITE:
            raise self.wrong("a part of another kind in a text or bytes of indefinite length")
        self.budget.take(TEXT, 8, 1)
        count = self._argument(first & 31)
        return self._take(count) if major == _BYTES else self.text(count)
