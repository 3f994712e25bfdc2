"""Jobs for tables: what each column is, what is left out, the split, and a perceptron of a size that fits."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from ...data.chat.preferences import ANSWERS
from ...data.sources.table_cells import DECIMAL_COMMA, KindGuess, column_kind
from ...errors import ArgumentError, DataError
from .texts import OUTPUT, classes_reason, task_key
from .writing import Draft, Key, Place, Sheet, number

_SURE_TARGETS = ("target", "label", "class", "y", "klasse", "ziel")
_TARGETS = (*_SURE_TARGETS, "outcome", "sentiment", "churn", "price", "preis", "survived", "species")
"""Names of columns that are predicted, in lower case."""
_NUMBERS = (
    Key("kind", "numbers"),
    Key("standardize_targets", True, "the loss is of values around 0; all that is shown has the target's unit"),
)
ID_NAME = re.compile(r"(?i)(^|[_. -])(id|uuid|guid|key|rownames?|index|nr|no)$|^unnamed")
_MOST_CLASSES = 10
"""Whole numbers with at most so many different values are classes, as a target."""
_AMOUNT = re.compile(r"(?=.*[^\d+-])[+-]?[$€£]?\s?\d{1,3}([ ,.'\u00a0]?\d{3})*([.,]\d+)?\s?[%$€£]?")
"""A number with separators or a unit, which is read as text."""
_LARGEST_SHARE = 0.1
_FEW_CATEGORIES = 50
_ID_SHARE = 0.9
_SHOWN = 6
_FEWEST_ROWS = 10
_FEWEST_OF_A_CLASS = 2
_SPLIT_ROWS = 2000
"""Below so many rows the part that validates is larger, as a tenth of them says too little."""
_FEW_ROWS = 1000
_MANY = 1 << 40
_WIDTHS = ((_FEW_ROWS, 64), (4000, 128), (_MANY, 256))
_BATCHES = ((100, 8), (500, 16), (2000, 32), (10_000, 64), (100_000, 256), (_MANY, 1024))
"""Sizes of hidden layers and of batches below so many rows."""
_STEPS = 6000
"""Of a training, about; so many steps of a small perceptron take some seconds."""
_FEWEST_EPOCHS, _MOST_EPOCHS = 5, 100


class Column(NamedTuple):
    """A column of a table, and what becomes of it.

    Attributes:
        guess: what its values are.
        left_out: the reason for leaving it out; empty if it is a feature.
        has_time: True if its dates have times of a day.
    """

    name: str
    guess: KindGuess
    left_out: str = ""
    has_time: bool = False

    @property
    def rule(self) -> dict[str, Any] | str | None:
        """The rule of the column in `data.columns`; None where it is a number without gaps."""
        guess = self.guess
        rule: dict[str, Any] = {"kind": guess.kind}
        if guess.kind == "category":
            rule["unknown"] = "own"
        if guess.kind == "date":
            rule["parts"] = ["days", "month", "weekday", *(["hour"] if self.has_time else [])]
            if guess.format:
                rule["format"] = guess.format
        if self.guess.gaps:
            rule["missing"] = "flag"
        return None if rule == {"kind": "number"} else guess.kind if len(rule) == 1 else rule

    @property
    def reason(self) -> str:
        """A few words about what was seen."""
        words = []
        if self.guess.kind == "category":
            words.append(f"{self.guess.distinct:,} different")
        elif self.guess.kind == "date":
            words += [reason for reason in self.guess.reasons if reason.startswith("or as ")]
            words.append("days grow with time, the others come again")
        if self.guess.gaps:
            words.append(f"{self.guess.gaps:,} missing")
        return "; ".join(words)

    def row(self, job: str) -> tuple[str, ...]:
        """The row of the column in the table of what was seen."""
        guess = self.guess
        gaps = f"{guess.gaps:,}" if guess.gaps else ""
        job = f"left out: {self.left_out}" if self.left_out else job
        return self.name, guess.kind, f"{guess.distinct:,} different", gaps, job


def target_of(sheet: Sheet, target: str | None, without: Collection[str] = ()) -> tuple[str, list[str]]:
    """The column to predict, and a note where it was taken by its name; an ArgumentError asks for it."""
    if target is not None:
        return target, []
    if {*ANSWERS} <= {*sheet.columns}:
        raise ArgumentError(
            f"{sheet.path}: has pairs of answers, which align a model that answers already; write a job with"
            f" `data: {{type: Preferences, path: {sheet.path.name}, tokenizer: MODEL}}` and `task: {{type: Dpo}}`"
            " (docs/preferences.md), or predict a column by --target COLUMN"
        )
    names = [column for column in sheet.columns if column not in without and column not in sheet.partial]
    named = [name for name in names if name.strip().lower() in _TARGETS]
    named = [it for it in named if it.strip().lower() in _SURE_TARGETS] or named
    if len(named) == 1:
        return named[0], [f"the target is '{named[0]}', by its name; --target COLUMN takes another"]
    likely = (named or names or [*sheet.columns])[-1]
    decimal = _decimal(sheet)
    guesses = [(name, column_kind(sheet.columns[name], decimal)) for name in names]
    lines = [f"  {name:<24} {guess.kind}{', an id' * guess.is_id}" for name, guess in guesses]
    shown = "\n".join([*lines, *(f"  {name:<24} not in each row" for name in sheet.partial)])
    raise ArgumentError(
        f"{sheet.path}: expected --target COLUMN, the column to predict, such as --target {likely}; the columns are\n"
        f"{shown}"
    )


def table_draft(place: Place, sheet: Sheet, targets: Sequence[str]) -> Draft:
    """Classes or numbers of the rows of a table; several targets have numbers."""
    decimal = _decimal(sheet)
    first = {name: column_kind(values, decimal) for name, values in sheet.columns.items()}
    # A class or a truth value stands for itself, also where it is the odd text among the numbers of another column.
    names_of = [
        it for it, guess in first.items() if guess.kind == "boolean" or (it in targets and guess.kind != "number")
    ]
    values_of = {text for name in names_of for text in _present(sheet, name, first[name].missing_values)}
    absent = sorted({text for guess in first.values() for text in guess.missing_values} - values_of)
    goals = [Column(target, column_kind(sheet.columns[target], decimal, absent)) for target in targets]
    rows = zip(*map(sheet.texts, targets), strict=True)
    sheet = sheet.where([all(it.strip() and it.strip() not in absent for it in row) for row in rows])
    values = {target: _present(sheet, target, absent) for target in targets}
    # Once more, as what stands for no value in one column does in all, and rows without a target are dropped.
    guesses = {name: column_kind(values, decimal, absent) for name, values in sheet.columns.items()}
    of_classes = [goal.name for goal in goals if has_classes(sheet, goal.guess, goal.name, values[goal.name])]
    is_classes = bool(of_classes)
    if is_classes and len(goals) > 1:
        raise ArgumentError(
            f"{sheet.path}: --target: several targets have numbers each, '{of_classes[0]}' has classes; write a job for"
            f" it alone: --target {of_classes[0]}"
        )
    if sheet.row_count < _FEWEST_ROWS:
        raise DataError(f"{sheet.path}: expected {_FEWEST_ROWS} or more rows to learn of, got {sheet.row_count}")
    columns = [_column(sheet, name, guess, absent, decimal) for name, guess in guesses.items() if name not in targets]
    if all(column.left_out for column in columns):
        # Numbers that count the rows may be years or places, if nothing else is there.
        columns = [it._replace(left_out="") if it.guess.is_id and it.guess.kind == "number" else it for it in columns]
    features = [column for column in columns if not column.left_out]
    if not features:
        shown = "; ".join(f"'{column.name}' {column.left_out}" for column in columns[:_SHOWN])
        raise ArgumentError(f"{sheet.path}: expected columns to predict '{targets[0]}' from, got none: {shown}")
    classes = Counter(values[targets[0]])
    times = _time_columns(sheet, features)
    data = [
        Key("type", sheet.kind),
        *place.path_keys(sheet),
        *([Key("decimal", ",", "numbers such as 12,50")] if decimal == "," else []),
        *([Key("missing_values", absent, "stand for no value, as an empty field does")] if absent else []),
        Key("target", targets[0] if len(targets) == 1 else [*targets],
            classes_reason(classes) if is_classes else "; ".join(_range(*it) for it in values.items())),
        *([] if is_classes else _NUMBERS),
        *_left_out(columns),
        Key("standardize", True, "numbers and parts of dates: mean 0, deviation 1 in the part to train on"),
        Key("missing", "median", "of a number that is missing in new rows alone"),
        *_columns_key(features, goals),
        *_split_keys(sheet.row_count, classes, times, is_classes=is_classes),
    ]  # fmt: skip
    task, weighed = task_key(classes) if is_classes else (Key("task", {"type": "Regression"}, "squared error"), False)
    metrics, best = _metrics(classes, is_classes=is_classes, weighed=weighed)
    return Draft(
        f"{number(sheet.row_count, 'row')}, {number(len(sheet.columns), 'column')}",
        [
            Key("data", data),
            _model(sheet.row_count, sum(map(_width, features))),
            task,
            metrics,
            *_training(sheet.row_count, best),
            *OUTPUT,
        ],
        [
            ("column", "kind", "values", "missing", "job"),
            *(column.row("feature") for column in columns),
            *(goal.row("target") for goal in goals),
        ],
        next_steps=("burnlike evaluate {run}", "burnlike predict {run} {data} --out predictions.csv"),
    )  # fmt: skip


def _decimal(sheet: Sheet) -> str:
    """A comma, if numbers of a CSV file are written with it and none has a point."""
    if sheet.kind != "Csv" or sheet.dialect.delimiter == ",":
        return "."
    for name in sheet.columns:
        texts = [text.strip() for text in sheet.texts(name) if text.strip()]
        commas = sum(bool(DECIMAL_COMMA.fullmatch(text)) for text in texts)
        if commas and commas > 0.5 * len(texts):
            return ","
    return "."


def _present(sheet: Sheet, name: str, absent: Collection[str]) -> list[str]:
    return [text.strip() for text in sheet.texts(name) if text.strip() and text.strip() not in absent]


def _column(sheet: Sheet, name: str, guess: KindGuess, absent: Collection[str], decimal: str) -> Column:
    rows = sheet.row_count - guess.gaps
    is_rare = guess.kind == "category" and guess.distinct > max(_FEW_CATEGORIES, _LARGEST_SHARE * rows)
    is_id = guess.is_id or (ID_NAME.search(name) is not None and guess.distinct > _ID_SHARE * sheet.row_count)
    texts = _present(sheet, name, absent) if guess.kind == "category" and (is_id or is_rare) else []
    moments = _moments(_present(sheet, name, absent), guess.format) if guess.kind == "date" else []
    odd = [text for text in guess.missing_values if text not in absent]
    amount = texts[0] if texts and all(map(_AMOUNT.fullmatch, texts)) else ""
    reasons = {
        "is not in every row": name in sheet.partial,
        "has lists or objects": any(isinstance(it, list | dict) for it in sheet.columns[name]),
        "has no value": not rows,
        "has one value": guess.is_constant,
        f"has numbers written as {amount}; write plain ones": bool(amount),
        "names the rows": is_id,
        f"has {', '.join(odd)} for no value, which other columns have as a class": bool(odd),
        "has sentences": guess.kind == "text",
        f"has {guess.distinct:,} different texts, few rows of each": is_rare,
        "has numbers with another decimal mark": guess.kind == "number" and guess.decimal != decimal,
        "has times with and without an offset of UTC": len({moment.tzinfo is None for moment in moments}) > 1,
    }
    left_out = next((reason for reason, holds in reasons.items() if holds), "")
    return Column(name, guess, left_out, has_time=len({(moment.hour, moment.minute) for moment in moments}) > 1)


def has_classes(sheet: Sheet, guess: KindGuess, target: str, values: Sequence[str]) -> bool:
    """True if a target has classes, False if numbers; an ArgumentError if it has nothing that can be predicted."""
    place = f"{sheet.path}: expected a target of classes or numbers, '{target}'"
    if not values or guess.distinct < 2:
        raise ArgumentError(f"{place} has {number(guess.distinct, 'value')}")
    if guess.kind == "date":
        raise ArgumentError(f"{place} has dates")
    if guess.kind != "number":
        if guess.distinct > len(values) / 2 and len(values) > 2 * _MOST_CLASSES:
            raise ArgumentError(f"{place} has {guess.distinct:,} different texts in {len(values):,} rows")
    else:
        is_whole = all(re.fullmatch(r"[+-]?\d+([.,]0+)?", value) for value in set(values))
        # Of numbers with many rows each, such as grades, what they stand for counts more than their order.
        if not (is_whole and guess.distinct <= _MOST_CLASSES and len(values) >= 5 * guess.distinct):
            return False
    texts = [text for text in sheet.texts(target) if text.strip()]
    written = {text.strip(): text for text in texts}
    if other := next((it for it in texts if it != written[it.strip()]), None):
        raise ArgumentError(
            f"{place} has classes that differ in spaces alone, {other!r} and {written[other.strip()]!r}; write them"
            " alike"
        )
    return True


def _range(name: str, texts: Sequence[str]) -> str:
    values = [float(text.replace(",", ".")) for text in texts]
    return f"{name} from {min(values):.4g} to {max(values):.4g}"


def _left_out(columns: Sequence[Column]) -> list[Key]:
    names = [column.name for column in columns if column.left_out]
    if not names:
        return []
    reasons = [f"{column.name} {column.left_out}" for column in columns if column.left_out]
    return [Key("exclude", names, "; ".join(reasons[:_SHOWN]) + "; ..." * (len(reasons) > _SHOWN))]


def _columns_key(features: Sequence[Column], goals: Sequence[Column]) -> list[Key]:
    keys = [Key(feature.name, feature.rule, feature.reason) for feature in features if feature.rule is not None]
    keys += [
        Key(goal.name, {"missing": "drop"}, f"{number(goal.guess.gaps, 'row')} without it say nothing")
        for goal in goals
        if goal.guess.gaps
    ]
    has_gaps = any(feature.guess.gaps for feature in features)
    has_categories = any(feature.guess.kind == "category" for feature in features)
    flags = "; flag: a feature says where a value is missing" if has_gaps else ""
    unknown = "; own: categories that come later share a feature" if has_categories else ""
    return [Key("columns", keys, f"others are numbers{unknown}{flags}")] if keys else []


def _moments(texts: Sequence[str], pattern: str | None) -> list[datetime]:
    return [datetime.strptime(text, pattern) if pattern else datetime.fromisoformat(text) for text in texts]


def _time_columns(sheet: Sheet, features: Sequence[Column]) -> list[str]:
    """The date columns by which the rows are in order."""
    names = []
    for column in features:
        if column.guess.kind != "date" or column.guess.gaps:
            continue
        moments = _moments([text.strip() for text in sheet.texts(column.name)], column.guess.format)
        if moments == sorted(moments) and len(set(moments)) > 1:
            names.append(column.name)
    return names


def _split_keys(rows: int, classes: Counter[str], times: Sequence[str], *, is_classes: bool) -> list[Key]:
    fraction = 0.2 if rows < _SPLIT_ROWS else 0.1
    keys = [Key("validation_fraction", fraction, "rows that the training does not see")]
    if times:
        keys.append(Key("split", {"time": times[0]}, "the rows are in its order: the last ones validate"))
    elif is_classes and min(classes.values()) >= _FEWEST_OF_A_CLASS:
        keys.append(Key("split", "stratified", "both parts have the same share of each class"))
    return keys


def _width(column: Column) -> int:
    """The number of features that a column becomes."""
    kind, rule = column.guess.kind, column.rule
    if kind == "category":
        return column.guess.distinct + 1 + bool(column.guess.gaps)
    parts = len(rule["parts"]) if isinstance(rule, dict) and "parts" in rule else 1
    return parts + bool(column.guess.gaps)


def _model(rows: int, features: int) -> Key:
    width = next(width for most, width in _WIDTHS if rows < most)
    reason = f"for {number(rows, 'row')} of {number(features, 'feature')}"
    return Key("model", [
        Key("type", "Mlp"),
        Key("hidden", [width, width], f"{reason}; the data says the first and the last size"),
        Key("norm", {"type": "BatchNorm", "num_features": width}, "hidden values around 0, of deviation 1"),
        Key("dropout", 0.2 if rows < _FEW_ROWS else 0.1, "of hidden values, against learning by heart"),
    ])  # fmt: skip


def _metrics(classes: Counter[str], *, is_classes: bool, weighed: bool) -> tuple[Key, str]:
    if not is_classes:
        reason = "absolute and squared error in the target's unit; share of the variance that is explained"
        return Key("metrics", [{"type": "Mae"}, {"type": "Rmse"}, {"type": "R2"}], reason), "loss"
    if len(classes) == 2:
        reason = "share of right rows; how well rows of both classes are told apart"
        return Key("metrics", [{"type": "Accuracy"}, {"type": "Auroc"}], reason), "auroc" if weighed else "loss"
    reason = "share of right rows; mean F1 of the classes"
    return Key("metrics", [{"type": "Accuracy"}, {"type": "FBetaScore"}], reason), "f_beta_score" if weighed else "loss"


def _training(rows: int, best: str) -> list[Key]:
    batch = next(size for most, size in _BATCHES if rows < most)
    steps = max(1, rows // batch)
    epochs = max(_FEWEST_EPOCHS, min(_MOST_EPOCHS, _STEPS // steps))
    patience = max(3, epochs // 3)
    return [
        Key("optimizer", {"type": "AdamW", "weight_decay": 0.3}, "a strong decay: rows are few"),
        Key("lr_scheduler", {"type": "CosineAnnealing", "initial_lr": 2e-3}, "falls to 0 along a cosine"),
        Key("training", [
            Key("epochs", epochs, "at most"),
            Key("batch_size", batch),
            Key("drop_last", True, "so that no batch has a single row, which has no mean to normalize by"),
            Key("keep_best", {"metric": best}, "the result has the weights of the best validation"),
            Key("early_stopping", {"metric": best, "n_epochs": patience}, "ends when so many were no better"),
        ]),
    ]  # fmt: skip
