"""Scanning JSON in one pass without making objects of it: maps of texts, and how much memory a text will take.

Imports no torch.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from .budget import Budget

BLANK = rb"[ \t\n\r]*+"
TEXT = rb'"([^"\\\x00-\x1f]*+(?:\\[^\x00-\x1f][^"\\\x00-\x1f]*+)*+)"'
"""A text; its group is what is between the quotes."""

_TEXT = re.compile(TEXT)
_PAIR = re.compile(BLANK + TEXT + BLANK + b":" + BLANK + TEXT + BLANK + b"([,}])" + BLANK)
_USUAL_PAIR = re.compile(rb'"([^"\\\x00-\x1f]*+)":"([^"\\\x00-\x1f]*+)"([,}])')
_ITEM = re.compile(BLANK + TEXT + BLANK + rb"([,\]])" + BLANK)
_MAP = re.compile(BLANK + rb"\{" + BLANK + rb"(\}" + BLANK + b")?")
_LIST = re.compile(BLANK + rb"\[" + BLANK + rb"(\]" + BLANK + b")?")

_PAIR_BYTES, _PAIR_STEPS, _ITEM_STEPS = 160, 16, 10


class NotThisError(ValueError):
    """The text is no such map or list; the message says why."""


def text_of(raw: bytes) -> str:
    """The text that stands between two quotes as `raw`."""
    if b"\\" not in raw:
        return raw.decode()
    found = json.loads(b'"' + raw + b'"')
    found.encode()  # half of a surrogate pair is no text
    return found


def text_pairs(text: bytes, budget: Budget, pair_bytes: int) -> Iterator[tuple[str, str]]:
    """The entries of a map from text to text, in order; the caller keeps `pair_bytes` of each, and notices duplicates.

    Raises NotThisError if `text` is no such map.
    """
    count = _quotes(text) // 4
    budget.take(count * pair_bytes, count * _PAIR_STEPS + len(text) / 64)
    for key, value, _ in _entries(text, _MAP, b"}", _USUAL_PAIR, _PAIR):
        yield _decoded(key, text), _decoded(value, text)


def texts_of(text: bytes, budget: Budget, item_bytes: int) -> Iterator[str]:
    """The items of a list of texts, in order; see `text_pairs`."""
    count = _quotes(text) // 2
    budget.take(count * item_bytes, count * _ITEM_STEPS + len(text) / 64)
    for item, _ in _entries(text, _LIST, b"]", _ITEM, _ITEM):
        yield _decoded(item, text)


def _entries(
    text: bytes, opening: re.Pattern[bytes], end: bytes, usual: re.Pattern[bytes], form: re.Pattern[bytes]
) -> Iterator[tuple[bytes, ...]]:
    """The groups of the entries of a map or list, of the usual form or of any; the last is a comma or the end."""
    begin = opening.match(text)
    at, last = (0, b"") if begin is None else (begin.end(), b"," if begin[1] is None else end)
    while last == b"," and (found := usual.match(text, at) or form.match(text, at)):
        groups = found.groups()
        at, last = found.end(), groups[-1]
        yield groups
    if last != end or at != len(text):
        raise NotThisError(why_not(text, at))


def _decoded(raw: bytes, text: bytes) -> str:
    try:
        return text_of(raw) if b"\\" in raw else raw.decode()
    except ValueError as error:
        raise NotThisError(f"is not valid JSON of UTF-8 ({error})" if text.isascii() else why_not(text, 0)) from error


def _quotes(text: bytes) -> int:
    """The largest number of quotes that begin or end a text."""
    return text.count(b'"') - text.count(b'\\"')


def text_map(text: bytes, budget: Budget) -> dict[str, str]:
    """The map from text to text that `text` is."""
    found: dict[str, str] = {}
    budget.take(len(text), 0)
    for key, value in text_pairs(text, budget, _PAIR_BYTES):
        if key in found:
            raise NotThisError(f"has the name {key[:80]!r} twice")
        found[key] = value
    return found


def why_not(text: bytes, at: int) -> str:
    try:
        text.decode()
        msgspec.json.decode(text, type=msgspec.Raw)
    except UnicodeDecodeError as error:
        return f"is not UTF-8 (byte {error.start})"
    except (msgspec.DecodeError, RecursionError) as error:
        return f"is not valid JSON ({error})"
    return f"has something else at byte {at}: {text[at : at + 40]!r}"


_LONG = 64
_BYTES_OF = {b"{": 240, b"[": 88, b",": 40, b'"': 32, b":": 60}
_STEPS_OF = {b"{": 8, b"[": 5, b",": 2, b'"': 1, b":": 2}
"""What a character of JSON makes json.loads take, at most; a text has two quotes."""


def load_json(text: bytes, budget: Budget) -> Any:
    """Parse JSON whose objects fit the budget, which is checked before one is made. A duplicate key is a ValueError."""
    counts = {it: text.count(it) for it in _BYTES_OF}
    if not budget.has(*_costs(text, counts)):  # what stands in long texts makes no objects
        budget.take(0, 2 * counts[b'"'])
        for found in _TEXT.finditer(text):
            if found.end() - found.start() > _LONG:
                for it in _BYTES_OF:
                    counts[it] -= found[1].count(it)
    budget.take(*_costs(text, counts))
    return json.loads(text, object_pairs_hook=_once)


def _costs(text: bytes, counts: Mapping[bytes, int]) -> tuple[float, float]:
    """Bytes of memory and steps that it takes to parse a text with so many of each character."""
    memory = len(text) + sum(count * _BYTES_OF[it] for it, count in counts.items())
    return memory, len(text) / 64 + sum(count * _STEPS_OF[it] for it, count in counts.items())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key comes twice in one map")
    return found
