"""Targets of tables and texts: classes, numbers, or any number of labels."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import DataError, nearest
from .columns import Rows
from .rows import Row, RowFile
from .table_cells import LEFT_OUT, cell, class_text, is_missing, number_of, order, shown, truth_of

_CLASSES = {str: "text", int: "a whole number", float: "a number with a fraction", bool: "a truth value"}
"""What a class may be; all those of a table are of one kind."""


class Targets(NamedTuple):
    """How targets are read.

    Attributes:
        names: of the columns.
        kind: `classes`, `numbers` or `labels`.
        separator: between the labels of one column.
        decimal: the character before the fraction of numbers.
    """

    names: tuple[str, ...]
    kind: str
    separator: str = "|"
    decimal: str = "."

    def read(self, parts: Sequence[Rows], known_classes: Sequence[str] | None) -> tuple[list[str] | None, list[Tensor]]:
        """The classes, those of the first part where none are known; and for each part `[n]` int64 classes, `[n]` or
        `[n, targets]` float64 numbers, or `[n, classes]` float32 labels.
        """
        if self.kind == "classes":
            return _classes(parts, self.names[0], known_classes)
        if self.kind == "numbers":
            numbers = [torch.stack([self._numbers(part, it) for it in self.names], 1) for part in parts]
            return None, [it[:, 0] if len(self.names) == 1 else it for it in numbers]
        if len(self.names) > 1:
            marks = [torch.stack([_marks(part, it) for it in self.names], 1) for part in parts]
            return [*self.names], marks
        return self._labels(parts, known_classes)

    def placeholder(self, count: int, facts: Mapping[str, Any]) -> Tensor:
        """Targets of items that have none."""
        if self.kind == "classes":
            return torch.zeros(count, dtype=torch.int64)
        width = len(facts["classes"]) if self.kind == "labels" else len(self.names)
        shape = (count,) if self.kind == "numbers" and width == 1 else (count, width)
        return torch.zeros(shape, dtype=torch.float32)

    def _numbers(self, part: Rows, name: str) -> Tensor:
        values = [number_of(part.file, *it, name, self.decimal, is_target=True) for it in part.rows]
        return torch.tensor(values, dtype=torch.float64)

    def _labels(self, parts: Sequence[Rows], known_classes: Sequence[str] | None) -> tuple[list[str], list[Tensor]]:
        name = self.names[0]
        names_of_rows = [[self._names(part.file, *class_name) for class_name in part.rows] for part in parts]
        classes = (
            sorted({class_name for names in names_of_rows[0] for class_name in names}, key=order)
            if known_classes is None
            else [*known_classes]
        )
        if not classes:
            raise DataError(f"{parts[0].file.path}: '{name}': expected labels, got none in any row")
        numbers = {class_name: number for number, class_name in enumerate(classes)}
        tensors = []
        for part, rows in zip(parts, names_of_rows, strict=True):
            hot = torch.zeros(len(rows), len(classes), dtype=torch.float32)
            for place, names in enumerate(rows):
                for class_name in names:
                    if class_name not in numbers:
                        raise _unknown(part.file, part.rows[place][0], name, class_name, classes)
                    hot[place, numbers[class_name]] = 1.0
            tensors.append(hot)
        return classes, tensors

    def _names(self, file: RowFile, line: int, row: Row) -> list[str]:
        """The labels of a row: of a list, or of text with separators; none of an empty one."""
        raw = cell(file, line, row, self.names[0])
        if is_missing(raw):
            return []
        labels = raw if isinstance(raw, list) else str(raw).split(self.separator)
        if any(isinstance(it, list | dict) or is_missing(it) for it in labels):
            place = file.place(line, self.names[0])
            raise DataError(
                f"{place}: '{self.names[0]}': expected labels with '{self.separator}' between them, got {shown(raw)}"
            )
        return [class_text(it).strip() for it in labels]


def _marks(part: Rows, name: str) -> Tensor:
    values = []
    for line, row in part.rows:
        raw = cell(part.file, line, row, name)
        value = truth_of(raw)
        if value is None:
            raise DataError(f"{part.file.place(line, name)}: '{name}': expected 0 or 1, got {shown(raw)}")
        values.append(value)
    return torch.tensor(values, dtype=torch.float32)


def _classes(parts: Sequence[Rows], target: str, known_classes: Sequence[str] | None) -> tuple[list[str], list[Tensor]]:
    """The classes of the first part in their order, and the number of that of each row, `[n]` int64 for each part."""
    numbers = {name: number for number, name in enumerate(known_classes or ())}
    first: tuple[type, str] | None = None
    targets = []
    for file, rows in parts:
        names = []
        for line, row in rows:
            raw = cell(file, line, row, target)
            if is_missing(raw) or type(raw) not in _CLASSES:
                got = f"none{LEFT_OUT.format(target)}" if is_missing(raw) else shown(raw)
                raise DataError(f"{file.place(line, target)}: '{target}': expected a class, got {got}")
            first = first or (type(raw), f"line {line} of {file.path}")
            if type(raw) is not first[0]:
                raise DataError(
                    f"{file.place(line, target)}: '{target}': expected {_CLASSES[first[0]]}, as {first[1]} has, got"
                    f" {_CLASSES[type(raw)]}, {shown(raw)}"
                )
            names.append(str(raw))
        if not numbers:
            numbers = {name: number for number, name in enumerate(sorted(set(names), key=order))}
        for (line, _), name in zip(rows, names, strict=True):
            if name not in numbers:
                raise _unknown(file, line, target, name, [*numbers])
        targets.append(torch.tensor([numbers[name] for name in names]))
    return [*numbers], targets


def _unknown(file: RowFile, line: int, target: str, name: str, classes: Sequence[str]) -> DataError:
    return DataError(
        f"{file.place(line, target)}: '{target}' is '{name:.40}', a class that the training has"
        f" not{nearest(name, [*classes[:1000]])}"
    )
