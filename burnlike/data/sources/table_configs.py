"""Configs of tables: CSV, JSON lines and Parquet, and what becomes of their columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...config import Config, DatasetConfig, Meta
from ...config.bounds import Finite, at_most
from ...config.file_paths import FilePath
from ...config.registry import fields_of
from .configs import Fraction, Name, Seed
from .rows import KINDS, Dialect, RowFile, row_file

if TYPE_CHECKING:
    from .splits import Unlabeled
    from .tables import Table

Kind = Literal["number", "category", "boolean", "date"]
Missing = Literal["drop", "mean", "median", "mode", "flag"]
DatePart = Literal["year", "month", "day", "weekday", "day_of_year", "hour", "minute", "second", "days"]
Character = Annotated[str, Meta(min_length=1, max_length=1)]
Encoding = Literal["utf-8", "latin-1", "cp1252"]

_FITTING: dict[str, tuple[Missing, ...]] = {
    "number": ("drop", "mean", "median", "mode", "flag"),
    "category": ("drop", "mode", "flag"),
    "boolean": ("drop", "mode", "flag"),
    "date": ("drop", "mode", "flag"),
}
_ONLY = {"parts": "date", "format": "date", "encode": "category", "unknown": "category"}


class ColumnConfig(Config):
    """The preprocessing of a column of a table. It learns from the part to train on alone.

    Attributes:
        kind: `number`; `category`, text or numbers that stand for things; `boolean`, such as yes and no; or `date`.
        missing: what becomes of a value that is missing. `drop` leaves the row out, `mean` and `median` are those of
            the column, `mode` is its most frequent value. `flag` adds a column that is 1 where a value is missing; the
            others are the mean there, or 0 for a category or a boolean. None: it is an error.
        fill: what stands for a value that is missing, in place of `missing`.
        standardize: (x - mean) / standard deviation, of numbers and parts of dates; None: as `data.standardize` says.
        encode: of a category: `one_hot`, a column for each, or `index`, one column with its number.
        unknown: what a category is that the training has not: an `error`, or one of its `own` with others like it.
        parts: of a date, a column each. `weekday` is 0 on Mondays; `days` are those since 1970, with a fraction.
        format: of dates, as Python's strptime takes it; None: ISO 8601, such as 2024-01-31 or 2024-01-31T12:30.
    """

    kind: Kind = "number"
    missing: Missing | None = None
    fill: bool | Finite | str | None = None
    standardize: bool | None = None
    encode: Literal["one_hot", "index"] = "one_hot"
    unknown: Literal["error", "own"] = "error"
    parts: Annotated[tuple[DatePart, ...], Meta(min_length=1)] = ("year", "month", "day", "weekday")
    format: Name | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.missing is not None and self.missing not in (fitting := _FITTING[self.kind]):
            yield "missing", f"expected {', '.join(fitting)} for a {self.kind}, got {self.missing}"
        if self.missing is not None and self.fill is not None:
            yield "fill", "expected either `missing` or `fill`"
        if self.kind == "number" and (isinstance(self.fill, bool | str)):
            yield "fill", f"expected a number, as the column has them, got {self.fill!r}"
        if self.standardize and self.kind in ("category", "boolean"):
            yield "standardize", f"expected numbers or a date, got a {self.kind}"
        for name, kind in _ONLY.items():
            if self.kind != kind and getattr(self, name) != fields_of(ColumnConfig)[name].default:
                yield name, f"is for `kind: {kind}`, and this column is a {self.kind}"


class TableSplitConfig(Config):
    """A division of a table by a column, which need not be a feature and may be in `exclude`; one of these.

    Attributes:
        time: the latest rows are validated, later than all rows to train on. Numbers, or dates by the column's rule.
        group: all rows that have the same value are on one side.
    """

    time: Name | None = None
    group: Name | None = None

    def validate(self) -> Iterable[tuple[str, str]]:
        if (self.time is None) == (self.group is None):
            yield "time", "expected either `time` or `group`, and the name of a column"


class TableConfig(DatasetConfig["Table"], builds=".tables"):
    """The fields that all tables have; see `CsvConfig`."""

    path: FilePath
    target: Name | Annotated[tuple[Name, ...], Meta(min_length=1)]
    features: tuple[Name, ...] = ()
    exclude: tuple[Name, ...] = ()
    kind: Literal["classes", "numbers", "labels"] = "classes"
    columns: dict[str, Kind | ColumnConfig] = field(default_factory=dict)
    categories: tuple[Name, ...] = ()
    missing: Missing | None = None
    standardize: bool = False
    standardize_targets: bool = False
    missing_values: tuple[Name, ...] = ()
    separator: Name = "|"
    validation_path: FilePath | None = None
    validation_fraction: Fraction = 0.1
    split_seed: Seed = 0
    split: Literal["random", "stratified"] | TableSplitConfig = "random"
    folds: Annotated[int, Meta(ge=2), at_most(100, "each fold is a training")] | None = None
    fold: Annotated[int, Meta(ge=0, lt=100)] = 0

    @property
    def targets(self) -> tuple[str, ...]:
        """The names of the columns to predict."""
        return (self.target,) if isinstance(self.target, str) else self.target

    def validate(self) -> Iterable[tuple[str, str]]:
        for key in ("features", "exclude", "categories"):
            names: tuple[str, ...] = getattr(self, key)
            if wrong := [it for it in names if it in self.targets]:
                yield key, f"expected columns other than the target '{wrong[0]}'"
            if len(set(names)) < len(names):
                yield key, f"expected each column once, got {', '.join(names)}"
        if both := [it for it in self.features if it in self.exclude]:
            yield "exclude", f"expected other columns than those of `features`, got '{both[0]}'"
        if both := [it for it in self.categories if it in self.columns]:
            yield "categories", f"'{both[0]}' has a rule in `columns` too; keep one of them"
        for name, rule in self.columns.items():
            if name in self.targets and rule != ColumnConfig(missing="drop"):
                yield f"columns.{name}", "expected `{missing: drop}` alone, as it is a target"
        if len(self.targets) > 1 and self.kind == "classes":
            yield "target", "expected one column of classes; several columns are `kind: numbers` or `kind: labels`"

        if self.validation_path is not None and (self.split != "random" or self.folds is not None):
            yield "split" if self.folds is None else "folds", "expected none with `validation_path`: nothing is divided"
        if self.split == "stratified" and self.kind != "classes":
            yield "split", f"expected another one for `kind: {self.kind}`: `stratified` keeps the shares of classes"
        if self.fold >= (self.folds or 1):
            among = "data.folds, the number of parts" if self.folds is None else f"0 to {self.folds - 1}"
            yield "fold", f"expected {among}, got {self.fold}"
        if self.standardize_targets and self.kind != "numbers":
            yield "standardize_targets", f"expected `kind: numbers`, which is what has a mean, got `kind: {self.kind}`"

    def rule(self, name: str) -> ColumnConfig:
        """The rule of a column, completed by the table's rules for all."""
        column = self.columns.get(name, "category" if name in self.categories else "number")
        rule = ColumnConfig(kind=column) if isinstance(column, str) else column
        if rule.standardize is None:
            rule = rule.replace(standardize=self.standardize and rule.kind in ("number", "date"))
        if rule.missing is None and rule.fill is None and self.missing in _FITTING[rule.kind]:
            rule = rule.replace(missing=self.missing)
        return rule

    @property
    def item_shape(self) -> tuple[int, ...] | None:
        """The number of features; None where only the file says it."""
        if not self.features:
            return None
        count = 0
        for rule in map(self.rule, self.features):
            if rule.kind == "category" and rule.encode == "one_hot":
                return None
            one = rule.kind == "category"
            count += (len(rule.parts) if rule.kind == "date" else 1) + (rule.missing == "flag" and not one)
        return (count,)

    def unlabeled(self, sources: Sequence[Any], facts: Mapping[str, Any], directory: Path) -> "Unlabeled":
        from .tables import unlabeled

        return unlabeled(self, sources, facts)


class CsvConfig(TableConfig, tag="Csv"):
    """Rows of a CSV file whose first line has the names of the columns.

    Batches are `(features [n, columns] float32, targets)`: `[n]` classes or numbers, `[n, targets]` numbers or labels.

    Attributes:
        path: the file.
        target: the column to predict, or several.
        features: the columns to predict it from; none: all others.
        exclude: columns to leave out.
        kind: whether targets are `classes`, which are numbered in the order of their names, `numbers`, or `labels`, of
            which an item may have any number: several columns of 0 and 1, or one column of names.
        columns: what becomes of columns, by their names: a kind, or a mapping. Others are numbers.
        categories: columns that are categories, in place of a rule for each.
        missing: what becomes of missing values in columns that don't say it.
        standardize: whether numbers are standardized in columns that don't say it.
        standardize_targets: whether the loss is of (y - mean) / standard deviation of each target, learned from the
            part to train on; metrics and predictions stay in the target's own unit. For `task: Regression`.
        missing_values: texts that stand for no value, such as NA; an empty field always does.
        separator: between the names of labels in one column.
        validation_path: a file for validation; None takes a part of `path`.
        validation_fraction: how large that part is.
        split_seed: by which it is drawn.
        split: how rows are divided: `random`; `stratified`, each class with its share; `{time: COLUMN}`, the latest
            rows; or `{group: COLUMN}`, all rows of a value on one side.
        folds: cut the rows in so many parts, of which one is validated; `burnlike train CONFIG --folds 5` trains on
            each. By time, the first part is only to train on, and a fold is trained on all that is before it.
        fold: the part that is validated, from 0.
        delimiter: between fields, such as `;` or a tab, "\\t".
        decimal: the character before the fraction of numbers.
        quote: around fields that have delimiters or ends of lines.
        encoding: of the file.

    Raises:
        DataError: by `init`: a file is missing or damaged, a column is missing, or a value is not what it should be;
            the message names line and column.
    """

    delimiter: Character = ","
    decimal: Literal[".", ","] = "."
    quote: Character = '"'
    encoding: Encoding = "utf-8"

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from super().validate()
        if len({self.delimiter, self.decimal, self.quote}) < 3:
            yield "delimiter", "expected another character than `decimal` and `quote`"


class JsonLinesConfig(TableConfig, tag="JsonLines"):
    """Objects of JSON, one a line; the fields are those of `Csv`, and so are the errors."""


class ParquetConfig(TableConfig, tag="Parquet"):
    """Rows of a Parquet file; the fields are those of `Csv`, and so are the errors. It needs the extra `parquet`."""


def dialect_in(config: TableConfig) -> Dialect | None:
    """The dialect that a config says; None unless it is of CSV."""
    return Dialect(config.delimiter, config.quote, config.encoding) if isinstance(config, CsvConfig) else None


def table_file(config: TableConfig, path: Path, *, by_name: bool = False) -> RowFile:
    """A file of a table; `by_name` takes one that ends in another kind's name as that kind."""
    kind = "csv" if isinstance(config, CsvConfig) else "json" if isinstance(config, JsonLinesConfig) else "parquet"
    is_other = by_name and path.suffix.lower() in KINDS and KINDS[path.suffix.lower()] != "tabs"
    return row_file(path, dialect_in(config), KINDS[path.suffix.lower()] if is_other else kind)
