"""Cells of tables: found, read as numbers and truth values, shown in messages, and ordered."""

import json
import math
import re
from collections.abc import Collection
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from ...errors import DataError, nearest
from .rows import NO_TEXT, Row, RowFile, delimiter_hint, lone_surrogate

LARGEST = 3.4028234663852886e38
"""Of float32."""

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
