"""The time and memory that opening a file may take, one budget for all readers; and JSON read within it. No torch.

Time is counted in steps of about 0.1 microseconds of one core, not by a clock: a file that is refused on one machine is
refused on all. What a step and a byte are taken for is measured; `tests/record/fuzz/test_attacks.py` holds both to it.

`load_json` makes objects of a text whose characters the budget allows. A long map of one kind of member, as a header of
a million tensors, is read part by part by `map_parts`: no part takes much, so memory goes into what is kept alone.
"""

import json
import re
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, NamedTuple, Self, TypeVar

import msgspec

from ...errors import ArgumentError, RecordFormatError

STEPS_PER_SECOND = 10_000_000

MAX_DEPTH = 128
"""Levels that what is in a file may be nested; not adjustable, as Python's stack is not."""

MAX_DIMENSIONS = 64
"""Dimensions of a tensor: as many as torch computes with."""

MAX_NAME = 4096
"""Characters of a tensor's name, or of the path of a value."""

MAX_HEADER_BYTES = 100_000_000
"""Longer headers of safetensors files are refused, here and by the safetensors library; longer indices, too."""

CONTAINER, NUMBER, TEXT = 240, 32, 64
"""Bytes that a map or list, a number, and a text beside its characters take, with what the outline keeps of each."""


class TensorCost(NamedTuple):
    """The bytes of memory and steps of time that the readers of a format count for one tensor with a long name."""

    memory: float
    steps: float
    file_bytes: int
    """The least that a tensor with values takes in a file."""


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """The time and memory after which a file is refused as damaged or hostile. Use it in a `with` statement.

    The defaults are far above what records need that people make. A file that is larger than they allow, and that you
    trust, is opened with higher ones. They count for whatever is opened within the `with`, by any function and in this
    thread; reading the values of tensors is not limited, nor is what a format needs to find a tensor that has some.

    Attributes:
        seconds: of one core, for a file of any size.
        bytes_per_second: a longer file gets a second more for each of so many of its bytes.
        memory_bytes: for a file of any size.
        memory_per_byte: bytes of memory for each byte that is not a tensor's: names, places, plain values.

    Raises:
        ArgumentError: one of them is not positive.

    Example:
        >>> import io, torch
        >>> from burnlike.record import ReadLimits, Record, SafetensorsRecorder
        >>> data = SafetensorsRecorder().to_bytes(Record({"weight": torch.ones(2)}))
        >>> with ReadLimits(seconds=60, memory_bytes=8 << 30):
        ...     record = SafetensorsRecorder().from_bytes(data)
    """

    seconds: float = 2.0
    bytes_per_second: float = 20e6
    memory_bytes: float = 64 << 20
    memory_per_byte: float = 4.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise ArgumentError(f"ReadLimits: expected a positive {name}, got {getattr(self, name)!r}")

    def times(self, factor: float) -> "ReadLimits":
        """Limits that are `factor` times as high."""
        more = {name: getattr(self, name) * factor for name in ("seconds", "memory_bytes", "memory_per_byte")}
        return ReadLimits(bytes_per_second=self.bytes_per_second / factor, **more)

    def __enter__(self) -> Self:
        _limits.set((*_limits.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _limits.set(_limits.get()[:-1])


_limits: ContextVar[tuple[ReadLimits, ...]] = ContextVar("burnlike.ReadLimits", default=(ReadLimits(),))


class Budget:
    """The time and memory that are left for opening a file, or a set of files."""

    def __init__(self, path: str) -> None:
        limits = _limits.get()[-1]
        self._path = path
        self._steps = STEPS_PER_SECOND * limits.seconds
        self._steps_per_byte = STEPS_PER_SECOND / limits.bytes_per_second
        self._memory: float = limits.memory_bytes
        self._memory_per_byte = limits.memory_per_byte
        self._tensor_bytes = 0
        self._header_counts = True
        self._opened = False
        self.files = 0

    def add_file(self, size: int) -> None:
        """Grant the time for a file of `size` bytes."""
        self.files += 1
        self._steps += self._steps_per_byte * size
        self._tensor_bytes += size

    def add_header(self, size: int) -> None:
        """Grant the memory for `size` bytes that are not the values of tensors."""
        self._memory += self._memory_per_byte * size

    def compressed(self, size: int) -> None:
        """Grant the memory for a file of `size` bytes that is compressed: what is unpacked from it justifies none."""
        if self._header_counts:
            self.add_header(size)
            self._memory_per_byte, self._header_counts = 0.0, False

    def add_tensor(self, cost: TensorCost) -> None:
        """Grant what a tensor that has values costs; to no more of them than there are bytes for in the file.

        So a file of any number of tensors opens, while what is no tensor can't hide among them.
        """
        if self._tensor_bytes >= cost.file_bytes:
            self._tensor_bytes -= cost.file_bytes
            self._memory += cost.memory
            self._steps += cost.steps

    def take(self, memory: float, steps: float, size: int = 0) -> None:
        """Take bytes of memory and steps of time for a part; first grant memory for its `size` in the file.

        The values of tensors are no such parts, and a size counts only where no `add_header` granted for it.
        """
        if self._opened:
            return
        self._memory += self._memory_per_byte * size - memory
        self._steps -= steps
        if self._memory < 0 or self._steps < 0:
            what = "memory" if self._memory < 0 else "time"
            raise RecordFormatError(
                f"{self._path}: what it holds beside tensors takes far more {what} than a record of its size; it is"
                " damaged or made to do harm. If you trust it, open it with higher limits: burnlike.record.ReadLimits,"
                " or --limits on the command line"
            )

    def end(self) -> None:
        """The file is open: what is done from now on is not counted."""
        self._opened = True


T = TypeVar("T")

_PART_BYTES = 1 << 18
_BLANKS = b" \t\n\r"
_TEXTS = msgspec.json.Decoder(dict[str, str])
_LIST = msgspec.json.Decoder(list[str])
# The quote that ends a member, and the one that begins the next.
_BETWEEN_TEXTS = re.compile(rb'"[ \t\n\r]*+,[ \t\n\r]*+"')
_PAIR_BYTES, _PAIR_STEPS, _ITEM_STEPS = 160, 16, 10


class NotThisError(ValueError):
    """The text is no such map or list; the message says why."""


def map_parts(
    text: bytes,
    decoder: "msgspec.json.Decoder[dict[str, T]]",
    between: re.Pattern[bytes],
    quotes: int,
    exact: Callable[[bytes], dict[str, T]],
    first_bytes: int = _PART_BYTES,
) -> Iterator[dict[str, T]]:
    """The members of a map of JSON, some at a time; each part has no name twice, the caller compares parts.

    A part ends where `between` finds a member's last byte and the quote that begins the next. That may be in the middle
    of a text: then the part has half a text, which no reader takes for JSON, and all the rest is one part. So the text
    is JSON if all parts are.

    msgspec takes a name or key twice, and then the last one counts. That, and a key too many, shows in the number of
    quotes: each member has `quotes` of them, where nothing is escaped. Other parts are read again by `exact`.

    Raises:
        NotThisError: the text is not JSON, or no map.
    """
    begin, end = text.find(b"{") + 1, text.rfind(b"}")
    if text[:begin].strip(_BLANKS) != b"{" or end < begin or text[end:].strip(_BLANKS) != b"}":
        raise NotThisError(_why_not(text))
    while begin < end:
        match = between.search(text, begin + first_bytes, end)
        part = b"".join((b"{", memoryview(text)[begin : end if match is None else match.start() + 1], b"}"))
        try:
            members = decoder.decode(part)
            is_sure = b"\\" not in part and part.count(b'"') == quotes * len(members)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            members, is_sure = {}, False
        if not is_sure:
            try:
                members = exact(part)
            except NotThisError:
                if match is None:
                    raise
                match, members = None, exact(b"".join((b"{", memoryview(text)[begin:end], b"}")))
        yield members
        begin, first_bytes = end if match is None else match.end() - 1, _PART_BYTES


def text_pairs(text: bytes, budget: Budget, pair_bytes: int) -> Iterator[tuple[str, str]]:
    """The entries of a map from text to text, in order; the caller keeps `pair_bytes` of each, and notices duplicates.

    Raises NotThisError if `text` is no such map.
    """

    def exact(part: bytes) -> dict[str, str]:
        return checked_texts(load_json(part, budget))

    count = text.count(b'"') // 4
    budget.take(count * pair_bytes, count * _PAIR_STEPS + len(text) / 64)
    for members in map_parts(text, _TEXTS, _BETWEEN_TEXTS, 4, exact):
        yield from members.items()


def checked_texts(mapping: Any) -> dict[str, str]:
    """The map from text to text that JSON gave; NotThisError for anything else."""
    if not isinstance(mapping, dict):
        raise NotThisError("is not a JSON object")
    for item in (*mapping, *mapping.values()):
        if not isinstance(item, str):
            raise NotThisError(f"has something else: {item!r:.60}")
        try:
            item.encode()
        except UnicodeEncodeError as error:  # json takes half of a surrogate pair
            raise NotThisError(f"has half of a surrogate pair ({error.object[:40]!r})") from error
    return mapping


def text_map(text: bytes, budget: Budget) -> dict[str, str]:
    """The map from text to text that `text` is."""
    texts: dict[str, str] = {}
    budget.take(len(text), 0)
    for key, value in text_pairs(text, budget, _PAIR_BYTES):
        if key in texts:
            raise NotThisError(f"has the name {key[:80]!r} twice")
        texts[key] = value
    return texts


def texts_of(text: bytes, budget: Budget, item_bytes: int) -> list[str]:
    """The items of a list of texts, in order, of each of which the caller keeps `item_bytes`."""
    count = text.count(b'"') // 2
    budget.take(count * item_bytes, count * _ITEM_STEPS + len(text) / 64)
    try:
        return _LIST.decode(text)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NotThisError(f"is not a list of texts ({error})") from error


def _why_not(text: bytes) -> str:
    """The reason why a text that is not between braces is no map."""
    try:
        text.decode()
        msgspec.json.decode(text, type=msgspec.Raw)
    except UnicodeDecodeError as error:
        return f"is not UTF-8 (byte {error.start})"
    except (msgspec.DecodeError, RecursionError) as error:
        return f"is not valid JSON ({error})"
    return "is not a JSON object"


_LONG_TEXT = re.compile(rb'"([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL)
_LONG, _SHORT_JSON = 64, 1 << 12
_BYTES_OF = {b"{": 240, b"[": 88, b",": 40, b'"': 32, b":": 60}
_STEPS_OF = {b"{": 8, b"[": 5, b",": 2, b'"': 1, b":": 2}
"""What a character of JSON makes json.loads take, at most; a text has two quotes."""


def load_json(text: bytes, budget: Budget, parse_int: Callable[[str], int] | None = None) -> Any:
    """Parse JSON whose objects fit the budget, which is checked before one is made.

    Raises NotThisError for what is not JSON, and for a key that comes twice in one map.
    """
    counts = dict(zip(_BYTES_OF, map(text.count, _BYTES_OF), strict=True))
    if len(text) > _SHORT_JSON:  # what stands in long texts makes no objects
        budget.take(0, 2 * (counts[b'"'] - text.count(b'\\"')))
        for match in _LONG_TEXT.finditer(text):
            if match.end() - match.start() > _LONG:
                for mark in _BYTES_OF:
                    counts[mark] -= match[1].count(mark)
    memory, steps = float(len(text)), len(text) / 64
    for mark, count in counts.items():
        memory += count * _BYTES_OF[mark]
        steps += count * _STEPS_OF[mark]
    budget.take(memory, steps)
    try:
        return json.loads(text.decode(), object_pairs_hook=_once, parse_int=parse_int)
    except UnicodeDecodeError as error:
        raise NotThisError(f"is not UTF-8 (byte {error.start})") from error
    except NotThisError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotThisError(f"is not valid JSON ({error})") from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    by_name = dict(pairs)
    if len(by_name) != len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))
        raise NotThisError(f"is a map in which {twice[:80]!r} comes twice")
    return by_name
