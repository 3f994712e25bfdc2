"""Regular expressions of text from files, matched in bounded time.

Python's `re` tries one way after the other, and `(a+)+b` never ends. A Pattern whose repeats could take `re` long
follows all ways at once: as the set of the places where a part of the expression may end (Thompson 1968). It says
whether there is a match, and keeps no groups.
"""

import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from re import _constants as codes, _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

from .errors import ArgumentError

LONGEST, LONGEST_TEXT = 1 << 20, 2000
"""Characters of an expression, and of a text that it is matched with."""
_DEEPEST, _FEW, _SOME = 40, 3, 6
"""Levels of groups in groups; and repeats, one after the other, that `re` tries fast enough, and in bearable time."""
_CATEGORIES: dict[Any, Callable[[str], bool]] = {
    codes.CATEGORY_DIGIT: str.isdecimal,
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_WORD: lambda it: it.isalnum() or it == "_",
    codes.CATEGORY_NOT_DIGIT: lambda it: not it.isdecimal(),
    codes.CATEGORY_NOT_SPACE: lambda it: not it.isspace(),
    codes.CATEGORY_NOT_WORD: lambda it: not (it.isalnum() or it == "_"),
}
_POSITIONS = {
    codes.AT_BEGINNING: re.compile("^"),
    codes.AT_BEGINNING_STRING: re.compile(r"\A"),
    codes.AT_BOUNDARY: re.compile(r"\b"),
    codes.AT_NON_BOUNDARY: re.compile(r"\B"),
    codes.AT_END: re.compile("$"),
    codes.AT_END_STRING: re.compile(r"\Z"),
}
_REPEATS = (codes.MAX_REPEAT, codes.MIN_REPEAT)
_ASSERTIONS = (codes.ASSERT, codes.ASSERT_NOT)
_ONE_CHARACTER = (codes.LITERAL, codes.NOT_LITERAL, codes.ANY, codes.IN)


class Pattern:
    """A regular expression, as of `re`, that takes no text long.

    Raises:
        ArgumentError: the text is no regular expression, is too long, or refers to groups.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        if len(text) > LONGEST:
            raise ArgumentError(f"expected a regular expression of at most {LONGEST} characters, got {len(text)}")
        try:
            self._tree: Any = parser.parse(text)
            tries = _tries(self._tree, 0)
            self._regex = re.compile(text) if tries <= _SOME else None
            self._plain = self._regex if tries <= _FEW else None
        except (re.error, OverflowError, RecursionError) as error:
            raise ArgumentError(
                f"expected a regular expression of Python's `re`, got {_shown(text)}: {error}"
            ) from error
        flags = self._tree.state.flags & ~(re.UNICODE | re.DOTALL | re.VERBOSE)
        if self._plain is None and flags:
            raise ArgumentError(f"{_shown(text)}: expected no flag {re.RegexFlag(flags)!r} beside so many repeats")

    def __reduce__(self) -> tuple[type["Pattern"], tuple[str]]:
        return Pattern, (self.text,)  # the parts of an expression can't be pickled

    def search(self, text: str) -> bool:
        """True if the expression is found anywhere in the text."""
        self._check(text)
        if self._plain is not None:
            return self._plain.search(text) is not None
        return bool(_Ways(text).after(self._tree, range(len(text) + 1)))

    def match(self, text: str) -> bool:
        """True if the text begins with a match."""
        self._check(text)
        return bool(_Ways(text).after(self._tree, (0,)) if self._plain is None else self._plain.match(text))

    def fullmatch(self, text: str) -> bool:
        """True if the whole text is a match."""
        self._check(text)
        if self._plain is not None:
            return self._plain.fullmatch(text) is not None
        return len(text) in _Ways(text).after(self._tree, (0,))

    def replaced(self, text: str, replacement: str) -> str:
        """The text with another one for each match, as `re.sub` makes it; `re.error` or IndexError if it can't be."""
        self._check(text)
        if self._regex is None:
            few = f"at most {_SOME} repeats, and none in another"
            raise ArgumentError(f"{_shown(self.text)}: expected {few}, where matches are replaced")
        return self._regex.sub(replacement, text)

    def _check(self, text: str) -> None:
        if len(text) > LONGEST_TEXT:
            got = f"got {len(text)}: {_shown(text)}"
            raise ArgumentError(f"{_shown(self.text)}: expected a text of at most {LONGEST_TEXT} characters, {got}")


@lru_cache(maxsize=256)
def compiled(text: str) -> Pattern:
    """The Pattern of a text, kept for the next time."""
    return Pattern(text)


def pattern_problem(text: str, replacement: str | None = None) -> str:
    """Problem of a regular expression or of its replacement; empty if there is none."""
    try:
        compiled = Pattern(text)
        if replacement is not None:
            compiled.replaced("", replacement)  # reads the replacement, also without a match
    except ArgumentError as error:
        return str(error)
    except (re.error, IndexError) as error:
        return f"{replacement!r} can't stand for a match of {_shown(text)}: {error}"
    return ""


class _Ways:
    """All ways in which parts of an expression fit a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._asserted: dict[tuple[int, int], bool] = {}  # without which nested ones would take n ** depth

    def after(self, sequence: Any, places: Iterable[int]) -> set[int]:
        """Places at which a sequence of parts can end, if it begins at one of some places."""
        places = {*places}
        for code, argument in sequence:
            if not places:
                break
            places = self._after_part(code, argument, places, bool(sequence.state.flags & re.DOTALL))
        return places

    def _after_part(self, code: Any, argument: Any, places: set[int], is_dotall: bool) -> set[int]:
        text = self._text
        if code in _ONE_CHARACTER:
            return {it + 1 for it in places if it < len(text) and _accepts(code, argument, text[it], is_dotall)}
        if code is codes.BRANCH:
            return set[int]().union(*(self.after(branch, places) for branch in argument[1]))
        if code is codes.SUBPATTERN:
            return self.after(argument[3], places)
        if code in _REPEATS:
            least, most, part = argument
            return self._after_repeat(least, most, part, places)
        if code is codes.AT:
            return {place for place in places if _POSITIONS[argument].match(text, place)}
        direction, part = argument
        return {place for place in places if self._is_asserted(direction, part, place) is (code is codes.ASSERT)}

    def _after_repeat(self, least: int, most: int, part: Any, places: set[int]) -> set[int]:
        count, before = 0, set[int]()
        while count < least and places and places != before:  # the same places again stay so
            before, places, count = places, self.after(part, places), count + 1
        reached, count = set(places), 0
        while places and count < most - least:
            places = self.after(part, places) - reached
            reached, count = reached | places, count + 1
        return reached

    def _is_asserted(self, direction: int, part: Any, place: int) -> bool:
        key = (id(part), place)
        if key not in self._asserted:
            begin = place if direction > 0 else place - part.getwidth()[0]  # which is the width of all its matches
            self._asserted[key] = begin >= 0 and bool(self.after(part, (begin,)))
        return self._asserted[key]


def _accepts(code: Any, argument: Any, character: str, is_dotall: bool) -> bool:
    if code is codes.LITERAL:
        return ord(character) == argument
    if code is codes.NOT_LITERAL:
        return ord(character) != argument
    if code is codes.ANY:
        return character != "\n" or is_dotall
    is_negated = argument[0][0] is codes.NEGATE
    return any(_is_in(kind, it, character) for kind, it in argument[is_negated:]) is not is_negated


def _is_in(kind: Any, argument: Any, character: str) -> bool:
    if kind is codes.LITERAL:
        return ord(character) == argument
    if kind is codes.RANGE:
        return argument[0] <= ord(character) <= argument[1]
    return _CATEGORIES[argument](character)


def _tries(sequence: Any, depth: int) -> float:
    """The number of repeats `re` has to try in turn, two choices as one; infinite where they are in one another."""
    if depth > _DEEPEST:
        raise ArgumentError(f"expected a regular expression with at most {_DEEPEST} groups in one another")
    count = 0.0
    for code, argument in sequence:
        if code is codes.BRANCH:
            count += max(_tries(branch, depth + 1) for branch in argument[1]) + 0.5
        elif code is codes.SUBPATTERN:
            count += _tries(argument[3], depth + 1)
            if argument[1] or argument[2]:
                raise ArgumentError("expected a regular expression whose groups have no flags of their own")
        elif code in _REPEATS:
            inside = _tries(argument[2], depth + 1)
            count += float("inf") if inside and argument[1] > 1 else inside + 1
        elif code in _ASSERTIONS:
            count += _tries(argument[1], depth + 1)
        elif code not in (*_ONE_CHARACTER, codes.AT):
            raise ArgumentError(f"expected a regular expression without references to groups and atomic groups: {code}")
    return count


def _shown(text: str) -> str:
    return repr(text if len(text) <= 200 else f"{text[:200]}...")
