"""Tables: rows of CSV, JSON lines and Parquet as features and targets."""

import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from ..dataset import TensorDataset
from ..transforms.datasets import SelectionDataset
from .columns import Column, Rows
from .rows import KINDS, stream_rows
from .splits import Splits, Unlabeled, existing
from .table_cells import cell, is_missing, shown, too_large
from .table_configs import TableConfig, TableSplitConfig, dialect_in, table_file
from .table_problems import with_remedies
from .table_splits import divided
from .targets import Targets

_EXACT = 2**24
"""Up to this float32 has every whole number."""


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
        files = [table_file(config, existing(config.path, "data.path", "file"))]
        if config.validation_path is not None:
            files.append(table_file(config, existing(config.validation_path, "data.validation_path", "file")))
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
        chosen = None if len(tables) > 1 else divided(config, tables[0], goals[0])
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
        self.fingerprint = _hash((*about, *later), *inputs, *goals)
        datasets = [TensorDataset(*part, fingerprint=self.fingerprint) for part in zip(inputs, goals, strict=True)]
        train, valid = datasets if chosen is None else (SelectionDataset(datasets[0], it) for it in chosen)
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
            opened = [stream_rows(source, dialect_in(config))]
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
    names = [it.name for it in columns if it.rule.missing == "drop"]
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
    for place in ((raw.abs() > _EXACT) | ((shown_as == 0) & (raw != 0))).nonzero().flatten().tolist():
        line, row = table.rows[place]
        got = int(shown_as[place].item())
        if Decimal(str(row[name]).replace(",", ".")) != got:
            warnings.warn(
                f"{table.file.place(line, name)}: '{name}': {shown(row[name])} becomes {got}: tables are float32, of"
                f" about 7 digits, with whole numbers up to {_EXACT:,}. Subtract or divide, standardize the column, or"
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


def _hash(facts: Any, *tensors: Tensor) -> str:
    digest = hashlib.sha256(repr(facts).encode())
    for tensor in tensors:
        digest.update(tensor.numpy().data)
    return digest.hexdigest()
