"""Columns of tables: kinds, missing values, standardization, targets; numbers beside scikit-learn's and pandas'."""

import io
import json
import math
from datetime import date, datetime
from pathlib import Path
from typing import Any

import numpy
import pandas
import pytest
import torch
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from burnlike.config import DatasetConfig
from burnlike.data import ComposedConfig, CsvConfig, JsonLinesConfig, ParquetConfig
from burnlike.errors import BurnlikeError, ConfigError, DataError
from burnlike.train import TrainConfig

COLORS = ["red", "green", "", "blue", "green", "", "red", "green"]
INCOMES = ["10", "", "40", "10", "25.5", "31", "", "12"]
AGES = ["30", "41", "29", "55", "63", "18", "22", "35"]
MEMBERS = ["yes", "no", "", "Yes", "0", "TRUE", "f", "1"]
BORN = ["1990-01-31", "2001-12-24", "1969-07-20", "2024-02-29", "1985-06-15", "", "2000-01-01", "1999-12-31"]
BOUGHT = ["a", "b", "a", "a", "b", "a", "b", "a"]
HEAD = ("color", "income", "age", "member", "born", "bought")
FEATURES: Any = {"features": ("color", "income", "age"), "target": "bought"}


def people(tmp_path: Path, delimiter: str = ",", name: str = "people.csv") -> str:
    columns = zip(COLORS, INCOMES, AGES, MEMBERS, BORN, BOUGHT, strict=True)
    rows = [delimiter.join(it) for it in (HEAD, *columns)]
    (tmp_path / name).write_text("\n".join(rows) + "\n")
    return str(tmp_path / name)


def all_rows(data: Any) -> torch.Tensor:
    """The features of all rows, in the order of the file."""
    return data.train.dataset.tensors[0]


def test_features_are_those_of_a_pipeline_of_scikit_learn_fitted_on_the_part_to_train_on(tmp_path: Path) -> None:
    rules = {"color": {"kind": "category", "missing": "flag"}, "income": {"missing": "mean"}}
    data = CsvConfig(path=people(tmp_path), columns=rules, standardize=True, validation_fraction=0.3, **FEATURES).init()
    frame = pandas.read_csv(tmp_path / "people.csv")
    train = frame.iloc[[*data.train.indices]]
    numbers = make_pipeline(SimpleImputer(strategy="mean"), StandardScaler())
    theirs = ColumnTransformer([("numbers", numbers, ["income", "age"])]).fit(train)
    colors = OneHotEncoder(sparse_output=False).fit(frame[["color"]].fillna("zzz"))
    expected = numpy.concatenate([colors.transform(frame[["color"]].fillna("zzz")), theirs.transform(frame)], 1)
    assert data.features == ["color=blue", "color=green", "color=red", "color.missing", "income", "age"]
    assert 0 < len(data.valid) < len(data.train)
    torch.testing.assert_close(all_rows(data), torch.tensor(expected).float())
    assert data.facts["columns"]["income"]["fill"] == [train["income"].mean()]
    assert json.loads(json.dumps(data.facts)) == data.facts


@pytest.mark.parametrize(
    ("rule", "features", "expected"),
    [
        ({"missing": "median"}, ["income"], lambda it: it.fillna(it.median())),
        ({"missing": "mode"}, ["income"], lambda it: it.fillna(10.0)),
        ({"fill": -1}, ["income"], lambda it: it.fillna(-1)),
        ({"missing": "flag"}, ["income", "income.missing"], lambda it: [it.fillna(it.mean()), it.isna()]),
    ],
)
def test_numbers_that_are_missing(tmp_path: Path, rule: dict[str, Any], features: list[str], expected: Any) -> None:
    path, other = people(tmp_path), people(tmp_path, name="other.csv")
    config = CsvConfig(
        path=path, validation_path=other, target="bought", features=("income",), columns={"income": rule}
    )
    data = config.init()
    wanted = expected(pandas.read_csv(path)["income"])
    columns = wanted if isinstance(wanted, list) else [wanted]
    assert data.features == features == config.init().facts["features"]
    assert config.item_shape == (len(features),)
    torch.testing.assert_close(data.train.tensors[0], torch.tensor(numpy.stack(columns, 1).astype("float32")))


def test_rows_that_lack_a_value_are_left_out_where_the_config_says_so(tmp_path: Path) -> None:
    rules = {"income": {"missing": "drop"}, "color": {"kind": "category", "missing": "mode"}}
    data = CsvConfig(path=people(tmp_path), columns=rules, **FEATURES).init()
    assert len(data.train) + len(data.valid) == 6
    assert all_rows(data)[:, 3].tolist() == [10, 40, 10, 25.5, 31, 12]
    assert all_rows(data)[1, :3].tolist() == [0.0, 1.0, 0.0]  # green is the most frequent of those that are left
    assert "left out  2 rows" in "\n".join(data.describe())


def test_dates_and_truth_values(tmp_path: Path) -> None:
    parts = ("year", "month", "day", "weekday", "day_of_year", "days")
    rules: Any = {
        "born": {"kind": "date", "parts": parts, "fill": "2000-01-01"},
        "member": {"kind": "boolean", "missing": "flag"},
    }
    data = CsvConfig(path=people(tmp_path), target="bought", features=("born", "member"), columns=rules).init()
    known = [date.fromisoformat(it or "2000-01-01") for it in BORN]
    since = date(1970, 1, 1)
    expected = [[it.year, it.month, it.day, it.weekday(), it.timetuple().tm_yday, (it - since).days] for it in known]
    assert all_rows(data)[:, :6].tolist() == expected
    assert all_rows(data)[:, 6:].T.tolist() == [[1, 0, 0, 1, 0, 1, 0, 1], [0, 0, 1, 0, 0, 0, 0, 0]]
    assert data.features[:2] + data.features[-2:] == ["born.year", "born.month", "member", "member.missing"]


def test_times_with_offsets_are_one_time_line(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,y\n2024-01-01T01:00:00+02:00,1\n2024-01-01T01:00:00Z,2\n")
    rules: Any = {"a": {"kind": "date", "parts": ["hour", "days"]}}
    config = CsvConfig(path=str(path), target="y", columns=rules, validation_fraction=0.5)
    days = (date(2024, 1, 1) - date(1970, 1, 1)).days
    expected = torch.tensor([[1, days - 1 / 24], [1, days + 1 / 24]], dtype=torch.float64).float()
    assert torch.equal(all_rows(config.init()), expected)
    path.write_text("a,y\n2024-01-01T01:00:00+02:00,1\n2024-01-01T01:00:00,2\n")
    with pytest.raises(DataError, match=r"t\.csv:3:1: 'a': expected a time with an offset of UTC"):
        config.init()


def test_dates_in_another_format_and_with_times(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,y\n31.01.1990,2024-02-29T18:30:15,1\n24.12.2001,2024-03-01 06:00,2\n")
    rules: Any = {
        "a": {"kind": "date", "format": "%d.%m.%Y", "parts": ["month"]},
        "b": {"kind": "date", "parts": ["hour", "minute", "second", "days"]},
    }
    data = CsvConfig(path=str(tmp_path / "t.csv"), target="y", columns=rules, validation_fraction=0.5).init()
    days = [
        (datetime(*it) - datetime(1970, 1, 1)).total_seconds() / 86400
        for it in ((2024, 2, 29, 18, 30, 15), (2024, 3, 1, 6))
    ]
    expected = torch.tensor([[1, 18, 30, 15, days[0]], [12, 6, 0, 0, days[1]]], dtype=torch.float64).float()
    assert torch.equal(all_rows(data), expected)


def test_a_category_as_an_index_and_an_unknown_one_of_its_own(tmp_path: Path) -> None:
    new = tmp_path / "new.csv"
    new.write_text("color,bought\npink,a\n,b\nred,a\n")
    for encode, expected in (
        ("index", [[3.0], [4.0], [2.0]]),
        ("one_hot", [[0, 0, 0, 1, 0], [0, 0, 0, 0, 1], [0, 0, 1, 0, 0]]),
    ):
        rule = {"kind": "category", "missing": "flag", "unknown": "own", "encode": encode}
        data = CsvConfig(
            path=people(tmp_path),
            validation_path=str(new),
            target="bought",
            features=("color",),
            columns={"color": rule},
        ).init()
        assert data.valid.tensors[0].tolist() == expected
    with pytest.raises(
        DataError, match=r"new.csv:2:1: 'color' is 'pink', a category that the training has not.*unknown: own"
    ):
        CsvConfig(
            path=people(tmp_path), validation_path=str(new), target="bought", features=("color",),
            columns={"color": {"kind": "category", "missing": "flag"}},
        ).init()  # fmt: skip


@pytest.mark.parametrize(
    ("known", "new", "expected"),
    [
        (["1.0", "2.0", "true"], ["2", "True", "1.0", "02"], [1, 2, 0, 3]),
        (["-1", "True", "01"], ["-1.0", "true", "1", "01.0.0"], [0, 2, 3, 3]),
        (["1", "1.0", "v1"], ["1", "1.0", "v1.0", ".0"], [0, 1, 3, 3]),
    ],
)
def test_a_category_that_another_program_wrote_otherwise(
    tmp_path: Path, known: list[str], new: list[str], expected: list[int]
) -> None:
    for name, values in (("t.csv", known), ("new.csv", new)):
        (tmp_path / name).write_text(
            "\n".join(["k,y", *(f"{value},{place % 2}" for place, value in enumerate(values))])
        )
    data = CsvConfig(
        path=str(tmp_path / "t.csv"),
        validation_path=str(tmp_path / "new.csv"),
        target="y",
        columns={"k": {"kind": "category", "unknown": "own", "encode": "index"}},
    ).init()
    assert data.valid.tensors[0][:, 0].tolist() == expected


def test_a_column_of_which_no_category_is_known_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("k,y\n0123,a\n0456,b\n")
    config = CsvConfig(
        path=str(tmp_path / "t.csv"), target="y", columns={"k": {"kind": "category", "unknown": "own"}},
        validation_fraction=0.5,
    )  # fmt: skip
    facts = {**config.init().facts, "classes": ["a", "b"]}
    (tmp_path / "t.csv").write_text("k,y\n123,a\n456,b\n")
    with pytest.warns(UserWarning, match=r"t.csv: 'k': none of 2 rows has a category of the training, such as '0123'"):
        config.init_with(facts, tmp_path)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({}, r"people.csv:2:1: 'color': expected a number, got 'red'; say data.columns.color: category"),
        ({"color": "category"}, r"people.csv:4:1: 'color': expected a category, got ''; for missing values say"),
        (
            {"color": {"kind": "category", "fill": "none"}},
            r"people.csv:3:7: 'income': .* got ''; for missing values say",
        ),
    ],
)
def test_a_value_that_needs_a_rule_names_it(tmp_path: Path, rules: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        CsvConfig(path=people(tmp_path), columns=rules, **FEATURES).init()


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("2024-01-31", "say data.columns.a: date"),
        ("yes", "say data.columns.a: boolean"),
        ('"1,5"', 'for numbers with a decimal comma say data.decimal: ","'),
        ("n/a", r"data.missing_values: \['n/a'\]"),
    ],
)
def test_a_value_that_is_no_number_says_what_it_looks_like(tmp_path: Path, column: str, message: str) -> None:
    (tmp_path / "t.csv").write_text(f"a,y\n1,x\n{column},z\n")
    with pytest.raises(
        DataError,
        match=rf":3:1: 'a': expected a number, got '{column.strip(chr(34))}'; {'' if 'n/a' in column else message}",
    ):
        CsvConfig(path=str(tmp_path / "t.csv"), target="y").init()
    if column == "n/a":
        rule = {"a": {"fill": 0}}
        data = CsvConfig(path=str(tmp_path / "t.csv"), target="y", missing_values=("n/a",), columns=rule).init()
        assert sorted(all_rows(data).flatten().tolist()) == [0.0, 1.0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"columns": {"a": {"kind": "category", "missing": "mean"}}},
            "missing: expected drop, mode, flag for a category",
        ),
        ({"columns": {"a": {"missing": "mean", "fill": 3}}}, "fill: expected either `missing` or `fill`"),
        ({"columns": {"a": {"fill": "x"}}}, "fill: expected a number"),
        ({"columns": {"a": {"parts": ["year"]}}}, "parts: is for `kind: date`, and this column is a number"),
        ({"columns": {"y": "category"}}, "columns.y: expected `{missing: drop}` alone, as it is a target"),
        ({"categories": ["y"]}, "categories: expected columns other than the target 'y'"),
        ({"categories": ["a"], "columns": {"a": "date"}}, "categories: 'a' has a rule in `columns` too"),
        ({"target": ["y", "z"]}, "target: expected one column of classes"),
        ({"standardize_targets": True}, "standardize_targets: expected `kind: numbers`"),
        ({"delimiter": ",", "decimal": ","}, "delimiter: expected another character"),
    ],
)
def test_rules_that_contradict_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DatasetConfig.from_dict({"type": "Csv", "path": "t.csv", "target": "y", **options})


def test_dialects_of_csv(tmp_path: Path) -> None:
    text = "name;größe;y\n'a;b';1,5;x\n'c';-2,25;z\n"
    options: Any = {"target": "y", "categories": ("name",), "validation_fraction": 0.5}
    for encoding in ("utf-8", "utf-8-sig", "cp1252"):
        (tmp_path / "t.csv").write_bytes(text.encode(encoding))
        dialect: Any = {"delimiter": ";", "decimal": ",", "quote": "'", "encoding": encoding.removesuffix("-sig")}
        data = CsvConfig(path=str(tmp_path / "t.csv"), **dialect, **options).init()
        assert data.features == ["name=a;b", "name=c", "größe"]
        assert all_rows(data).tolist() == [[1, 0, 1.5], [0, 1, -2.25]]
    for text in ("a;y\n1;x\n", "a;y\n1,5;x\n"):
        (tmp_path / "t.csv").write_text(text)
        with pytest.raises(DataError, match=r"t.csv:\d:1: .*; is the delimiter ';'\? say data.delimiter: \";\""):
            CsvConfig(path=str(tmp_path / "t.csv"), target="y").init()
    (tmp_path / "t.csv").write_text("a;y\n1.5;x\n2;z\n")
    with pytest.raises(DataError, match=r":2:1: 'a': expected a number with a decimal comma, got '1.5'"):
        CsvConfig(path=str(tmp_path / "t.csv"), target="y", delimiter=";", decimal=",").init()


def test_parquet_has_the_values_of_csv(tmp_path: Path) -> None:
    rules: Any = {
        "color": {"kind": "category", "missing": "flag"},
        "born": {"kind": "date", "missing": "mode"},
        "income": {"missing": "mean"},
        "member": {"kind": "boolean", "missing": "mode"},
    }
    frame = pandas.read_csv(people(tmp_path), parse_dates=["born"])
    frame["member"] = (
        frame["member"].str.lower().map({"yes": True, "true": True, "1": True, "no": False, "0": False, "f": False})
    )
    frame.to_parquet(tmp_path / "people.parquet")
    ours = CsvConfig(path=str(tmp_path / "people.csv"), target="bought", columns=rules).init()
    theirs = ParquetConfig(path=str(tmp_path / "people.parquet"), target="bought", columns=rules).init()
    assert torch.equal(all_rows(ours), all_rows(theirs))
    assert (ours.features, ours.classes) == (theirs.features, theirs.classes)
    with pytest.raises(DataError, match=r"people.parquet: row 3: 'color': expected a category, got null"):
        ParquetConfig(
            path=str(tmp_path / "people.parquet"), target="bought", categories=("color",), features=("color",)
        ).init()
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(DataError, match=r"bad.parquet: expected a whole Parquet file"):
        ParquetConfig(path=str(tmp_path / "bad.parquet"), target="y").init()


def test_several_targets_and_labels(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,p,q,tags\n1,2.5,0,x|z\n2,3.5,1,\n3,4.5,1,z\n4,0,0,y\n")
    options: Any = {"path": str(tmp_path / "t.csv"), "features": ("a",), "validation_fraction": 0.25}
    numbers = CsvConfig(target=("p", "q"), kind="numbers", **options).init()
    assert numbers.train.dataset.tensors[1].tolist() == [[2.5, 0], [3.5, 1], [4.5, 1], [0, 0]]
    assert (numbers.facts["targets"], numbers.classes) == (["p", "q"], None)
    labels = CsvConfig(target="tags", kind="labels", **options).init()
    assert labels.classes == ["x", "y", "z"]
    assert labels.train.dataset.tensors[1].tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 1], [0, 1, 0]]
    own = "".join(["x", "y", "z"][it] for it in labels.labels() or [])
    assert f"classes   x {own.count('x')}, y {own.count('y')}, z {own.count('z')}" in labels.describe()
    assert labels.train[0][0].tolist() == [float(labels.examples(1)[0].split()[1])]
    marks = CsvConfig(target=("q",), kind="labels", **options).init()
    assert marks.classes == ["0", "1"]  # of one column, the names in it
    (tmp_path / "t.jsonl").write_text('{"a": 1, "tags": ["x", "z"]}\n{"a": 2, "tags": []}\n{"a": 3, "tags": ["z"]}\n')
    listed = JsonLinesConfig(path=str(tmp_path / "t.jsonl"), target="tags", kind="labels").init()
    assert listed.train.dataset.tensors[1].tolist() == [[1, 1], [0, 0], [0, 1]]


def test_new_rows_have_the_features_of_the_training(tmp_path: Path) -> None:
    rules: Any = {
        "color": {"kind": "category", "missing": "flag"},
        "born": {"kind": "date", "missing": "mode", "standardize": True},
        "income": {"missing": "mean", "standardize": True},
        "member": {"kind": "boolean", "missing": "flag"},
    }
    config = CsvConfig(path=people(tmp_path), target="bought", columns=rules)
    data = config.init()
    facts = {**json.loads(json.dumps(data.facts)), "classes": data.classes}
    (tmp_path / "people.csv").rename(tmp_path / "new.csv")  # the file of the training is gone
    found = config.unlabeled([tmp_path / "new.csv"], facts, tmp_path)
    assert torch.equal(found.dataset.tensors[0], all_rows(data))
    assert list(found.names)[:2] == [f"{tmp_path}/new.csv:2", f"{tmp_path}/new.csv:3"]
    frame = pandas.read_csv(tmp_path / "new.csv").drop(columns="bought")
    for text in (frame.to_csv(index=False), frame.to_json(orient="records", lines=True)):
        streamed = config.unlabeled([io.StringIO(text)], facts, tmp_path)
        assert torch.equal(streamed.dataset.tensors[0], all_rows(data))
    frame.head(1).to_parquet(tmp_path / "one.parquet")
    assert torch.equal(
        config.unlabeled([tmp_path / "one.parquet"], facts, tmp_path).dataset.tensors[0], all_rows(data)[:1]
    )
    with pytest.raises(DataError, match=r"standard input:1:1: there is no column 'color'"):
        config.unlabeled([io.StringIO("a,b\n1,2\n")], facts, tmp_path)


def test_other_data_is_read_as_the_training_learned_it(tmp_path: Path) -> None:
    rules: Any = {"income": {"missing": "mean", "standardize": True}}
    config = CsvConfig(path=people(tmp_path), target="bought", features=("income",), columns=rules)
    data = config.init()
    (tmp_path / "other.csv").write_text("income,bought\n1000,b\n,b\n3000,a\n")
    other = config.replace(path=str(tmp_path / "other.csv")).init_with(
        {**data.facts, "classes": data.classes}, tmp_path
    )
    known = data.facts["columns"]["income"]
    expected = [(it - known["mean"][0]) / known["std"][0] for it in (1000.0, known["fill"][0], 3000.0)]
    torch.testing.assert_close(all_rows(other)[:, 0], torch.tensor(expected))
    assert other.train.dataset.tensors[1].tolist() == [1, 1, 0]
    (tmp_path / "other.csv").write_text("income,bought\n1,b\n2,c\n")
    with pytest.raises(DataError, match=r"other.csv:3:3: 'bought' is 'c', a class that the training has not"):
        config.replace(path=str(tmp_path / "other.csv")).init_with({**data.facts, "classes": data.classes}, tmp_path)


def test_rows_without_a_value_can_not_be_predicted_if_the_training_left_them_out(tmp_path: Path) -> None:
    config = CsvConfig(
        path=people(tmp_path), target="bought", features=("income",), columns={"income": {"missing": "drop"}}
    )
    data = config.init()
    with pytest.raises(
        DataError, match=r"people.csv:3:7: 'income': expected a value, got none; rows without one were left out"
    ):
        config.unlabeled([tmp_path / "people.csv"], {**data.facts, "classes": data.classes}, tmp_path)


def test_the_fingerprint_is_that_of_the_features(tmp_path: Path) -> None:
    def fingerprint(rule: Any) -> str:
        config = CsvConfig(path=people(tmp_path), target="bought", features=("income",), columns={"income": rule})
        return config.init().fingerprint

    found = [
        fingerprint(it) for it in ({"missing": "mean"}, {"missing": "mean"}, {"missing": "median"}, {"missing": "flag"})
    ]
    assert found[0] == found[1]
    assert len({*found}) == 3


def test_a_column_that_is_always_the_same_is_0_when_standardized(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n5,1\n5,2\n5,3\n")
    data = CsvConfig(path=str(tmp_path / "t.csv"), target="y", standardize=True).init()
    assert all_rows(data).tolist() == [[0.0]] * 3
    assert math.isclose(data.facts["columns"]["a"]["std"][0], 1.0)


def test_a_large_number_is_exact_when_it_is_standardized(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,y\n1700000000001,1\n1700000000003,2\n1700000000005,3\n")
    data = CsvConfig(
        path=str(tmp_path / "t.csv"), target="y", standardize=True, validation_path=str(tmp_path / "t.csv")
    ).init()
    expected = StandardScaler().fit_transform([[1.0], [3.0], [5.0]])
    torch.testing.assert_close(data.train.tensors[0], torch.tensor(expected).float())


def test_yaml_that_is_wrong_says_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(BurnlikeError, match=r"columns\.a: expected one of 'boolean', 'category', 'date', 'number'"):
        DatasetConfig.from_dict({"type": "Csv", "path": "t.csv", "target": "y", "columns": {"a": "bool"}})


def test_tables_that_have_learned_other_things_are_not_composed(tmp_path: Path) -> None:
    path = people(tmp_path)
    (tmp_path / "other.csv").write_text("income,bought\n1000,b\n2000,a\n3000,a\n")
    for rule, fits in (({"fill": 0}, True), ({"missing": "mean"}, False)):
        options: Any = {"target": "bought", "features": ("income",), "columns": {"income": rule}}
        datasets = tuple(CsvConfig(path=it, **options) for it in (path, str(tmp_path / "other.csv")))
        if fits:
            assert len(ComposedConfig(datasets=datasets).init().train) == 9
            continue
        with pytest.raises(DataError, match=r"data.datasets.1: expected the features of the first table"):
            ComposedConfig(datasets=datasets).init()


def test_what_targets_are_standardized_by_is_learned_on_the_part_to_train_on(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("a,price,days\n" + "".join(f"{it},{3 * it + 1000},7\n" for it in range(20)))
    options: dict[str, Any] = {"target": ("price", "days"), "kind": "numbers", "standardize_targets": True}
    data = CsvConfig(path=str(path), **options).init()
    prices = [data.train[it][1][0].item() for it in range(len(data.train))]
    mean = sum(prices) / len(prices)
    std = (sum((it - mean) ** 2 for it in prices) / len(prices)) ** 0.5
    assert data.facts["target_scale"]["mean"] == pytest.approx([mean, 7])
    assert data.facts["target_scale"]["std"] == pytest.approx([std, 1])
    assert min(prices) >= 1000  # items have the target's own unit

    other = tmp_path / "other.csv"
    other.write_text("a,price,days\n1,1,1\n2,9,2\n")
    config = CsvConfig(path=str(other), validation_fraction=0.5, **options)
    read = config.init_with({**data.facts, "classes": None}, tmp_path)
    assert read.facts["target_scale"] == data.facts["target_scale"]
    with pytest.raises(DataError, match="expected the features of the first table"):
        ComposedConfig(datasets=(CsvConfig(path=str(path), **options), config)).init()


def test_standardized_targets_are_numbers_of_a_regression() -> None:
    yaml = """
data: {type: Csv, path: t.csv, target: y, kind: numbers, standardize_targets: true}
model: {type: Linear, d_input: 1, d_output: 1}
task: {type: ModelLoss}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, batch_size: 2}
"""
    with pytest.raises(ConfigError, match=r"data\.standardize_targets: expected `task: Regression`"):
        TrainConfig.from_yaml(yaml)


def test_a_category_that_names_the_rows_warns(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("id,y\n" + "".join(f"K{it},{it % 2}\n" for it in range(150)))
    with pytest.warns(UserWarning, match="'id' has 150 categories in 150 rows, .* leave it out by data.exclude"):
        CsvConfig(path=str(path), target="y", categories=("id",)).init()
