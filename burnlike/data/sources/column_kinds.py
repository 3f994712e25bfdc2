"""The kind of a column of a table, guessed from its values: what a message or a written job says to read it by.

Nothing here imports torch, so that `burnlike check` and `init` may look at a file.
"""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Literal, NamedTuple

from .table_cells import class_text, is_missing, parsed_number, shown, truth_of

DATE_FORMATS = (
    "%d.%m.%Y",
    "%d.%m.%y",
    "%m/%d/%Y",
    "%d/%m/%Y",
    "%m/%d/%y",
    "%d/%m/%y",
    "%Y/%m/%d",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d %b %Y",
    "%d-%b-%Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
)
"""Formats of dates that are tried after ISO 8601, also with a time behind them; the first that fits all values wins."""

_TIMES = ("", " %H:%M", " %H:%M:%S")
_MISSING_NAMES = frozenset(("na", "n/a", "#n/a", "n.a.", "nan", "null", "?", "k.a.", "k. a.", "keine angabe"))
"""Texts that stand for no value, in lower case."""
_MISSING = _MISSING_NAMES | {"none", "nil", "-", "--", ".", "unbekannt", "fehlt", "unknown", "missing"}
"""Those that do where the others are numbers or dates."""

_PROBED = 200
_WORDS_OF_TEXT = 4
_FEW_ROWS = 10
_ID_SHARE = 0.9
_NUMBERS_SHARE = 0.8
_ODD_TEXTS = 3


class KindGuess(NamedTuple):
    """A guess about a column.

    Attributes:
        kind: as a rule of `data.columns` has it; `text` where the values are sentences.
        format: of dates that are not ISO 8601.
        missing_values: texts that stand for no value, beside the empty one.
        is_id: True if the values name the rows, so that nothing can be learned from them.
        is_constant: True if there is one value, or none.
        reasons: sentences for a person about the guess, without an end.
        gaps: the number of rows without a value.
        decimal: the character before the fraction of the numbers.
        distinct: the number of different values.
    """

    kind: Literal["number", "category", "boolean", "date", "text"]
    format: str | None = None
    missing_values: tuple[str, ...] = ()
    is_id: bool = False
    is_constant: bool = False
    reasons: tuple[str, ...] = ()
    gaps: int = 0
    decimal: str = "."
    distinct: int = 0


def column_kind(values: Sequence[Any], decimal: str = ".", missing_values: Sequence[str] = ()) -> KindGuess:
    """The kind of a column from all its values, or from many of them.

    Args:
        values: texts of a CSV file, or plain values of JSON and Parquet.
        decimal: the character before the fraction of numbers, if the column is to be read as the table's config says;
            numbers with the other one are recognized too.
        missing_values: texts that are known to stand for no value.
    """
    counts = Counter(class_text(it).strip() for it in values if not is_missing(it, missing_values))
    gaps = len(values) - counts.total()
    if not counts:
        return KindGuess("number", is_constant=True, reasons=("no row has a value",), gaps=gaps)
    if isinstance(first := next(it for it in values if not is_missing(it, missing_values)), date):
        return KindGuess("date", is_constant=len(counts) == 1, gaps=gaps, distinct=len(counts))
    guess = _numbers(counts, decimal, is_text=isinstance(first, str)) or _dates(counts) or _names(counts)
    absent = frozenset(guess.missing_values)
    gaps += sum(counts[it] for it in absent)
    distinct = len(counts.keys() - absent)
    reasons = guess.reasons
    if absent:
        texts = ", ".join(map(shown, guess.missing_values))
        reasons = (*reasons, f"{texts} {'stand' if len(absent) > 1 else 'stands'} for no value")
    if distinct == 1:
        reasons = (*reasons, "each row has the same value")
    return guess._replace(reasons=reasons, gaps=gaps, is_constant=distinct <= 1, distinct=distinct)


def _absent(counts: Counter[str], stand_ins: frozenset[str]) -> tuple[str, ...]:
    return tuple(sorted(it for it in counts if it.casefold() in stand_ins))


def _numbers(counts: Counter[str], decimal: str, *, is_text: bool) -> KindGuess | None:
    """A guess of numbers, where but for a few texts all are."""
    for mark in (decimal, "," if decimal == "." else "."):
        if not any(_is_finite(it, mark) for it in list(counts)[:_PROBED]):
            continue
        odd = {it for it in counts if not _is_finite(it, mark)}
        absent = {it for it in odd if it.casefold() in _MISSING}
        share = 1 - sum(counts[it] for it in odd) / counts.total()
        if odd != absent and not (len(odd) <= _ODD_TEXTS and share >= _NUMBERS_SHARE):
            continue
        numbers = counts.keys() - odd
        if is_text and any(len(it) > 1 and it[0] == "0" and it.isdecimal() for it in numbers):
            return _names(counts)._replace(reasons=("digits with leading zeros are a code, not a number",))
        reasons = [f"numbers with a decimal {'comma' if mark == ',' else 'point'}"] if mark != decimal else []
        if is_id := _counts_rows(counts, numbers):
            reasons.append("whole numbers that count the rows")
        return KindGuess("number", None, tuple(sorted(odd)), is_id, reasons=tuple(reasons), decimal=mark)
    return None


def _is_finite(text: str, decimal: str) -> bool:
    number = parsed_number(text, decimal)
    return number is not None and math.isfinite(number)


def _counts_rows(counts: Counter[str], numbers: set[str]) -> bool:
    if len(numbers) < _FEW_ROWS or counts.total() > len(counts) or not all(map(str.isdecimal, numbers)):
        return False
    whole = [int(it) for it in numbers]
    return max(whole) - min(whole) == len(whole) - 1


def _dates(counts: Counter[str]) -> KindGuess | None:
    absent = _absent(counts, _MISSING)
    texts = [it for it in counts if it not in absent]
    if not texts or not any(map(str.isdigit, texts[0])):
        return None
    formats = [it + time for it in DATE_FORMATS for time in _TIMES]
    fitting = [it for it in (None, *formats) if all(is_date(text, it) for text in texts[:_PROBED])]
    fitting = [it for it in fitting if all(is_date(text, it) for text in texts[_PROBED:])]
    if not fitting:
        return None
    reasons = (f"dates as {fitting[0]}",) if fitting[0] else ()
    if len(fitting) > 1 and None not in fitting:
        reasons = (*reasons, f"or as {fitting[1]}, which fits all of them too")
    return KindGuess("date", fitting[0], absent, reasons=reasons)


def is_date(value: Any, pattern: str | None) -> bool:
    """True if a value is a date, or text that has this format, without one that of ISO 8601."""
    text = str(value).strip()
    try:
        _ = isinstance(value, date) or (datetime.strptime(text, pattern) if pattern else datetime.fromisoformat(text))
    except ValueError:
        return False
    return True


def _names(counts: Counter[str]) -> KindGuess:
    """A guess of truth values, categories or text."""
    absent = _absent(counts, _MISSING_NAMES)
    texts, rows = [it for it in counts if it not in absent], counts.total() - sum(counts[it] for it in absent)
    if texts and all(truth_of(it) is not None for it in texts):
        return KindGuess("boolean", missing_values=absent, reasons=(f"truth values such as {shown(texts[0])}",))
    words = sum(len(it.split()) * counts[it] for it in texts) / max(rows, 1)
    if words >= _WORDS_OF_TEXT and len(texts) > _FEW_ROWS:
        return KindGuess("text", missing_values=absent, reasons=(f"sentences, of {words:.0f} words on average",))
    is_id = rows > _FEW_ROWS and len(texts) >= _ID_SHARE * rows
    reason = f"{len(texts):,} different texts in {rows:,} rows" + (" name the rows" if is_id else "")
    return KindGuess("category", missing_values=absent, is_id=is_id, reasons=(reason,))
