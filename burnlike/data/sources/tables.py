"""Tables: rows of CSV, JSON lines and Parquet as features and targets.

When a table can't be read, the keys that all its columns need, as YAML to paste below `data:`, are added to the message
of its first problem.
"""

import hashlib
import math
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..._regular_file import read_regular
from ...config.emit import to_flow, to_plain
from ...errors import BurnlikeError, DataError, TableError
from ..dataset import TensorDataset
from ..transforms.datasets import SelectionDataset
from .columns import Column, Rows, Targets
from .configs import ColumnConfig, TableConfig, TableSplitConfig, dialect_in, table_file
from .rows import KINDS, dialect_of, stream_rows
from .splits import Splits, Unlabeled, drawn, existing
from .table_cells import (
    EXACT,
    LARGEST,
    KindGuess,
    cell,
    class_text,
    column_kind,
    is_date,
    is_missing,
    parsed_number,
    shown,
    too_large,
    truth_of,
)

Parts = tuple[list[int], list[int]]
"""The numbers of the rows to train on, and of those to validate on, in their order."""


def divided(config: TableConfig, table: Rows, targets: Tensor) -> Parts:
    """The two parts of a table, by `data.split`, `folds` and `fold`.

    Args:
        targets: `[n]` classes, for `split: stratified`.
    """
    count = len(table.rows)
    if isinstance(config.split, str):
        labels = targets.tolist() if config.split == "stratified" else [0] * count
        train, valid = _drawn(config, labels)
    elif config.split.time is not None:
        train, valid = _latest(config, _times(config, table, config.split.time), config.split.time)
    else:
        assert config.split.group is not None
        train, valid = _by_group(config, _groups(table, config.split.group))
    if not (train and valid):
        by = f"data.folds {config.folds}" if config.folds else f"validation_fraction {config.validation_fraction}"
        raise DataError(
            f"{config.path}: expected at least two items, some to train on and some to validate on, got {count} with"
            f" {by}{_way(config)}"
        )
    return train, valid


def _way(config: TableConfig) -> str:
    if isinstance(config.split, str):
        return "" if config.split == "random" else f" and data.split {config.split}"
    return (
        f" and data.split by the {'time' if config.split.time else 'group'} '{config.split.time or config.split.group}'"
    )


def _without(valid: Sequence[int], count: int) -> Parts:
    chosen = frozenset(valid)
    return [index for index in range(count) if index not in chosen], sorted(valid)


def _shuffled(count: int, seed: int) -> list[int]:
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed)).tolist()


def _drawn(config: TableConfig, labels: Sequence[int]) -> Parts:
    """Rows that a seed draws, of each label as many as its share."""
    count, fraction = len(labels), config.validation_fraction
    order = sorted(_shuffled(count, config.split_seed), key=labels.__getitem__)  # drawn within each label
    if config.folds is not None:
        return _without(order[config.fold :: config.folds], count)
    if config.split == "random":
        return drawn(count, fraction, config.split_seed)
    rows_of: dict[int, list[int]] = {}
    for row in order:
        rows_of.setdefault(labels[row], []).append(row)
    quotas = {label: len(rows) * fraction for label, rows in rows_of.items()}
    sizes = {label: int(quota) for label, quota in quotas.items()}
    left = max(1, round(count * fraction)) - sum(sizes.values())
    # A class keeps a row to train on.
    several = [label for label, rows in rows_of.items() if sizes[label] + 1 < len(rows)]
    for label in sorted(several, key=lambda it: sizes[it] - quotas[it])[:left]:  # the largest remainders
        sizes[label] += 1
    return _without([row for label, rows in rows_of.items() for row in rows[: sizes[label]]], count)


def _groups(table: Rows, name: str) -> list[str]:
    groups = []
    for line, row in table.rows:
        raw = cell(table.file, line, row, name)
        if is_missing(raw):
            raise DataError(
                f"{table.file.place(line, name)}: '{name}': expected the group of the row, by which data.split divides,"
                " got none"
            )
        groups.append(class_text(raw))
    return groups


def _by_group(config: TableConfig, groups: Sequence[str]) -> Parts:
    """All rows of a group on one side; folds have about as many rows each."""
    rows_of: dict[str, list[int]] = {}
    for row, group in enumerate(groups):
        rows_of.setdefault(group, []).append(row)
    names = [*rows_of]
    order = [names[it] for it in _shuffled(len(names), config.split_seed)]
    valid: list[int] = []
    if config.folds is None:
        for name in order[:-1]:  # at least one is for the training
            if len(valid) >= len(groups) * config.validation_fraction:
                break
            valid += rows_of[name]
    else:
        sizes = [0] * config.folds
        for name in sorted(order, key=lambda it: -len(rows_of[it])):
            lightest = sizes.index(min(sizes))
            sizes[lightest] += len(rows_of[name])
            valid += rows_of[name] if lightest == config.fold else []
    return _without(valid, len(groups))


def _times(config: TableConfig, table: Rows, name: str) -> list[float]:
    """The time of each row, as a number: by the column's rule, or of ISO 8601 and plain numbers without one."""
    file, rows = table
    rule = config.rule(name)
    if name not in config.columns:
        guess = column_kind([cell(file, line, row, name) for line, row in rows], getattr(config, "decimal", "."))
        if guess.format is not None:
            raise DataError(
                f"{file.path}: '{name}', by which data.split divides: expected numbers or dates of ISO 8601; say"
                f' data.columns.{name}: {{kind: date, format: "{guess.format}"}}'
            )
        rule = ColumnConfig(kind="date" if guess.kind == "date" else "number")
    if rule.kind not in ("number", "date"):
        raise DataError(
            f"data.split.time: expected a column of numbers or dates, and data.columns.{name} is a {rule.kind}"
        )
    plain = (
        ColumnConfig(kind="number")
        if rule.kind == "number"
        else ColumnConfig(kind="date", parts=("days",), format=rule.format)
    )
    return Column(name, config.replace(columns={name: plain}, missing=None)).read(table)[:, 0].tolist()


def _latest(config: TableConfig, times: Sequence[float], name: str) -> Parts:
    """The latest rows to validate on, all of them later than those to train on; of folds, the rows between two times,
    and all before them to train on.
    """
    count = len(times)
    order = sorted(range(count), key=times.__getitem__)
    ordered = [times[it] for it in order]

    def cut(place: int) -> int:
        """The nearest place before which all are earlier: rows of one time stay together."""
        start = bisect_left(ordered, ordered[min(place, count - 1)]) if place < count else count
        return start or next((index for index in range(count) if ordered[index] > ordered[0]), count)

    if config.folds is None:
        begin, end = cut(count - max(1, round(count * config.validation_fraction))), count
    else:
        size = count // (config.folds + 1)
        begin, end = (cut(count - (config.folds - config.fold - it) * size) for it in (0, 1))
    if begin >= end:
        different = len({*ordered})
        folds = "" if config.folds is None else f" for {config.folds} folds"
        raise DataError(
            f"{config.path}: '{name}' has {different:,} different times in {count:,} rows, too few{folds}: the rows to"
            " validate on are later than all to train on"
        )
    return sorted(order[:begin]), sorted(order[begin:end])


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
    return TableError("\n".join([text, *(f"  {line}" for line in lines)]))


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
        keys["features"] = [feature for feature in config.features if feature not in excluded]
        comments["features"] = "; ".join(f"without {name}: {reason}" for name, reason in excluded.items())
    elif excluded:
        keys["exclude"] = [*config.exclude, *excluded]
        comments["exclude"] = "; ".join(f"{name}: {reason}" for name, reason in excluded.items())
    for key, value in keys.items():
        yield _commented(f"{key}: {to_flow(value)}", comments.get(key, ""))
    if rules:
        moved = [category for category in config.categories if category in rules]
        if moved:
            yield f"categories: {to_flow([category for category in config.categories if category not in moved])}"
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


class Table(Splits):
    """Rows as numbers: `(features [n, columns] float32, targets)`; classes become 0, 1 and so on.

    Attributes:
        features: names of the columns of the features.
        classes: what the targets 0, 1, ... stand for, numbers by their size and then text; None where targets are
            numbers.
    """

    def __init__(self, config: TableConfig, facts: Mapping[str, Any] | None = None) -> None:
        """Read a table.

        Args:
            facts: what a run has learned of its table, in place of what is learned of this one.
        """
        try:
            self._read(config, facts)
        except DataError as error:
            raise (with_remedies(error, config) if facts is None else error) from error.__cause__

    def _read(self, config: TableConfig, facts: Mapping[str, Any] | None) -> None:
        fraction, seed = config.validation_fraction, config.split_seed
        # New data of a run may be of another kind, as for `predict`.
        by_name = facts is not None
        files = [table_file(config, existing(config.path, "data.path", "file"), by_name=by_name)]
        if config.validation_path is not None and config.validation_path != config.path:
            path = existing(config.validation_path, "data.validation_path", "file")
            files.append(table_file(config, path, by_name=by_name))
        tables = [Rows(file, list(file)) for file in files]
        for file, rows in tables:
            if not rows:
                raise DataError(f"{file.path}: expected at least one row, got none")
        columns = _columns(config, tables[0], facts)
        counts = [len(table.rows) for table in tables]
        tables = [_kept(config, table, columns) for table in tables]
        self._dropped = sum(counts) - sum(len(table.rows) for table in tables)
        targets = Targets(config.targets, config.kind, config.separator, getattr(config, "decimal", "."))
        classes, goals = targets.read(tables, None if facts is None else facts["classes"])
        if facts is None:
            for column in columns:
                if column.is_category:
                    column.learn_categories(tables[0])
        values = [[column.read(table) for column in columns] for table in tables]
        chosen = None if config.validation_path is not None else divided(config, tables[0], goals[0])
        if facts is None:
            taken = slice(None) if chosen is None else torch.tensor(chosen[0])
            for column, column_values in zip(columns, values[0], strict=True):
                column.learn(column_values[taken])
            target_scale = _scale(goals[0][taken]) if config.standardize_targets else None
        else:
            target_scale = facts.get("target_scale")
        inputs = [_features(columns, *it) for it in zip(tables, values, strict=True)]
        goals = [_rounded(config, *it) for it in zip(tables, goals, strict=True)]
        self.features = [name for column in columns for name in column.features]
        about = (self.features, config.target, classes, fraction, seed, len(files))
        # Keys of later releases count where they are used, so that runs of earlier ones find their data unchanged.
        later = [*([] if target_scale is None else [target_scale])]
        if config.split != "random" or config.folds is not None:
            later.append(str((config.split, config.folds, config.fold)))
        digest = hashlib.sha256(repr((*about, *later)).encode())
        for tensor in (*inputs, *goals):
            digest.update(tensor.numpy().data)
        self.fingerprint = digest.hexdigest()
        datasets = [TensorDataset(*part, fingerprint=self.fingerprint) for part in zip(inputs, goals, strict=True)]
        # A file that validates itself was read once.
        train, valid = (
            (datasets[0], datasets[-1]) if chosen is None else (SelectionDataset(datasets[0], it) for it in chosen)
        )
        learned = {
            "features": self.features,
            "columns": {column.name: column.facts for column in columns},
            "targets": [*config.targets] if config.kind == "numbers" else [],
        }
        if target_scale is not None:
            learned["target_scale"] = target_scale
        super().__init__(train, valid, fingerprint=self.fingerprint, classes=classes, facts=learned)
        self.said = [*_target_notes(config, goals[0])]
        self._columns = {
            it.name: it.described(column_values) for it, column_values in zip(columns, values[0], strict=True)
        }

    def describe(self) -> list[str]:
        """The numbers of items and of each class, and what each column is."""
        width = max(map(len, self._columns))
        dropped = [f"left out  {self._dropped:,} rows that lack a value (missing: drop)"] if self._dropped else []
        columns = [f"column    {name:<{width}}  {text}" for name, text in self._columns.items()]
        return [*super().describe(), *dropped, f"features  {len(self.features):,}", *columns]

    def labels(self) -> list[int] | None:
        if self.classes is None or not len(self.train) or self.train[0][1].dim() == 0:
            return None
        rows = torch.stack([self.train[place][1] for place in range(len(self.train))])
        return rows.nonzero()[:, 1].tolist()

    def examples(self, count: int) -> list[str]:
        """The first items to train on: each feature by its name, and the target."""
        parts = []
        for place in range(min(count, len(self.train))):
            inputs, target = self.train[place]
            pairs = zip(self.features, inputs.tolist(), strict=True)
            is_class = self.classes is not None and not target.is_floating_point()
            goal = self.classes[int(target)] if self.classes is not None and is_class else target.tolist()
            parts.append(f"{', '.join(f'{name} {value:.5g}' for name, value in pairs)} -> {goal}")
        return parts


def unlabeled(config: TableConfig, sources: Sequence[Any], facts: Mapping[str, Any]) -> Unlabeled:
    """New rows, whose targets are ignored; those of a stream are JSON lines if it begins with a brace."""
    columns = [Column(name, config, column_facts) for name, column_facts in facts["columns"].items()]
    features, names = [], []
    for source in sources:
        if isinstance(source, Path):
            files = [source] if not source.is_dir() else sorted(it for it in source.iterdir() if it.suffix in KINDS)
            opened = [table_file(config, it, by_name=True) for it in files]
        else:
            opened = [stream_rows(source, [it.name for it in columns], dialect_in(config))]
        for file in opened:
            table = Rows(file, list(file))
            values = [column.read(table) for column in columns]
            for column, column_values in zip(columns, values, strict=True):
                absent = column_values.isnan().any(1)
                if column.rule.missing == "drop" and absent.any():
                    line, _ = table.rows[int(absent.int().argmax())]
                    raise DataError(
                        f"{table.file.place(line, column.name)}: '{column.name}': expected a value, got none; rows"
                        " without one were left out of the training (missing: drop), and can't be predicted"
                    )
            features.append(_features(columns, table, values))
            names += [f"{file.path}:{line}" for line, _ in table.rows]
    inputs = torch.cat(features) if features else torch.zeros(0, len(facts["features"]), dtype=torch.float32)
    targets = Targets(config.targets, config.kind).placeholder(len(inputs), facts)
    return Unlabeled(TensorDataset(inputs, targets), names)


def _columns(config: TableConfig, table: Rows, learned: Mapping[str, Any] | None) -> list[Column]:
    if learned is not None:
        return [Column(name, config, facts) for name, facts in learned["columns"].items()]
    (file, rows), targets = table, config.targets
    line, row = rows[0]
    for name in (*targets, *config.exclude, *config.columns, *config.categories):
        cell(file, line, row, name)
    names = [*config.features] or [name for name in row if name not in (*targets, *config.exclude)]
    if not names or "" in names:
        raise DataError(
            f"{file.path}: expected columns beside '{', '.join(targets)}', each with a name, got {names}; pandas"
            " writes its index without one: use to_csv(index=False), or say the columns in data.features"
        )
    return [Column(name, config) for name in names]


def _kept(config: TableConfig, table: Rows, columns: Sequence[Column]) -> Rows:
    """The rows without those that have a missing value in a column for which they are to be left out."""
    names = [column.name for column in columns if column.rule.missing == "drop"]
    if isinstance(config.split, TableSplitConfig):
        by = config.split.time or config.split.group or ""
        names += [by] if config.rule(by).missing == "drop" and by not in names else []
    names += [name for name in config.targets if name in config.columns]
    if not names:
        return table
    (file, rows), absent = table, frozenset(config.missing_values)
    kept = [(line, row) for line, row in rows if not any(is_missing(cell(file, line, row, it), absent) for it in names)]
    if not kept:
        raise DataError(f"{file.path}: each of its {len(rows)} rows lacks a value in one of {', '.join(names)}")
    return Rows(file, kept)


def _features(columns: Sequence[Column], table: Rows, values: Sequence[Tensor]) -> Tensor:
    """`[n, features]` float32."""
    features = []
    for column, column_values in zip(columns, values, strict=True):
        exact = column.encode(column_values)
        features.append(_float32(column.name, table, exact, column_values[:, 0] if column.is_exact else None))
    return torch.cat(features, 1)


def _rounded(config: TableConfig, table: Rows, targets: Tensor) -> Tensor:
    if targets.dtype != torch.float64:
        return targets
    each = targets.reshape(len(targets), -1).unbind(1)
    numbers = [_float32(name, table, it[:, None], it) for name, it in zip(config.targets, each, strict=True)]
    return torch.cat(numbers, 1).reshape(targets.shape)


def _float32(name: str, table: Rows, exact: Tensor, raw: Tensor | None) -> Tensor:
    """The values as float32; it is said once where that is not what the file has.

    Args:
        raw: `[n]`, the numbers of the file, where these are the values.
    """
    rounded = exact.float()
    if (wrong := rounded.isinf().any(1)).any():
        raise too_large(table.file, *table.rows[int(wrong.int().argmax())], name)
    if raw is None:
        return rounded
    shown_as = raw.float()
    for place in ((raw.abs() > EXACT) | ((shown_as == 0) & (raw != 0))).nonzero().flatten().tolist():
        line, row = table.rows[place]
        got = int(shown_as[place].item())
        if Decimal(str(row[name]).replace(",", ".")) != got:
            warnings.warn(
                f"{table.file.place(line, name)}: '{name}': {shown(row[name])} becomes {got}: tables are float32, of"
                f" about 7 digits, with whole numbers up to {EXACT:,}. Subtract or divide, standardize the column, or"
                " leave it out by data.exclude",
                stacklevel=2,
            )
            break
    return rounded


def _scale(targets: Tensor) -> dict[str, list[float]]:
    """The mean and the deviation of each target, of `[n]` or `[n, targets]` float64; a constant one has 1."""
    each = targets.reshape(len(targets), -1)
    spread = each.std(0, correction=0)
    return {"mean": each.mean(0).tolist(), "std": torch.where(spread > 0, spread, 1.0).tolist()}


def _target_notes(config: TableConfig, targets: Tensor) -> Iterator[str]:
    """A line about targets that a model with first values near 0 takes long to reach."""
    if config.kind != "numbers" or config.standardize_targets or len(targets) < 2:
        return
    each = zip(config.targets, targets.reshape(len(targets), -1).unbind(1), strict=True)
    if large := [f"{name} {it.min():.5g}..{it.max():.5g}" for name, it in each if it.double().square().mean() > 100]:
        yield f"targets   {', '.join(large)}: data.standardize_targets: true trains faster on such numbers"
