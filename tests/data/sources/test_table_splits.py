"""Splits of tables by class, time and group, and folds: what scikit-learn's splitters promise, for any table."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sklearn.model_selection import GroupKFold, StratifiedKFold, TimeSeriesSplit

from burnlike.config import DatasetConfig
from burnlike.data import CsvConfig, Table
from burnlike.errors import ConfigError, DataError

COUNT = 60
CLASSES = ["rare" if it % 10 == 0 else "often" if it % 3 else "some" for it in range(COUNT)]
DAYS = [(it * 7) % COUNT for it in range(COUNT)]  # each once, in another order
PERSONS = [f"p{it * it % 11}" for it in range(COUNT)]
TIME: Any = {"split": {"time": "day"}, "exclude": ["day", "person"]}
GROUP: Any = {"split": {"group": "person"}, "exclude": ["day", "person"]}
CLASS: Any = {"split": "stratified", "exclude": ["day", "person"]}


def table(folder: Path, days: Any = DAYS, **options: Any) -> Table:
    path = folder / "t.csv"
    lines = zip(range(COUNT), days, PERSONS, CLASSES, strict=True)
    path.write_text("row,day,person,y\n" + "".join(f"{','.join(map(str, it))}\n" for it in lines))
    config: Any = DatasetConfig.from_dict({"type": "Csv", "path": str(path), "target": "y", **options})
    return config.init()


def parts(data: Table) -> tuple[list[int], list[int]]:
    """The rows to train on and to validate on."""
    train, valid = ([int(part[it][0][0]) for it in range(len(part))] for part in (data.train, data.valid))
    return train, valid


@pytest.mark.parametrize("split", [{"exclude": ["day", "person"]}, CLASS, GROUP, TIME])
def test_no_row_is_lost_or_stands_twice(tmp_path: Path, split: Any) -> None:
    train, valid = parts(table(tmp_path, validation_fraction=0.25, **split))
    assert sorted(train + valid) == [*range(COUNT)]
    assert len(valid) == pytest.approx(COUNT / 4, abs=6)


@pytest.mark.parametrize("split", [{"exclude": ["day", "person"]}, CLASS, GROUP])
def test_each_row_is_validated_in_one_fold(tmp_path: Path, split: Any) -> None:
    folds = [parts(table(tmp_path, folds=4, fold=it, **split)) for it in range(4)]
    assert sorted(row for _, valid in folds for row in valid) == [*range(COUNT)]
    assert all(sorted(train + valid) == [*range(COUNT)] for train, valid in folds)


def test_classes_keep_their_shares(tmp_path: Path) -> None:
    _, valid = parts(table(tmp_path, validation_fraction=0.25, **CLASS))
    every = Counter(CLASSES)
    assert all(abs(Counter(CLASSES[it] for it in valid)[name] - every[name] / 4) < 1 for name in every)
    rows = [[0]] * COUNT
    expected = [Counter(CLASSES[it] for it in part) for _, part in StratifiedKFold(4).split(rows, CLASSES)]
    for fold in range(4):
        _, valid = parts(table(tmp_path, folds=4, fold=fold, **CLASS))
        counts = Counter(CLASSES[it] for it in valid)
        assert len(valid) == COUNT / 4
        assert all(abs(counts[name] - expected[fold][name]) <= 1 for name in every)


def test_a_class_of_one_row_is_trained_on(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n0,one\n" + "".join(f"{it},two\n" for it in range(1, 9)))
    data = CsvConfig(path=str(tmp_path / "t.csv"), target="y", split="stratified", validation_fraction=0.9).init()
    assert 0 in parts(data)[0]


def test_rows_of_a_group_are_on_one_side(tmp_path: Path) -> None:
    whole = parts(table(tmp_path, validation_fraction=0.25, **GROUP))
    folds = [parts(table(tmp_path, folds=3, fold=it, **GROUP)) for it in range(3)]
    for train, valid in (whole, *folds):
        assert train
        assert valid
        assert not {PERSONS[it] for it in train} & {PERSONS[it] for it in valid}
    expected = [len(part) for _, part in GroupKFold(3).split([[0]] * COUNT, groups=PERSONS)]
    assert sorted(len(valid) for _, valid in folds) == sorted(expected)


@pytest.mark.parametrize("day", [int, lambda it: f"2024-{it // 28 + 1:02}-{it % 28 + 1:02}"])
def test_rows_to_validate_on_are_later(tmp_path: Path, day: Any) -> None:
    train, valid = parts(table(tmp_path, [day(it) for it in DAYS], validation_fraction=0.25, **TIME))
    assert len(valid) == COUNT / 4
    assert max(DAYS[it] for it in train) < min(DAYS[it] for it in valid)


def test_folds_of_time_are_those_of_scikit_learn(tmp_path: Path) -> None:
    in_order = sorted(range(COUNT), key=DAYS.__getitem__)
    for fold, pair in enumerate(TimeSeriesSplit(4).split(in_order)):
        expected = tuple(sorted(in_order[it] for it in part) for part in pair)
        assert parts(table(tmp_path, folds=4, fold=fold, **TIME)) == expected


def test_rows_of_one_time_stay_together(tmp_path: Path) -> None:
    days = [it // 7 for it in range(COUNT)]
    splits = [{"validation_fraction": 0.3}, *({"folds": 3, "fold": it} for it in range(3))]
    for options in splits:
        train, valid = parts(table(tmp_path, days, **options, **TIME))
        assert max(days[it] for it in train) < min(days[it] for it in valid)


def test_times_are_read_by_the_rule_of_their_column(tmp_path: Path) -> None:
    days = [f"{it % 28 + 1:02}.{it // 28 + 1:02}.2024" for it in DAYS]
    with pytest.raises(DataError, match=r'data\.columns\.day: \{kind: date, format: "%d\.%m\.%Y"\}'):
        table(tmp_path, days, **TIME)
    rule = {"columns": {"day": {"kind": "date", "format": "%d.%m.%Y"}}}
    train, valid = parts(table(tmp_path, days, **rule, **TIME))
    assert max(DAYS[it] for it in train) < min(DAYS[it] for it in valid)


@pytest.mark.parametrize(
    ("days", "options", "message"),
    [
        (["a"] * COUNT, TIME, "expected a number, got 'a'"),
        ([5] * COUNT, TIME, "'day' has 1 different times in 60 rows, too few"),
        ([it % 2 for it in DAYS], {**TIME, "folds": 3}, "too few for 3 folds"),
        ([*DAYS[1:], ""], TIME, "'day': expected a number, got ''"),
        (DAYS, {**GROUP, "split": {"group": "persons"}}, "no column 'persons'; did you mean 'person'"),
        (["x"] * COUNT, {**GROUP, "split": {"group": "day"}}, "some to train on and some to validate on"),
        ([""] * COUNT, {**GROUP, "split": {"group": "day"}}, "expected the group of the row"),
    ],
)
def test_a_column_that_can_not_divide_is_refused(
    tmp_path: Path, days: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        table(tmp_path, days, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": {"time": "a", "group": "b"}}, r"split\.time: expected either `time` or `group`"),
        ({"split": {}}, r"split\.time: expected either"),
        ({"split": "stratified", "kind": "numbers"}, "split: expected another one for `kind: numbers`"),
        ({"split": {"time": "a"}, "validation_path": "v.csv"}, "split: expected none with `validation_path`"),
        ({"folds": 3, "validation_path": "v.csv"}, "folds: expected none with `validation_path`"),
        ({"folds": 3, "fold": 3}, "fold: expected 0 to 2, got 3"),
        ({"fold": 1}, r"fold: expected data\.folds"),
    ],
)
def test_keys_that_contradict_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DatasetConfig.from_dict({"type": "Csv", "path": "t.csv", "target": "y", **options})


def test_data_is_known_again_by_its_split(tmp_path: Path) -> None:
    prints = {table(tmp_path, **it).fingerprint for it in (CLASS, TIME, {**TIME, "folds": 2}, GROUP)}
    assert len(prints) == 4
