"""Configs of data sets that are read from files: images, tokens, directories, and tables with their columns."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from ...config import Config, DatasetConfig, Meta
from ...config.bounds import Finite, Size, at_most
from ...config.file_paths import FilePath
from ...config.registry import fields_of
from .rows import KINDS, Dialect, RowFile, row_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from .splits import Splits, Unlabeled
    from .tables import Table
    from .tokens import TokenFile


Fraction = Annotated[float, Meta(gt=0, lt=1)]
Seed = Annotated[int, Meta(ge=0, lt=2**32)]
Name = Annotated[str, Meta(min_length=1)]
NumberType = Literal["uint8", "uint16", "uint32", "int32", "int64"]


class DigitsConfig(DatasetConfig["Splits"], tag="Digits", builds=".images:digits"):
    """The 1,797 images of handwritten digits that scikit-learn has, 8 x 8 pixels; nothing is downloaded.

    Batches are `(images [n, 1, 8, 8] float32 in 0..1, classes [n])`; with `flat`, images are `[n, 64]`.

    Attributes:
        flat: give rows in place of images.
        validation_fraction: share of the images to validate on.
        test_fraction: share of the images that are kept for the end, as the split `test`; 0 keeps none.
        split_seed: by which they are drawn.

    Raises:
        DataError: by `init`: scikit-learn is not installed.
    """

    flat: bool = False
    validation_fraction: Fraction = 0.15
    test_fraction: Annotated[float, Meta(ge=0, lt=1)] = 0.15
    split_seed: Seed = 0

    @property
    def item_shape(self) -> tuple[int, ...]:
        return (64,) if self.flat else (1, 8, 8)


class ImageFolderConfig(DatasetConfig["Splits"], tag="ImageFolder", builds=".images:image_splits"):
    """A folder with a folder of images for each class; or, with `masks`, images and masks of the same names.

    Batches are `(images [n, channels, height, width] float32 in 0..1, targets)`: classes `[n]`, or of pixels
    `[n, height, width]`. It needs the extra `images`.

    Attributes:
        path: the folder.
        masks: the folder of masks, whose pixels are classes; None for classification. They are PNG, BMP, TIFF or PPM.
        size: height and width that all images are resized to; None leaves them, and all must have one size.
        mode: `RGB` or `L` (grey).
        validation_path: a folder for validation; None takes a part of `path`.
        validation_fraction: how large that part is.
        split_seed: by which it is drawn.

    Raises:
        DataError: by `init`: a folder is missing or has no images, an image has no mask, or two masks have one name.
    """

    path: FilePath
    masks: FilePath | None = None
    size: Annotated[tuple[Size, ...], Meta(min_length=2, max_length=2)] | None = None
    mode: Literal["RGB", "L"] = "RGB"
    validation_path: FilePath | None = None
    validation_fraction: Fraction = 0.1
    split_seed: Seed = 0

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.masks is not None and self.validation_path is not None:
            yield "validation_path", "expected none with `masks`: a part of `path` is taken"

    @property
    def item_shape(self) -> tuple[int, ...] | None:
        """Shape of an image; None where the files say it."""
        return None if self.size is None else (3 if self.mode == "RGB" else 1, *self.size)

    def unlabeled(self, sources: "Sequence[Any]", facts: "Mapping[str, Any]", directory: "Path") -> "Unlabeled":
        from .images import new_images

        return new_images(self, sources)


class TokensConfig(DatasetConfig["TokenFile"], tag="Tokens", builds=".tokens"):
    """Tokens in a file, as other programs write them; the file may be larger than memory.

    Batches are `[n, context_length + 1]` int64.

    Attributes:
        path: `.npy`, or the bare numbers in little endian.
        dtype: of bare numbers.
        validation_path: a file for validation; None takes the end of `path`.
        validation_fraction: how large that part is.
        context_length: tokens that the model sees at once.

    Raises:
        DataError: by `init`: a file is missing, no file of tokens, or too short.
    """

    path: FilePath
    dtype: NumberType = "uint16"
    validation_path: FilePath | None = None
    validation_fraction: Fraction = 0.1
    context_length: Size = 128


class HuggingFaceConfig(DatasetConfig["Splits"], tag="HuggingFace", builds=".hugging_face:hugging_face"):
    """A data set of Hugging Face that `save_to_disk` has written. It needs the extra `datasets`.

    Batches are mappings of the columns, as torch's default collate makes them; with two `columns`, pairs.

    Attributes:
        path: the folder.
        columns: those to take; with two of them, batches are `(first, second)`. None takes all.
        train_split, valid_split: names of the parts, where the folder has several; without a part for validation a
            share of the other is taken.
        validation_fraction: how large that share is.
        split_seed: by which it is drawn.

    Raises:
        DataError: by `init`: the folder is missing or no such data set, or a part or a column is missing.
    """

    path: FilePath
    columns: tuple[Name, ...] = ()
    train_split: Name = "train"
    valid_split: Name = "validation"
    validation_fraction: Fraction = 0.1
    split_seed: Seed = 0


class ComposedConfig(DatasetConfig, tag="Composed"):
    """Several data sets of one kind, one after the other: the parts to train on together, and those to validate on.

    Attributes:
        datasets: their configs.

    Raises:
        DataError: by `init`: one can't be read, or they have other classes or batches.
    """

    datasets: Annotated[tuple[DatasetConfig, ...], Meta(min_length=1)]

    def validate(self) -> Iterable[tuple[str, str]]:
        for name in ("context_length", "vocab_size", "item_shape", "tokenizer", "chat_template", "packing"):
            values = [getattr(dataset, name, None) for dataset in self.datasets]
            for place, value in enumerate(values):
                if value != values[0]:
                    yield f"datasets.{place}", f"expected the {name} of the first one, {values[0]}, got {value}"

    def __getattr__(self, name: str) -> Any:
        """The `context_length`, `vocab_size` and `item_shape` that all have in common."""
        if name in ("context_length", "vocab_size", "item_shape"):
            return getattr(self.datasets[0], name)
        raise AttributeError(name)

    def init(self) -> "Splits":
        from .splits import composed

        return composed([dataset.init() for dataset in self.datasets])

    def init_with(self, facts: "Mapping[str, Any]", directory: "Path") -> "Splits":
        from .splits import composed

        return composed([dataset.init_with(facts, directory) for dataset in self.datasets])

    def unlabeled(self, sources: "Sequence[Any]", facts: "Mapping[str, Any]", directory: "Path") -> Any:
        return self.datasets[0].unlabeled(sources, facts, directory)

    def codec(self, facts: "Mapping[str, Any]", directory: "Path") -> Any:
        return self.datasets[0].codec(facts, directory)


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
        if both := [feature for feature in self.features if feature in self.exclude]:
            yield "exclude", f"expected other columns than those of `features`, got '{both[0]}'"
        if both := [category for category in self.categories if category in self.columns]:
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
