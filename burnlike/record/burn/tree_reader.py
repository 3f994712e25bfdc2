"""Reading nested values from front to back, within a budget: what MessagePack and CBOR share. Imports no torch."""

import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any

from ...errors import RecordFormatError
from ..bytes.budget import CONTAINER, MAX_DEPTH, NUMBER, TEXT, TensorCost
from ..bytes.source import Cursor, Source


class TreeReader(ABC):
    """Reads one value; `tensor` is what the map that describes a tensor costs."""

    tensor: TensorCost

    def __init__(self, source: Source) -> None:
        self.cursor = Cursor(source)
        self.budget = source.budget

    def whole(self) -> Any:
        """The value that the source is, to its end."""
        found = self.value(0)
        if not self.cursor.at_end():
            raise self.wrong("bytes lie behind the value")
        return found

    @abstractmethod
    def value(self, depth: int) -> Any:
        """The next value, which stands `depth` levels deep."""

    @staticmethod
    @abstractmethod
    def has_values(item: Mapping[str, Any]) -> bool:
        """Whether a map that was just read is a tensor that has values."""

    def go_down(self, depth: int) -> None:
        """Take what a list or map costs, whose entries stand deeper than `depth`."""
        if depth >= MAX_DEPTH:
            raise self.wrong(f"nested too deeply (more than {MAX_DEPTH} levels)")
        self.budget.take(NUMBER + CONTAINER, 24, 1)

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.cursor.take(struct.calcsize(form)))[0]

    def text(self, count: int) -> str:
        self.budget.take(NUMBER + TEXT + 2 * count, 20, 1 + count)
        raw = self.cursor.take(count)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            self.cursor.position += error.start - count
            raise self.wrong(f"a text is not UTF-8 ({error.reason})") from error

    def list_of(self, count: int, depth: int) -> list[Any]:
        self.go_down(depth)
        return [self.value(depth + 1) for _ in range(count)]

    def map_of(self, count: int, depth: int) -> dict[str, Any]:
        return self.map_with((self.value(depth + 1) for _ in range(count)), depth)

    def map_with(self, keys: Iterable[Any], depth: int) -> dict[str, Any]:
        """The map with these keys, which stand each before its value."""
        self.go_down(depth)
        found: dict[str, Any] = {}
        for key in keys:
            if not isinstance(key, str) or key in found:
                what = "comes twice" if isinstance(key, str) else "is no text"
                raise self.wrong(f"the key {key!r:.60} of a map {what}")
            found[sys.intern(key)] = self.value(depth + 1)  # most names come in many maps
        if self.has_values(found):
            self.budget.add_tensor(self.tensor)
        return found

    def wrong(self, what: str) -> RecordFormatError:
        """The error that the file is as it can't be, at the place that was reached."""
        return RecordFormatError(
            f"{self.cursor.source.path}: {what}, at byte {self.cursor.position}; the file is damaged"
        )
