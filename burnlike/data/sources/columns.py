"""Columns of a table as numbers: how cells are read, what is learned of those to train on, features and targets."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import DataError, nearest
from .configs import ColumnConfig, TableConfig
from .rows import Row, RowFile
from .table_cells import LEFT_OUT, cell, class_text, is_missing, number_of, order, plain_numbers, shown, truth_of

_MOST_CATEGORIES = 4096
_MANY, _ID_SHARE = 100, 0.9
_UNKNOWN = -1.0
_SHOWN = 10
_EPOCH = datetime(1970, 1, 1)
_DAY_S = 86_400


def _mean(values: Tensor) -> float:
    return float(values.mean())


def _median(values: Tensor) -> float:
    ordered, middle = values.sort().values, len(values) // 2
    return float((ordered[middle] + ordered[-middle - 1]) / 2)


def _mode(values: Tensor) -> float:
    """The most frequent value, of several the smallest."""
    distinct, counts = values.unique(return_counts=True)
    return float(distinct[counts.argmax()])


_STATISTICS: dict[str, Callable[[Tensor], float]] = {
    "mean": _mean,
    "flag": _mean,
    "median": _median,
    "mode": _mode,
}


_WANTED = {
    "number": "a number",
    "boolean": "a truth value, such as true and false",
    "category": "a category",
    "date": "a date",
}


def _since_epoch(moment: datetime) -> float:
    """Seconds since 1970; of a time with an offset in UTC."""
    return moment.timestamp() if moment.tzinfo is not None else (moment - _EPOCH).total_seconds()


def _spelled_otherwise(text: str) -> str:
    """The spelling of a category by another program: pandas writes 1.0 for 1 in a column with gaps, True for true."""
    if text.lower() in ("true", "false"):
        return text.lower() if text[0].isupper() else text.capitalize()
    whole = text.removesuffix(".0")
    if not whole.removeprefix("-").isdecimal():
        return text
    return f"{text}.0" if whole == text else whole


def _short(number: float) -> str:
    return f"{number:.5g}"


class Rows(NamedTuple):
    """Rows of a file, with the lines that they begin in."""

    file: RowFile
    rows: Sequence[tuple[int, Row]]


class Column:
    """A column that the model sees, by a rule; what is learned of it is in `facts`, as plain values.

    Attributes:
        name: of the column.
        facts: `categories`; `fill`, what stands for missing values; `mean` and `std`. Lists, for each part of a date.
            `offsets`: whether dates have one of UTC.
    """

    def __init__(self, name: str, config: TableConfig, facts: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self.rule: ColumnConfig = config.rule(name)
        self.facts: dict[str, Any] = dict(facts or {})
        self._absent = frozenset(config.missing_values)
        self._numbers: dict[str, float] = {}
        self._decimal = getattr(config, "decimal", ".")
        self._may_miss = self.rule.missing is not None or self.rule.fill is not None

    @property
    def is_category(self) -> bool:
        return self.rule.kind == "category"

    @property
    def has_flag(self) -> bool:
        return self.rule.missing == "flag"

    @property
    def is_exact(self) -> bool:
        """True if the features are the numbers of the file as they are."""
        return self.rule.kind == "number" and not self.rule.standardize

    @property
    def features(self) -> list[str]:
        """The names of the features."""
        name = self.name
        flag = [f"{name}.missing"] if self.has_flag else []
        if self.is_category:
            if self.rule.encode == "index":
                return [name]
            unknown = [f"{name}.unknown"] if self.rule.unknown == "own" else []
            return [*(f"{name}={it}" for it in self.facts["categories"]), *unknown, *flag]
        parts = [f"{name}.{part}" for part in self.rule.parts] if self.rule.kind == "date" else [name]
        return [*parts, *flag]

    def learn_categories(self, part: Rows) -> None:
        """The categories of a file, in their order."""
        raws = ((line, self._raw(part.file, line, row)) for line, row in part.rows)
        texts = {self._text(part.file, line, raw) for line, raw in raws if raw is not None}
        self.facts["categories"] = sorted(texts, key=order)
        if len(texts) > _MOST_CATEGORIES and self.rule.encode == "one_hot":
            raise DataError(
                f"{part.file.path}: '{self.name}' has {len(texts):,} categories, expected at most"
                f" {_MOST_CATEGORIES:,} with a column for each; say data.columns.{self.name}: {{kind: category,"
                " encode: index}, or leave it out by data.exclude"
            )
        if len(texts) > _MANY and len(texts) > len(part.rows) * _ID_SHARE and self.rule.encode == "one_hot":
            warnings.warn(
                f"{part.file.path}: '{self.name}' has {len(texts):,} categories in {len(part.rows):,} rows, a column"
                " for each: it names the rows, so that nothing can be learned from it; leave it out by data.exclude",
                stacklevel=2,
            )

    def read(self, part: Rows) -> Tensor:
        """`[n, parts]` float64, NaN where a value is missing; of a category its number, -1 for an unknown one."""
        if self.rule.kind == "number":
            numbers = plain_numbers(part.rows, self.name, self._decimal, self._absent)
            if numbers is not None:
                return torch.tensor(numbers, dtype=torch.float64)[:, None]
        readers: dict[str, Callable[[RowFile, int, Any], list[float]]] = {
            "number": lambda file, line, raw: [number_of(file, line, {self.name: raw}, self.name, self._decimal)],
            "boolean": self._truth,
            "date": self._date,
            "category": self._category,
        }
        read, width = readers[self.rule.kind], len(self.rule.parts) if self.rule.kind == "date" else 1
        values: list[list[float]] = []
        for line, row in part.rows:
            raw = self._raw(part.file, line, row)
            values.append([math.nan] * width if raw is None else read(part.file, line, raw))
        if self.is_category and len(values) > 1 and all(it == [_UNKNOWN] for it in values):
            warnings.warn(
                f"{part.file.path}: '{self.name}': none of {len(values):,} rows has a category of the training, such as"
                f" {', '.join(map(shown, self.facts['categories'][:3]))}; all count as unknown",
                stacklevel=2,
            )
        return torch.tensor(values, dtype=torch.float64).reshape(len(values), width)  # also of no rows

    def learn(self, values: Tensor) -> None:
        """Learn the replacement of missing values, and the means, from the values `[n, parts]` to train on."""
        rule, width = self.rule, values.shape[1]
        present = [column[~column.isnan()] for column in values.unbind(1)]
        if self._may_miss and rule.missing not in (None, "drop") and not all(map(len, present)):
            raise DataError(
                f"'{self.name}': expected a value in the part to train on, of which to take the {rule.missing}, got"
                f" none; leave it out by data.exclude, or say data.columns.{self.name}.fill"
            )
        if rule.fill is not None:
            self.facts["fill"] = self._constant(width)
        elif rule.missing == "flag" and rule.kind == "boolean":
            self.facts["fill"] = [0.0]
        elif rule.missing in _STATISTICS and not (rule.missing == "flag" and self.is_category):
            self.facts["fill"] = [_STATISTICS[rule.missing](it) for it in present]
        if rule.standardize:
            filled = self._filled(values)
            spread = filled.std(0, correction=0)
            self.facts["mean"] = filled.mean(0).tolist()
            self.facts["std"] = torch.where(spread > 0, spread, 1.0).tolist()

    def _constant(self, width: int) -> list[float]:
        fill, rule = self.rule.fill, self.rule
        where = f"data.columns.{self.name}.fill"
        if rule.kind == "category":
            text, categories = class_text(fill), self.facts["categories"]
            if text not in categories:
                categories.append(text)
            return [float(categories.index(text))]
        if rule.kind == "date":
            return self._parts(self._moment(fill, where))
        if rule.kind == "boolean":
            value = truth_of(fill)
            if value is None:
                raise DataError(f"{where}: expected true or false, got {shown(fill)}")
            return [value]
        assert isinstance(fill, int | float)
        return [float(fill)] * width

    def _filled(self, values: Tensor) -> Tensor:
        if "fill" not in self.facts:
            return values
        return torch.where(values.isnan(), torch.tensor(self.facts["fill"], dtype=torch.float64), values)

    def encode(self, values: Tensor) -> Tensor:
        """The features `[n, features]` float64 of values that were read."""
        absent = values.isnan().any(1, keepdim=True)
        if self.is_category:
            return self._encoded(values[:, 0], absent[:, 0])
        numbers = self._filled(values)
        if self.rule.standardize:
            mean, std = (torch.tensor(self.facts[it], dtype=torch.float64) for it in ("mean", "std"))
            numbers = (numbers - mean) / std
        return torch.cat([numbers, absent.double()], 1) if self.has_flag else numbers

    def _encoded(self, numbers: Tensor, absent: Tensor) -> Tensor:
        count = len(self.facts["categories"])
        own_unknown = self.rule.unknown == "own"
        if not self.has_flag:
            numbers = self._filled(numbers[:, None])[:, 0]
        numbers = torch.where(numbers == _UNKNOWN, float(count), numbers)
        if self.has_flag:
            numbers = torch.where(absent, float(count + own_unknown), numbers)
        if self.rule.encode == "index":
            return numbers[:, None]
        return torch.nn.functional.one_hot(numbers.long(), count + own_unknown + self.has_flag).double()

    def described(self, values: Tensor) -> str:
        """The description of the column for a person, after its values were read."""
        rule, facts = self.rule, self.facts
        pieces = [rule.kind if rule.kind != "date" else f"date ({', '.join(rule.parts)})"]
        if self.is_category:
            names = facts["categories"]
            pieces[0] += f", {len(names):,} different: {', '.join(names[:_SHOWN])}{', ...' * (len(names) > _SHOWN)}"
        if count := int(values.isnan().any(1).sum()):
            stands = "" if "fill" not in facts or self.is_category else f" ({', '.join(map(_short, facts['fill']))})"
            pieces.append(f"{count:,} missing: {rule.missing or 'fill'}{stands}")
        if rule.standardize:
            mean, std = (", ".join(map(_short, facts[it])) for it in ("mean", "std"))
            pieces.append(f"standardized by mean {mean}, deviation {std}")
        return "; ".join(pieces)

    def _raw(self, file: RowFile, line: int, row: Row) -> Any:
        """The cell; None where it is missing and may be."""
        raw = cell(file, line, row, self.name)
        if not is_missing(raw, self._absent):
            return raw
        if self._may_miss:
            return None
        is_number = self.rule.kind == "number"
        wanted = "a finite number" if is_number and isinstance(raw, float) else _WANTED[self.rule.kind]
        remedy = "mean, median, flag or drop" if is_number else "mode, flag or drop"
        raise DataError(
            f"{file.place(line, self.name)}: '{self.name}': expected {wanted}, got {shown(raw)}; for missing values say"
            f" data.columns.{self.name}.missing: {remedy}, or a value by `fill`"
        )

    def _truth(self, file: RowFile, line: int, raw: Any) -> list[float]:
        value = truth_of(raw)
        if value is None:
            raise DataError(
                f"{file.place(line, self.name)}: '{self.name}': expected a truth value (true, false, yes, no, 1, 0),"
                f" got {shown(raw)}"
            )
        return [value]

    def _text(self, file: RowFile, line: int, raw: Any) -> str:
        if isinstance(raw, list | dict):
            raise DataError(f"{file.place(line, self.name)}: '{self.name}': expected a category, got {shown(raw)}")
        return class_text(raw)

    def _category(self, file: RowFile, line: int, raw: Any) -> list[float]:
        text = self._text(file, line, raw)
        if not self._numbers:
            self._numbers = {it: float(place) for place, it in enumerate(self.facts["categories"])}
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers.get(_spelled_otherwise(text))
        if number is not None:
            return [number]
        if self.rule.unknown == "own":
            return [_UNKNOWN]
        raise DataError(
            f"{file.place(line, self.name)}: '{self.name}' is {shown(text)}, a category that the training has not"
            f"{nearest(text, self.facts['categories'][:1000])}; say data.columns.{self.name}.unknown: own, for a"
            " feature of all such, and train again"
        )

    def _date(self, file: RowFile, line: int, raw: Any) -> list[float]:
        moment = self._moment(raw, lambda: f"{file.place(line, self.name)}: '{self.name}'")
        has_offset = moment.tzinfo is not None
        # Mixed, one moment would be several numbers.
        if self.facts.setdefault("offsets", has_offset) != has_offset:
            kinds = ("without an offset of UTC", "with an offset of UTC, such as +02:00")
            raise DataError(
                f"{file.place(line, self.name)}: '{self.name}': expected a time {kinds[not has_offset]}, as those"
                f" before, got {shown(raw)}"
            )
        return self._parts(moment)

    def _moment(self, raw: Any, where: str | Callable[[], str]) -> datetime:
        if isinstance(raw, date):
            return raw if isinstance(raw, datetime) else datetime(raw.year, raw.month, raw.day)
        try:
            text = str(raw).strip()
            return datetime.strptime(text, self.rule.format) if self.rule.format else datetime.fromisoformat(text)
        except ValueError as error:
            wanted = self.rule.format or "ISO 8601, such as 2024-01-31"
            remedy = "" if self.rule.format else f"; say data.columns.{self.name}.format, such as '%d.%m.%Y'"
            place = where if isinstance(where, str) else where()
            raise DataError(f"{place}: expected a date ({wanted}), got {shown(raw)}{remedy}") from error

    def _parts(self, moment: datetime) -> list[float]:
        fills: dict[str, Callable[[], float]] = {
            "weekday": moment.weekday,
            "day_of_year": lambda: moment.timetuple().tm_yday,
            "days": lambda: _since_epoch(moment) / _DAY_S,
        }
        return [float(fills[part]() if part in fills else getattr(moment, part)) for part in self.rule.parts]


_CLASSES = {str: "text", int: "a whole number", float: "a number with a fraction", bool: "a truth value"}
"""What a class may be; all those of a table are of one kind."""


class Targets(NamedTuple):
    """The reading of targets.

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
            numbers = [torch.stack([self._numbers(part, name) for name in self.names], 1) for part in parts]
            return None, [number[:, 0] if len(self.names) == 1 else number for number in numbers]
        if len(self.names) > 1:
            marks = [torch.stack([_marks(part, name) for name in self.names], 1) for part in parts]
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
        values = plain_numbers(part.rows, name, self.decimal)
        if values is None:
            values = [number_of(part.file, *row, name, self.decimal, is_target=True) for row in part.rows]
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
        if any(isinstance(label, list | dict) or is_missing(label) for label in labels):
            place = file.place(line, self.names[0])
            raise DataError(
                f"{place}: '{self.names[0]}': expected labels with '{self.separator}' between them, got {shown(raw)}"
            )
        return [class_text(label).strip() for label in labels]


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
