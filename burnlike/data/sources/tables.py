"""Rows of CSV and of JSON lines, with typed columns."""

import csv
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ...errors import DataError, nearest
from ..tensors import TensorDataset
from .splits import Splits, existing, fingerprint_of, split

Row = Mapping[str, Any]


def csv_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """The rows of a CSV file with a head, and the line that each ends in.

    Raises:
        DataError: the file is no UTF-8 CSV, or a row has more or fewer columns than the head.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            head = next(reader, [])
            for row in reader:
                if row and len(row) != len(head):
                    raise DataError(
                        f"{path}:{reader.line_num}: expected {len(head)} columns, as the first line has, got {len(row)}"
                    )
                if row:
                    yield reader.line_num, dict(zip(head, row, strict=True))
    except (csv.Error, UnicodeDecodeError) as error:
        raise DataError(f"{path}: expected UTF-8 CSV with a first line of names: {error}") from error


def json_rows(path: Path) -> Iterator[tuple[int, Row]]:
    """The objects of JSON lines, and the number of each line.

    Raises:
        DataError: a line is no JSON object.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{path}:{number}: expected one JSON object a line: {error}") from error
            if not isinstance(row, dict):
                raise DataError(f"{path}:{number}: expected a JSON object, got {type(row).__name__}")
            yield number, row


ROWS: dict[str, Callable[[Path], Iterator[tuple[int, Row]]]] = {"csv": csv_rows, "json_lines": json_rows}


class Table(Splits):
    """Rows as numbers: `(features [n, columns] float32, targets [n])`; classes that are text become 0, 1 and so on.

    Attributes:
        features: names of the columns.
        classes: what the targets 0, 1, ... stand for, sorted; None where targets are numbers.
    """

    def __init__(
        self,
        path: str,
        kind: str,
        features: Sequence[str],
        target: str,
        *,
        is_regression: bool,
        validation_path: str | None,
        validation_fraction: float,
        seed: int,
    ) -> None:
        """Read a file, or two.

        Raises:
            DataError: a file is missing or damaged, a column is missing, or a value is no number; it names the line.
        """
        paths = [existing(path, "data.path")]
        if validation_path is not None:
            paths.append(existing(validation_path, "data.validation_path"))
        tables = [list(ROWS[kind](it)) for it in paths]
        for table, it in zip(tables, paths, strict=True):
            if not table:
                raise DataError(f"{it}: expected at least one row, got none")
        first = tables[0][0][1]
        self.features = [*features] or [name for name in first if name != target]
        self.classes: list[str] | None = None
        if not is_regression:
            self.classes = sorted({_cell(row, target, f"{paths[0]}:{line}") for line, row in tables[0]}, key=_order)
        self.fingerprint = fingerprint_of(paths, self.features, target, is_regression, validation_fraction, seed)
        made = [self._tensors(table, str(it), target) for table, it in zip(tables, paths, strict=True)]
        if len(made) == 2:
            self.train, self.valid = made
        else:
            self.train, self.valid = split(made[0], validation_fraction, seed, path)
        self.batcher, self.splits = None, {}

    def _tensors(self, rows: Sequence[tuple[int, Row]], path: str, target: str) -> TensorDataset:
        features = [[_number(row, name, f"{path}:{line}") for name in self.features] for line, row in rows]
        if self.classes is None:
            targets = torch.tensor([_number(row, target, f"{path}:{line}") for line, row in rows])
        else:
            numbers = {name: number for number, name in enumerate(self.classes)}
            found = [(line, _cell(row, target, f"{path}:{line}")) for line, row in rows]
            unknown = next(((line, name) for line, name in found if name not in numbers), None)
            if unknown is not None:
                raise DataError(f"{path}:{unknown[0]}: '{target}' is '{unknown[1]}', a class that the training has not")
            targets = torch.tensor([numbers[name] for _, name in found])
        return TensorDataset(torch.tensor(features), targets, fingerprint=self.fingerprint)


def _cell(row: Row, name: str, place: str) -> str:
    if name not in row:
        raise DataError(f"{place}: there is no column '{name}'{nearest(name, [*row])}")
    return str(row[name])


def _number(row: Row, name: str, place: str) -> float:
    text = _cell(row, name, place)
    try:
        value = float(row[name])
    except (TypeError, ValueError) as error:
        raise DataError(f"{place}: '{name}': expected a number, got '{text:.40}'") from error
    if not math.isfinite(value):
        raise DataError(f"{place}: '{name}': expected a finite number, got '{text:.40}'")
    return value


def _order(name: str) -> tuple[int, float, str]:
    """Numbers by their size, before text."""
    try:
        return 0, float(name), name
    except ValueError:
        return 1, 0.0, name
