"""Cells of tables: found, read as numbers and truth values, shown in messages, and ordered.

The kind of a column is guessed from its values, for messages and for jobs that are written. Nothing here imports torch,
so that `burnlike check` and `init` may look at a file.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from ...errors import DataError, nearest
from .rows import NO_TEXT, Row, RowFile, delimiter_hint, lone_surrogate

LARGEST = 3.4028234663852886e38
"""Of float32."""

EXACT = 2**24
"""Up to this float32 has every whole number."""

LEFT_OUT = "; to leave such rows out say data.columns.{}: {{missing: drop}}"
"""What messages say of a target that is missing."""

_SHOWN = 40
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_TRUTH = {
    **dict.fromkeys(("true", "yes", "t", "y", "1", "1.0"), 1.0),
    **dict.fromkeys(("false", "no", "f", "n", "0", "0.0"), 0.0),
}


def cell(file: RowFile, line: int, row: Row, name: str) -> Any:
    """The value of a column in a row."""
    if name not in row:
        hint = nearest(name, [*row]) or f"; the columns are {', '.join(map(shown, [*row][:8]))}"
        raise DataError(f"{file.place(line, name)}: there is no column '{name}'{hint}{delimiter_hint([*row])}")
    value = row[name]
    if (text := lone_surrogate(value)) is not None:
        raise DataError(f"{file.place(line, name)}: '{name}': {NO_TEXT} {shown(text)}")
    return value


def is_missing(raw: Any, texts: Collection[str] = ()) -> bool:
    """True if a value is missing: null, NaN, an empty text, or one of the texts that stand for it."""
    return raw is None or raw != raw or (isinstance(raw, str) and (not raw.strip() or raw.strip() in texts))


def shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def order(name: str) -> tuple[int, float, str]:
    """Numbers by their size, then text; `nan` and `inf` are text, as they have no order or no end."""
    try:
        number = float(name)
    except ValueError:
        number = math.nan
    return (0, number, name) if math.isfinite(number) else (1, 0.0, name)


def parsed_number(raw: Any, decimal: str = ".") -> float | None:
    """The number of a value, which need not be finite; None if it is none."""
    if isinstance(raw, int | float | Decimal):
        return float(raw)
    text = str(raw)
    if decimal == "," and isinstance(raw, str):
        text = raw.replace(",", ".") if "." not in raw else ""
    try:
        return float(text) if "_" not in text else None  # 1_000 is a number for Python alone
    except ValueError:
        return None


_PLAIN = frozenset((str, int, float, bool, Decimal))


def plain_numbers(
    rows: Sequence[tuple[int, Row]], name: str, decimal: str, absent: Collection[str] = ()
) -> list[float] | None:
    """The numbers of a column, read at once; None if a cell has none, and is to be looked at by itself."""
    cells: list[Any] = [row.get(name) for _, row in rows]
    texts = [raw for raw in cells if type(raw) is str]
    if not _PLAIN.issuperset(map(type, cells)) or (texts and (decimal != "." or "_" in "".join(texts))):
        return None
    if absent and not {*absent}.isdisjoint(map(str.strip, texts)):
        return None
    try:
        numbers = [*map(float, cells)]
    except (ValueError, OverflowError):
        return None
    return numbers if all(map(math.isfinite, numbers)) else None


def number_of(file: RowFile, line: int, row: Row, name: str, decimal: str = ".", *, is_target: bool = False) -> float:
    """The finite number of a cell."""
    raw = cell(file, line, row, name)
    try:
        value = parsed_number(raw, decimal)
    except OverflowError as error:
        raise too_large(file, line, row, name) from error
    if value is None:
        wanted = "a number" if decimal == "." else "a number with a decimal comma"
        hint = "" if is_target else _suggested(name, raw)
        if is_target and is_missing(raw):
            hint = LEFT_OUT.format(name)
        raise DataError(f"{file.place(line, name)}: '{name}': expected {wanted}, got {shown(raw)}{hint}")
    if not math.isfinite(value):
        raise DataError(f"{file.place(line, name)}: '{name}': expected a finite number, got {shown(raw)}")
    return value


def too_large(file: RowFile, line: int, row: Row, name: str) -> DataError:
    return DataError(
        f"{file.place(line, name)}: '{name}': expected a number up to {LARGEST:.3g}, the largest of float32, got"
        f" {shown(row[name])}"
    )


def truth_of(raw: Any) -> float | None:
    """1 for true, yes and the like, 0 for false; None for anything else."""
    return _TRUTH.get(class_text(raw).strip().casefold())


def class_text(raw: Any) -> str:
    """The name of a category: truth values as CSV has them."""
    return str(raw).lower() if isinstance(raw, bool) else str(raw)


def _suggested(name: str, raw: Any) -> str:
    """The rule that a column of such values needs, said where a number was expected."""
    if isinstance(raw, datetime | date):
        kind = "date"
    elif not isinstance(raw, str):
        return ""
    elif DECIMAL_COMMA.fullmatch(raw.strip()):
        return '; for numbers with a decimal comma say data.decimal: ","'
    elif truth_of(raw) is not None:
        kind = "boolean"
    else:
        try:
            datetime.fromisoformat(raw.strip())
            kind = "date"
        except ValueError:
            kind = "category"
    absent = f", data.missing_values: ['{raw}']" if kind == "category" and len(str(raw)) <= 4 else ""
    return f"; say data.columns.{name}: {kind}{absent}, or leave the column out by data.exclude"


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
    counts = Counter(class_text(value).strip() for value in values if not is_missing(value, missing_values))
    gaps = len(values) - counts.total()
    if not counts:
        return KindGuess("number", is_constant=True, reasons=("no row has a value",), gaps=gaps)
    if isinstance(first := next(value for value in values if not is_missing(value, missing_values)), date):
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
    return tuple(sorted(count for count in counts if count.casefold() in stand_ins))


def _numbers(counts: Counter[str], decimal: str, *, is_text: bool) -> KindGuess | None:
    """A guess of numbers, where but for a few texts all are."""
    for mark in (decimal, "," if decimal == "." else "."):
        if not any(_is_finite(count, mark) for count in list(counts)[:_PROBED]):
            continue
        odd = {count for count in counts if not _is_finite(count, mark)}
        absent = {it for it in odd if it.casefold() in _MISSING}
        share = 1 - sum(counts[it] for it in odd) / counts.total()
        if odd != absent and not (len(odd) <= _ODD_TEXTS and share >= _NUMBERS_SHARE):
            continue
        numbers = counts.keys() - odd
        if is_text and any(len(number) > 1 and number[0] == "0" and number.isdecimal() for number in numbers):
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
    whole = [int(number) for number in numbers]
    return max(whole) - min(whole) == len(whole) - 1


def _dates(counts: Counter[str]) -> KindGuess | None:
    absent = _absent(counts, _MISSING)
    texts = [count for count in counts if count not in absent]
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
    texts, rows = [count for count in counts if count not in absent], counts.total() - sum(counts[it] for it in absent)
    if texts and all(truth_of(text) is not None for text in texts):
        return KindGuess("boolean", missing_values=absent, reasons=(f"truth values such as {shown(texts[0])}",))
    words = sum(len(text.split()) * counts[text] for text in texts) / max(rows, 1)
    if words >= _WORDS_OF_TEXT and len(texts) > _FEW_ROWS:
        return KindGuess("text", missing_values=absent, reasons=(f"sentences, of {words:.0f} words on average",))
    is_id = rows > _FEW_ROWS and len(texts) >= _ID_SHARE * rows
    reason = f"{len(texts):,} different texts in {rows:,} rows" + (" name the rows" if is_id else "")
    return KindGuess("category", missing_values=absent, is_id=is_id, reasons=(reason,))
