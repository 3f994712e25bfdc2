"""JSON: records as text with field names, pretty or gzipped, as Burn 0.21 writes them. Imports no torch."""

import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..bytes.source import Source
from ..outline import Outline, Payload, Segment
from .dtypes import burn_dtype
from .envelope import EnvelopeFormat, artifact_of, no_text, outline_of_artifact
from .json_numbers import Numbers, TextTensor
from .json_reader import JsonReader
from .record_tree import Blob, TensorLeaf

_INDENT = 2


@dataclass(frozen=True)
class JsonText(EnvelopeFormat):
    """JSON with names; a `pretty` text has each value on a line of its own."""

    pretty: bool

    def segments(self, outline: Outline) -> Iterator[Segment]:
        text = bytearray()
        for piece in self._written(artifact_of(outline, self.recorder, None, finite=True), 0, outline):
            if isinstance(piece, Payload):
                yield bytes(text)
                yield piece
                text.clear()
                continue
            try:
                text += piece.encode()
            except UnicodeEncodeError as error:
                raise no_text(error) from error
        yield bytes(text)

    def read(self, source: Source, layout: object = None) -> Outline:
        numbers = Numbers(source)

        def make(blob: Blob, name: str, dtype: str, shape: tuple[int, ...], stored_as: str) -> TextTensor:
            return TextTensor(name, dtype, shape, source, blob.start, stored_as, numbers=numbers)

        return outline_of_artifact(JsonReader(source).read(), source, self.name, make)

    def _written(self, value: Any, level: int, outline: Outline) -> Iterator[str | Payload]:
        """The text of a value that stands `level` levels deep, with places for tensors' bytes."""
        if isinstance(value, TensorLeaf):
            yield from self._tensor(value, level, outline)
        elif isinstance(value, Mapping):
            entries = ((f"{_text(name)}{': ' if self.pretty else ':'}", below) for name, below in value.items())
            yield from self._entries("{", entries, "}", level, outline)
        elif isinstance(value, list):
            yield from self._entries("[", (("", below) for below in value), "]", level, outline)
        else:
            yield _scalar(value)

    def _entries(
        self, begin: str, entries: Iterator[tuple[str, Any]], end: str, level: int, outline: Outline
    ) -> Iterator[str | Payload]:
        between = begin
        for before, value in entries:
            yield f"{between}{self._line(level + 1)}{before}"
            if isinstance(value, Payload):
                yield value
            else:
                yield from self._written(value, level + 1, outline)
            between = ","
        yield f"{begin}{end}" if between == begin else f"{self._line(level)}{end}"

    def _tensor(self, leaf: TensorLeaf, level: int, outline: Outline) -> Iterator[str | Payload]:
        entry = outline.entries[leaf.name]
        inner = level + 1 + (leaf.id is not None)
        tensor = {
            "bytes": Payload(leaf.name, _INDENT * inner if self.pretty else -1),
            "shape": list(entry.shape),
            "dtype": burn_dtype(entry.dtype, leaf.name),
        }
        yield from self._written(tensor if leaf.id is None else {"id": str(leaf.id), "param": tensor}, level, outline)

    def _line(self, level: int) -> str:
        return "\n" + " " * (_INDENT * level) if self.pretty else ""


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _scalar(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "null" if value is None else "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, int):
        return str(value)
    return float_text(value)


def float_text(value: float) -> str:
    """A finite float as serde_json writes it since 1.0.147: the shortest digits that give it back.

    Exponents stand where the point would be more than 16 digits behind the first digit or more than 5 before it.
    """
    assert math.isfinite(value)
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    mantissa, _, exponent_text = f"{abs(value)!r}".partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent_text or 0) - (len(whole + fraction) - len(digits))  # behind the first so many
    digits = digits.rstrip("0")
    if not digits:
        return f"{sign}0.0"
    if len(digits) <= point <= 16:
        return f"{sign}{digits.ljust(point, '0')}.0"
    if 0 < point <= 16:
        return f"{sign}{digits[:point]}.{digits[point:]}"
    if -5 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    exponent = f"e{point - 1:+d}"
    return f"{sign}{digits}{exponent}" if len(digits) == 1 else f"{sign}{digits[0]}.{digits[1:]}{exponent}"


_FILE = "burn_core::record::file::{}FileRecorder"
PRETTY_JSON = JsonText("PrettyJson", ".json", False, _FILE.format("PrettyJson"), True)
JSON_GZ = JsonText("JsonGz", ".json.gz", True, _FILE.format("JsonGz"), False)
