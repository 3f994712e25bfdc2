"""JSON that others wrote, read by msgspec and json within a budget. Imports no torch.

`load_json` makes objects of a text whose characters the budget allows. A long map of one kind of member, as a header of
a million tensors, is read part by part by `map_parts`: no part takes much, so memory goes into what is kept alone.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import msgspec

from .budget import Budget

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
        found = between.search(text, begin + first_bytes, end)
        part = b"".join((b"{", memoryview(text)[begin : end if found is None else found.start() + 1], b"}"))
        try:
            members = decoder.decode(part)
            is_sure = b"\\" not in part and part.count(b'"') == quotes * len(members)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            members, is_sure = {}, False
        if not is_sure:
            try:
                members = exact(part)
            except NotThisError:
                if found is None:
                    raise
                found, members = None, exact(b"".join((b"{", memoryview(text)[begin:end], b"}")))
        yield members
        begin, first_bytes = end if found is None else found.end() - 1, _PART_BYTES


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


def checked_texts(found: Any) -> dict[str, str]:
    """What JSON gave, which must be a map from text to text."""
    if not isinstance(found, dict):
        raise NotThisError("is not a JSON object")
    for item in (*found, *found.values()):
        if not isinstance(item, str):
            raise NotThisError(f"has something else: {item!r:.60}")
        try:
            item.encode()
        except UnicodeEncodeError as error:  # json takes half of a surrogate pair
            raise NotThisError(f"has half of a surrogate pair ({error.object[:40]!r})") from error
    return found


def text_map(text: bytes, budget: Budget) -> dict[str, str]:
    """The map from text to text that `text` is."""
    found: dict[str, str] = {}
    budget.take(len(text), 0)
    for key, value in text_pairs(text, budget, _PAIR_BYTES):
        if key in found:
            raise NotThisError(f"has the name {key[:80]!r} twice")
        found[key] = value
    return found


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
_LONG = 64
_BYTES_OF = {b"{": 240, b"[": 88, b",": 40, b'"': 32, b":": 60}
_STEPS_OF = {b"{": 8, b"[": 5, b",": 2, b'"': 1, b":": 2}
"""What a character of JSON makes json.loads take, at most; a text has two quotes."""


def load_json(text: bytes, budget: Budget, parse_int: Callable[[str], int] | None = None) -> Any:
    """Parse JSON whose objects fit the budget, which is checked before one is made.

    Raises NotThisError for what is not JSON, and for a key that comes twice in one map.
    """
    counts = dict(zip(_BYTES_OF, map(text.count, _BYTES_OF), strict=True))
    if not budget.has(*_costs(text, counts)):  # what stands in long texts makes no objects
        budget.take(0, 2 * counts[b'"'])
        for found in _LONG_TEXT.finditer(text):
            if found.end() - found.start() > _LONG:
                for it in _BYTES_OF:
                    counts[it] -= found[1].count(it)
    budget.take(*_costs(text, counts))
    try:
        return json.loads(text.decode(), object_pairs_hook=_once, parse_int=parse_int)
    except UnicodeDecodeError as error:
        raise NotThisError(f"is not UTF-8 (byte {error.start})") from error
    except NotThisError:
        raise
    except (ValueError, RecursionError) as error:
        raise NotThisError(f"is not valid JSON ({error})") from error


def _costs(text: bytes, counts: Mapping[bytes, int]) -> tuple[float, float]:
    """Bytes of memory and steps that it takes to parse a text with so many of each character."""
    memory, steps = float(len(text)), len(text) / 64
    for it, count in counts.items():
        memory += count * _BYTES_OF[it]
        steps += count * _STEPS_OF[it]
    return memory, steps


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names: set[str] = set()
        twice = next(name for name, _ in pairs if name in names or names.add(name))
        raise NotThisError(f"is a map in which {twice[:80]!r} comes twice")
    return found
