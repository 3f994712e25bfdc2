"""JSON: records as text with field names, pretty or gzipped, as Burn 0.21 writes them. Imports no torch.

The text is read piece by piece (RFC 8259, strictly), by a reader of our own: the numbers that are a tensor's bytes,
gigabytes of them, are gone over and stay in the file, of which libraries read all or nothing.
"""

import json
import math
import re
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import msgspec

from ...errors import RecordFormatError
from ..bytes.budget import CONTAINER, MAX_DEPTH, NUMBER, TEXT, TensorCost
from ..bytes.source import Source
from ..formats import Outline, Payload, Segment, StoredTensor, TensorEntry
from .envelope import EnvelopeFormat, artifact_of, outline_of_artifact, pieces_of
from .record_tree import Blob, has_values

_WINDOW_BYTES = 1 << 16
_SPACE = 0x20
_BLANK = re.compile(rb"[ \t\n\r]*")
_PLAIN = re.compile(rb'[^"\\\x00-\x1f]*')
_ESCAPE = re.compile(rb'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})')
_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_DIGITS = 4300
"""Digits of the longest number that is read: the most that Python turns into an integer."""
_TENSOR = TensorCost(memory=3600, steps=1100, file_bytes=8)
_FIRST_CHUNK_BYTES, _CHUNK_BYTES = 1 << 10, 1 << 16
_BYTES_PER_STEP = 12  # of the text of numbers
_DECODER = msgspec.json.Decoder(list[int])
_GOOD = re.compile(rb"(?:[ \t\n\r]*(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])[ \t\n\r]*,)*[ \t\n\r]*")
_LITERALS = {b"true": True, b"false": False, b"null": None}


class JsonReader:
    """Reads one text, UTF-8.

    A list of numbers under the key `bytes`, where one of the keys above is `item`, becomes a `Blob`: its values stay in
    the source. A map that has no shape beside them is none of a tensor, and gets them as a list, if they are few.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._budget = source.budget
        self._data, self._begin, self._at = b"", 0, 0
        self._ended = False
        self._in_item = False

    def read(self) -> dict[str, Any]:
        """The map that the text is."""
        if self._peek() != b"{":
            self._fail("expected a map with metadata and item")
        content = self._map(0)
        if self._peek():
            self._fail("expected the end")
        return content

    def _value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            self._fail(f"nested too deeply (more than {MAX_DEPTH} levels), got")
        match self._peek():
            case b"{":
                return self._map(depth)
            case b"[":
                self._at += 1
                return self._items(depth)
            case b'"':
                return self._text()
            case b"t" | b"f" | b"n":
                return self._literal()
        return self._number()

    def _map(self, depth: int) -> dict[str, Any]:
        self._budget.take(CONTAINER, 30, 2)
        entries: dict[str, Any] = {}
        few: bytes | None = None
        self._at += 1
        while self._another(b"}", bool(entries)):
            if self._peek() != b'"':
                self._fail("expected a key in quotes")
            place = self._begin + self._at
            name = sys.intern(self._text())  # most come in many maps
            if name in entries:
                raise _wrong(self._source, place, f"the key {name!r:.60} comes twice in one map")
            if self._peek() != b":":
                self._fail("expected a colon")
            self._at += 1
            if name == "bytes" and self._in_item and self._peek() == b"[":
                entries[name], few = self._bytes(depth + 1)
                continue
            above = self._in_item
            self._in_item = above or (depth == 0 and name == "item")
            entries[name] = self._value(depth + 1)
            self._in_item = above
        if isinstance(entries.get("bytes"), Blob) and few is not None and "shape" not in entries:
            self._budget.take(NUMBER * len(few), len(few))
            entries["bytes"] = list(few)
        if has_values(entries):
            self._budget.add_tensor(_TENSOR)
        return entries

    def _items(self, depth: int) -> list[Any]:
        self._budget.take(CONTAINER, 30, 2)
        items: list[Any] = []
        while self._another(b"]", bool(items)):
            items.append(self._value(depth + 1))
        return items

    def _another(self, end: bytes, behind_one: bool) -> bool:
        """True if another entry follows; goes behind the comma before it, or behind the end."""
        byte = self._peek()
        if byte == end:
            self._at += 1
            return False
        if behind_one:
            if byte != b",":
                self._fail(f"expected a comma or {end.decode()}")
            self._at += 1
        return True

    def _bytes(self, depth: int) -> tuple[Any, bytes | None]:
        """The bytes that follow, and themselves, if they are few; what else the list holds, if it begins otherwise."""
        start, count = self._begin + self._at, 0
        few: bytes | None = None
        self._at += 1
        first = self._peek()
        if not first.isdigit() and first != b"]":
            return self._items(depth), None
        stop = self._data.find(b"]", self._at)
        values = None
        if stop >= 0:
            self._budget.take(0, 20 + (stop - self._at) / _BYTES_PER_STEP)
            values = bytes_of(self._data[self._at : stop])
        if values is not None:  # all of it is at hand
            self._at = stop + 1
            return Blob(start, len(values)), values
        for run in runs(self._source, start):
            few = run.values if run.last and count == 0 else None
            count += len(run.values)
            self._data, self._begin, self._at, self._ended = b"", run.end, 0, False
        return Blob(start, count), few

    def _text(self) -> str:
        place, raw, escaped = self._begin + self._at, bytearray(), False
        self._at += 1
        plain = _PLAIN.match(self._data, self._at)
        assert plain is not None  # it may be empty
        if self._data.startswith(b'"', plain.end()):  # all of it is at hand, as most texts are
            count = plain.end() - self._at
            self._budget.take(TEXT + 2 * count, 40, 2 + count)
            self._at = plain.end() + 1
            return self._decoded(plain.group(), escaped, place + 1)
        self._budget.take(TEXT, 35, 2)
        while True:
            plain = _PLAIN.match(self._data, self._at)
            assert plain is not None  # it may be empty
            count = plain.end() - self._at
            self._budget.take(2 * count, 25, count)
            raw += plain.group()
            self._at = plain.end()
            self._need(6)
            byte = self._data[self._at : self._at + 1]
            if byte == b'"':
                self._at += 1
                return self._decoded(bytes(raw), escaped, place + 1)
            if byte == b"\\":
                escape = _ESCAPE.match(self._data, self._at)
                if escape is None:
                    self._fail("expected an escape sequence")
                raw += escape.group()
                self._at, escaped = escape.end(), True
            elif not byte or byte < b" ":
                self._fail("expected the rest of a text")

    def _decoded(self, raw: bytes, escaped: bool, place: int) -> str:
        try:
            text = raw.decode()
            if escaped:
                text = json.loads(f'"{text}"')
                text.encode()
        except UnicodeDecodeError as error:
            raise _wrong(self._source, place + error.start, f"a text is not UTF-8 ({error.reason})") from error
        except UnicodeEncodeError as error:
            what = f"a text has half of a surrogate pair ({error.object[:40]!r})"
            raise _wrong(self._source, place, what) from error
        return text

    def _literal(self) -> bool | None:
        self._need(5)
        literal = next((text for text in _LITERALS if self._data.startswith(text, self._at)), None)
        if literal is None:
            self._fail("expected a value")
        self._at += len(literal)
        self._budget.take(NUMBER, 40, 2)
        return _LITERALS[literal]

    def _number(self) -> int | float:
        self._need(2 * _DIGITS)
        match = _NUMBER.match(self._data, self._at)
        if match is None:
            self._fail("expected a value")
        text = match.group()
        if len(text) > _DIGITS:
            self._fail(f"expected a number of at most {_DIGITS} digits")
        number = int(text) if match.group(1) is match.group(2) is None else float(text)
        if isinstance(number, float) and math.isinf(number):
            self._fail("expected a number that a float of 64 bits can hold")
        self._budget.take(NUMBER, 40, 2)
        self._at = match.end()
        return number

    def _peek(self) -> bytes:
        """The next byte that is no blank, none at the end."""
        while True:
            if self._at < len(self._data) and self._data[self._at] > _SPACE:
                return self._data[self._at : self._at + 1]
            blank = _BLANK.match(self._data, self._at)
            assert blank is not None  # it may be empty
            self._at = blank.end()
            if self._at < len(self._data):
                return self._data[self._at : self._at + 1]
            if not self._more():
                return b""

    def _need(self, count: int) -> None:
        """Have `count` bytes at hand, or all that there are."""
        while len(self._data) - self._at < count and self._more():
            pass

    def _more(self) -> bool:
        """Get bytes behind those at hand, and forget those that were read; whether there were any."""
        if self._ended:
            return False
        more = self._source.read_some(self._begin + len(self._data), _WINDOW_BYTES)
        self._ended = not more
        self._data, self._begin, self._at = self._data[self._at :] + more, self._begin + self._at, 0
        return bool(more)

    def _fail(self, expected: str) -> NoReturn:
        excerpt = self._data[self._at : self._at + 20]
        what = repr(excerpt) if excerpt else "the end of the text"
        raise _wrong(self._source, self._begin + self._at, f"{expected}, got {what}")


class ArrayPart(NamedTuple):
    """Some of an array's bytes, and the offset behind their text; for the last ones, that behind the array's `]`."""

    values: bytes
    end: int
    last: bool


def runs(source: Source, start: int) -> Iterator[ArrayPart]:
    """The bytes of the array whose `[` is at `start`."""
    begin, text, first, chunk_bytes = start + 1, b"", True, _FIRST_CHUNK_BYTES
    while True:
        more = source.read_some(begin + len(text), chunk_bytes)
        chunk_bytes = min(2 * chunk_bytes, _CHUNK_BYTES)  # small at first, for files of many small tensors
        if not more:
            raise RecordFormatError(
                f"{source.path}: truncated within bytes, at byte {begin + len(text)}; save or fetch it again"
            )
        text += more
        stop = text.find(b"]")
        last = stop >= 0
        stop = stop if last else text.rfind(b",")
        if stop < 0:
            if len(text) > _CHUNK_BYTES:
                raise _no_byte(source, text, begin)
            continue
        source.budget.take(0, 10 + stop / _BYTES_PER_STEP)
        values = bytes_of(text[:stop])
        if values is None or not (values or (first and last)):
            raise _no_byte(source, text, begin)
        yield ArrayPart(values, begin + stop + 1, last)
        if last:
            return
        begin, text, first = begin + stop + 1, text[stop + 1 :], False


def bytes_of(text: bytes) -> bytes | None:
    """The bytes whose numbers the text lists; None if it lists something else."""
    if b"-" in text:  # of which -0 is a number
        return None
    try:
        return bytes(_DECODER.decode(b"[" + text + b"]"))
    except (msgspec.MsgspecError, ValueError):
        return None


def _no_byte(source: Source, text: bytes, begin: int) -> RecordFormatError:
    good = _GOOD.match(text)
    place = good.end() if good else 0
    return _wrong(source, begin + place, f"expected a number from 0 to 255, got {text[place : place + 20]!r}")


def _wrong(source: Source, place: int, what: str) -> RecordFormatError:
    return RecordFormatError(f"{source.path}: byte {place}: {what}")


_INDENT = 2


@dataclass(frozen=True)
class JsonText(EnvelopeFormat):
    """JSON with names; a `pretty` text has each value on a line of its own."""

    pretty: bool

    def segments(self, outline: Outline) -> Iterator[Segment]:
        tree = artifact_of(outline, self.recorder, None, finite=True)

        def encode(tree: Any) -> bytes:
            text = msgspec.json.encode(tree)
            return msgspec.json.format(text, indent=_INDENT) if self.pretty else text

        indent = -1
        for piece in pieces_of(tree, outline, encode, number=lambda it: msgspec.Raw(float_text(it).encode())):
            if isinstance(piece, TensorEntry):
                yield Payload(piece.name, indent)
            else:
                yield piece
                line = piece[piece.rfind(b"\n") + 1 :]
                indent = len(line) - len(line.lstrip()) if self.pretty else -1

    def read(self, source: Source, layout: object = None) -> Outline:
        numbers = Numbers(source)

        def make(blob: Blob, name: str, dtype: str, shape: tuple[int, ...], stored_as: str) -> TextTensor:
            return TextTensor(name, dtype, shape, source, blob.start, stored_as, numbers=numbers)

        return outline_of_artifact(JsonReader(source).read(), source, self.name, make)


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


class Numbers:
    """Reads the arrays of bytes in a text; keeps its place, so that reading forward takes one pass."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._lock = threading.Lock()
        self._start = -1
        self._runs: Iterator[ArrayPart] = iter(())
        self._values, self._begin = b"", 0

    def read_into(self, start: int, begin: int, into: memoryview) -> None:
        """Fill `into` with the bytes from index `begin` on of the array at `start`; several threads may."""
        with self._lock:
            if start != self._start or begin < self._begin:
                self._start, self._runs = start, runs(self._source, start)
                self._values, self._begin = b"", 0
            while into:
                skipped = begin - self._begin
                piece = self._values[skipped : skipped + len(into)]
                into[: len(piece)] = piece
                into, begin = into[len(piece) :], begin + len(piece)
                if into:
                    self._advance()

    def _advance(self) -> None:
        begin = self._begin + len(self._values)
        try:
            run = next(self._runs, None)
        except BaseException:
            self._start = -1  # the iterator has ended: begin anew next time
            raise
        if run is None:
            self._start = -1
            raise RecordFormatError(f"{self._source.path}: an array of bytes became shorter since the file was opened")
        self._values, self._begin = run.values, begin


@dataclass(slots=True, unsafe_hash=True)
class TextTensor(StoredTensor):
    """A tensor whose bytes are written as an array of numbers, its `[` at `start`; `numbers` reads them."""

    numbers: Numbers = field(kw_only=True)

    @property
    def sequential(self) -> bool:
        """See `StoredTensor`: a place within the array is found by reading what lies before."""
        return True

    def read_into(self, begin: int, into: memoryview) -> None:
        self.numbers.read_into(self.start, begin, into)


_FILE = "burn_core::record::file::{}FileRecorder"
PRETTY_JSON = JsonText("PrettyJson", ".json", False, _FILE.format("PrettyJson"), True)
JSON_GZ = JsonText("JsonGz", ".json.gz", True, _FILE.format("JsonGz"), False)
