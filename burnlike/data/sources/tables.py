"""Rows of CSV and of JSON lines, with typed columns."""

import hashlib
import json
import math
import warnings
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError, nearest
from ..dataset import TensorDataset
from .configs import CsvConfig, JsonLinesConfig
from .rows import CsvFile, JsonLinesFile, Row, RowFile
from .splits import Splits, existing, split

_EXACT = 2**24
"""Up to this float32 has every whole number."""

_LARGEST = torch.finfo(torch.float32).max
_SHOWN = 40

_CLASSES = {str: "text", int: "a whole number", float: "a number with a fraction", bool: "a truth value"}
"""What a class may be; all those of a table are of one kind."""


class Table(Splits):
    """Rows as numbers: `(features [n, columns] float32, targets [n])`; classes become 0, 1 and so on.

    Attributes:
        features: names of the columns.
        classes: what the targets 0, 1, ... stand for, numbers by their size and then text; None where targets are
            numbers.
    """

    def __init__(self, config: CsvConfig | JsonLinesConfig) -> None:
        kind: type[RowFile] = CsvFile if isinstance(config, CsvConfig) else JsonLinesFile
        target, fraction, seed = config.target, config.validation_fraction, config.split_seed
        files = [kind(existing(config.path, "data.path", "file"))]
        if config.validation_path is not None:
            files.append(kind(existing(config.validation_path, "data.validation_path", "file")))
        tables = [list(file) for file in files]
        for file, rows in zip(files, tables, strict=True):
            if not rows:
                raise DataError(f"{file.path}: expected at least one row, got none")
        _cell(files[0], *tables[0][0], target)
        self.features = [*config.features] or [name for name in tables[0][0][1] if name != target]
        if not self.features or "" in self.features:
            raise DataError(
                f"{files[0].path}: expected columns beside '{target}', each with a name, got {self.features}; pandas"
                " writes its index without one: use to_csv(index=False), or say the columns in data.features"
            )
        said: set[str] = set()
        inputs = [
            torch.stack([_numbers(*part, name, said) for name in self.features], 1)
            for part in zip(files, tables, strict=True)
        ]
        self.classes: Sequence[str] | None = None
        if config.kind == "numbers":
            targets = [_numbers(*part, target, said) for part in zip(files, tables, strict=True)]
        else:
            self.classes, targets = _classes(files, tables, target)
        digest = hashlib.sha256(repr((self.features, target, self.classes, fraction, seed, len(files))).encode())
        for tensor in (*inputs, *targets):
            digest.update(tensor.numpy().data)
        self.fingerprint = digest.hexdigest()
        made = [TensorDataset(*part, fingerprint=self.fingerprint) for part in zip(inputs, targets, strict=True)]
        train, valid = made if len(made) == 2 else split(made[0], fraction, seed, config.path)
        super().__init__(train, valid, fingerprint=self.fingerprint)


def _numbers(file: RowFile, rows: Sequence[tuple[int, Row]], name: str, said: set[str]) -> Tensor:
    """A column as `[n]` float32; it is said once where that is not what the file has."""
    values = [_number(file, line, row, name) for line, row in rows]
    exact = torch.tensor(values, dtype=torch.float64)
    rounded = exact.float()
    if rounded.isinf().any():
        line, row = rows[int(rounded.isinf().int().argmax())]
        raise _too_large(file, line, row, name)
    if name not in said:
        for place in ((exact.abs() > _EXACT) | ((rounded == 0) & (exact != 0))).nonzero().flatten().tolist():
            line, row = rows[place]
            got = int(rounded[place].item())
            if Decimal(str(row[name])) != got:
                said.add(name)
                warnings.warn(
                    f"{file.place(line, name)}: '{name}': {_shown(row[name])} becomes {got}: tables are float32, of"
                    f" about 7 digits, with whole numbers up to {_EXACT:,}. Subtract or divide, or leave the column out"
                    " by data.features",
                    stacklevel=2,
                )
                break
    return rounded


def _number(file: RowFile, line: int, row: Row, name: str) -> float:
    raw = _cell(file, line, row, name)
    try:
        value = float(raw) if "_" not in str(raw) else None  # 1_000 is a number for Python alone
    except OverflowError as error:
        raise _too_large(file, line, row, name) from error
    except (TypeError, ValueError):
        value = None
    if value is None:
        raise DataError(f"{file.place(line, name)}: '{name}': expected a number, got {_shown(raw)}")
    if not math.isfinite(value):
        raise DataError(f"{file.place(line, name)}: '{name}': expected a finite number, got {_shown(raw)}")
    return value


def _too_large(file: RowFile, line: int, row: Row, name: str) -> DataError:
    return DataError(
        f"{file.place(line, name)}: '{name}': expected a number up to {_LARGEST:.3g}, the largest of float32, got"
        f" {_shown(row[name])}"
    )


def _classes(
    files: Sequence[RowFile], tables: Sequence[Sequence[tuple[int, Row]]], target: str
) -> tuple[list[str], list[Tensor]]:
    """The classes of the first file in their order, and the number of that of each row, `[n]` int64 for each file."""
    numbers: dict[str, int] = {}
    first: tuple[type, str] | None = None
    found = []
    for file, rows in zip(files, tables, strict=True):
        names = []
        for line, row in rows:
            raw = _cell(file, line, row, target)
            is_missing = raw is None or raw != raw or (isinstance(raw, str) and not raw.strip())
            if is_missing or type(raw) not in _CLASSES:
                got = "none" if is_missing else _shown(raw)
                raise DataError(f"{file.place(line, target)}: '{target}': expected a class, got {got}")
            first = first or (type(raw), f"line {line} of {file.path}")
            if type(raw) is not first[0]:
                raise DataError(
                    f"{file.place(line, target)}: '{target}': expected {_CLASSES[first[0]]}, as {first[1]} has, got"
                    f" {_CLASSES[type(raw)]}, {_shown(raw)}"
                )
            names.append(str(raw))
        if not found:
            numbers = {name: number for number, name in enumerate(sorted(set(names), key=_order))}
        for (line, _), name in zip(rows, names, strict=True):
            if name not in numbers:
                raise DataError(
                    f"{file.place(line, target)}: '{target}' is '{name:.40}', a class that the training has not"
                )
        found.append(torch.tensor([numbers[name] for name in names]))
    return [*numbers], found


def _cell(file: RowFile, line: int, row: Row, name: str) -> Any:
    if name not in row:
        hint = nearest(name, [*row]) or f"; the columns are {', '.join(map(_shown, [*row][:8]))}"
        raise DataError(f"{file.place(line, name)}: there is no column '{name}'{hint}")
    return row[name]


def _shown(value: Any) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _order(name: str) -> tuple[int, float, str]:
    """Numbers by their size, then text; `nan` and `inf` are text, as they have no order or no end."""
    try:
        number = float(name)
    except ValueError:
        number = math.nan
    return (0, number, name) if math.isfinite(number) else (1, 0.0, name)
