"""Keys that a table needs to be readable: of all its columns at once, as YAML to paste below `data:`.

They are looked for when a table can't be read; what is found is added to the message of its first problem.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..._regular_file import read_regular
from ...config.emit import to_flow, to_plain
from ...errors import BurnlikeError, DataError, TableError
from .column_kinds import KindGuess, column_kind, is_date
from .rows import dialect_of
from .table_cells import LARGEST, is_missing, parsed_number, truth_of
from .table_configs import ColumnConfig, TableConfig, dialect_in, table_file

_RULE_OF_GAPS: Mapping[str, Any] = {"number": "median", "category": "flag", "boolean": "flag", "date": "flag"}
_MOST_ONE_HOT = 4096


def with_remedies(error: DataError, config: TableConfig) -> DataError:
    """The error of reading a table, with the keys that make it readable, if there are any."""
    try:
        lines = [*_lines(config)]
    except (BurnlikeError, OSError, ValueError, OverflowError):  # what can't be looked at has the first message alone
        return error
    if not lines:
        return error
    text = f"{error}; the whole table can be read with these keys below `data:`, in place of those that are there:"
    return TableError("\n".join([text, *(f"  {it}" for it in lines)]))


def _lines(config: TableConfig) -> Iterator[str]:
    """The lines of YAML, without an indent; each says why in a comment."""
    opened = _opened(config)
    if opened is None:
        return
    keys, names, values = opened
    comments = dict.fromkeys(keys, "")
    decimal = getattr(config, "decimal", ".")
    guesses = {name: column_kind(values[name], decimal, config.missing_values) for name in names}
    if decimal == "." and (commas := [it for it, guess in guesses.items() if guess.decimal == ","]):
        keys["decimal"] = decimal = ","
        comments["decimal"] = f"as in {commas[0]}"
    absent = [*config.missing_values]
    for name, guess in guesses.items():
        if _expected_kind(config, name) not in ("category", "boolean", None) and guess.kind in ("number", "date"):
            absent += [it for it in guess.missing_values if it not in absent]
    if absent != [*config.missing_values]:
        keys["missing_values"] = absent
    excluded: dict[str, str] = {}
    rules: dict[str, tuple[Any, str]] = {}
    for name in names:
        if name in config.exclude or (config.features and name not in (*config.features, *config.targets)):
            continue
        guess = column_kind(values[name], decimal, absent)
        if name in config.targets:
            if guess.gaps and config.kind != "labels" and name not in config.columns:
                rules[name] = ({"missing": "drop"}, f"{guess.gaps:,} rows without a target")
            continue
        present = [it for it in values[name] if not is_missing(it, absent)]
        needed = _rule(config, name, guess, present, decimal)
        if isinstance(needed, str):
            excluded[name] = needed
        elif needed is not None:
            rules[name] = needed
    if excluded and config.features:
        keys["features"] = [it for it in config.features if it not in excluded]
        comments["features"] = "; ".join(f"without {name}: {reason}" for name, reason in excluded.items())
    elif excluded:
        keys["exclude"] = [*config.exclude, *excluded]
        comments["exclude"] = "; ".join(f"{name}: {reason}" for name, reason in excluded.items())
    for key, value in keys.items():
        yield _commented(f"{key}: {to_flow(value)}", comments.get(key, ""))
    if rules:
        moved = [it for it in config.categories if it in rules]
        if moved:
            yield f"categories: {to_flow([it for it in config.categories if it not in moved])}"
        yield "columns:"
        others = {name: (to_plain(rule, defaults=False), "") for name, rule in config.columns.items()}
        for name, (rule, reason) in (others | rules).items():
            yield _commented(f"  {to_flow(name)}: {to_flow(rule)}", reason)


def _expected_kind(config: TableConfig, name: str) -> str | None:
    """The kind that a column is read as; None for a target of classes, and a column that is not read."""
    if name in config.targets:
        return "number" if config.kind == "numbers" else None
    is_read = name not in config.exclude and (not config.features or name in config.features)
    return config.rule(name).kind if is_read else None


def _rule(
    config: TableConfig, name: str, guess: KindGuess, present: Sequence[Any], decimal: str
) -> tuple[Any, str] | str | None:
    """The rule that a column needs, with the reason; a reason to leave it out; None if it can be read as it is."""
    rule = config.rule(name)
    is_ruled = name in config.columns or name in config.categories
    reason = "; ".join(guess.reasons)
    fits = all(_fits(it, rule, decimal) for it in present)
    if not present or any(isinstance(it, list | dict) for it in present):
        return "no value in any row" if not present else "lists and objects"
    if fits and not (guess.gaps and rule.missing is None and rule.fill is None):
        return None
    if not fits and guess.kind == rule.kind == "number":  # too large for float32, which no rule changes
        return None
    if not is_ruled and not fits and (guess.is_id or guess.kind == "text"):
        return reason
    plain: dict[str, Any] = {}
    if name in config.columns:
        written = config.columns[name]
        plain = {"kind": written} if isinstance(written, str) else to_plain(written, defaults=False)
    elif is_ruled:
        plain = {"kind": "category"}
    if not fits:
        kind = "category" if guess.kind == "text" else guess.kind
        plain = {"kind": kind, **({"format": guess.format} if guess.format else {})}
        if kind == "category" and guess.distinct > _MOST_ONE_HOT:
            plain["encode"] = "index"
    kind = plain.get("kind", "number")
    if guess.gaps and rule.missing is None and rule.fill is None and kind in _RULE_OF_GAPS:
        plain["missing"] = _RULE_OF_GAPS[kind]
        reason = "; ".join(filter(None, [reason, f"{guess.gaps:,} rows without a value"]))
    if kind == "number":
        plain.pop("kind", None)
    return (plain["kind"] if [*plain] == ["kind"] else plain), reason


def _fits(value: Any, rule: ColumnConfig, decimal: str) -> bool:
    if rule.kind == "number":
        number = parsed_number(value, decimal)
        return number is not None and math.isfinite(number) and abs(number) <= LARGEST
    if rule.kind == "boolean":
        return truth_of(value) is not None
    return rule.kind != "date" or is_date(value, rule.format)


def _opened(config: TableConfig) -> tuple[dict[str, Any], list[str], dict[str, list[Any]]] | None:
    """The keys of CSV with which the rows can be read, the names of the columns, and their values in all files; None
    if there are none, or the columns that the config names are not there.
    """
    paths = [Path(it).expanduser() for it in (config.path, config.validation_path) if it is not None]
    keys: dict[str, Any] = {}
    if expected := dialect_in(config):
        dialect = dialect_of(b"\n".join(map(read_regular, paths)), expected)
        keys = {key: value for key, value in dialect._asdict().items() if value != getattr(config, key)}
    rows = [row for path in paths for _, row in table_file(config.replace(**keys), path)]
    if not rows:
        return None
    names = [*rows[0]]
    needed = {*names, *config.targets, *config.features, *config.exclude, *config.columns, *config.categories}
    if not all(needed <= row.keys() for row in rows):
        return None
    return keys, names, {name: [row[name] for row in rows] for name in names}


def _commented(line: str, comment: str) -> str:
    return f"{line}  # {comment}" if comment else line
