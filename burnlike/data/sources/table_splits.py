"""The rows of a table to train on and those to validate on: drawn, by class, time or group; also as one of N folds."""

from bisect import bisect_left
from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import DataError
from .column_kinds import column_kind
from .columns import Column, Rows
from .splits import drawn
from .table_cells import cell, class_text, is_missing
from .table_configs import ColumnConfig, TableConfig

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
    return [it for it in range(count) if it not in chosen], sorted(valid)


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
        return start or next((it for it in range(count) if ordered[it] > ordered[0]), count)

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
