"""Tables as people have them: what is wrong is one error with file, line and column; classes are always the same."""

import gzip
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.data import CsvConfig, JsonLinesConfig, Table
from burnlike.data.sources import columns
from burnlike.errors import BurnlikeError, DataError
from tests.processes import HANGS_S


def table(path: Path, text: str | bytes, **options: Any) -> Table:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    config = CsvConfig if path.suffix == ".csv" else JsonLinesConfig
    return config(**{"path": str(path), "target": "y", "validation_fraction": 0.3, **options}).init()


def rows(data: Table) -> list[tuple[list[float], float]]:
    parts = (data.train, data.valid)
    return sorted((a.tolist(), b.item()) for part in parts for a, b in (part[i] for i in range(len(part))))


NUMBERS: dict[str, Any] = {"kind": "numbers"}


def test_columns_of_numbers_are_read_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "number_of", lambda *_, **__: pytest.fail("cell by cell, which takes 5 times as long"))
    read = [table(tmp_path / "t.csv", "a,y\n 1.5 ,2\n-3e2,4\n.5,5\n", **NUMBERS)]
    read.append(
        table(tmp_path / "t.jsonl", '{"a": 1.5, "y": 2}\n{"a": "-300", "y": 4.0}\n{"a": 0.5, "y": 5}', **NUMBERS)
    )
    assert [rows(it) for it in read] == [[([-300.0], 4.0), ([0.5], 5.0), ([1.5], 2.0)]] * 2


def test_a_compressed_file_is_refused_by_the_command_that_unpacks_it(tmp_path: Path) -> None:
    with pytest.raises(
        DataError, match=r"t.csv.gz: expected text, got a compressed file; unpack it: gunzip .*t.csv.gz$"
    ):
        table(tmp_path / "t.csv.gz", gzip.compress(b"a,y\n1,2\n"))


def test_a_number_may_stand_for_no_value(tmp_path: Path) -> None:
    options = {"missing_values": ("-999",), "columns": {"a": {"fill": 7}}}
    data = table(tmp_path / "t.csv", "a,y\n1,2\n -999,4\n3,5\n", **NUMBERS, **options)
    assert rows(data) == [([1.0], 2.0), ([3.0], 5.0), ([7.0], 4.0)]


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("a,b,y\n1,2,x\n3,4,\n", {}, r":3:5: 'y': expected a class, got none"),
        ("a,b,y\n1,2,x\n3,4,  \n", {}, r":3:5: 'y': expected a class, got none"),
        ("a,b,y\n1,2,3\n3,4,\n", NUMBERS, r":3:5: 'y': expected a number, got ''"),
        ("a,a,y\n1,2,x\n", {}, r":1:3: expected a name of its own for each column, got 'a' twice"),
        (
            "a,y\n1,x\n1e300,z\n",
            {},
            r":3:1: 'a': expected a number up to 3.4e\+38, the largest of float32, got '1e300'",
        ),
        ("a,y\n1,2\n3,6e39\n", NUMBERS, r":3:3: 'y': expected a number up to 3.4e\+38"),
        ("a,y\n1,x\n" + "1" * 400 + ",z\n", {}, r":3:1: 'a': expected a finite number, got '1111"),
        ("a,y\n1_000,x\n3,z\n", {}, r":2:1: 'a': expected a number, got '1_000'"),
        ("a,b,y\n1,2,x\n3,nan,z\n", {}, r":3:3: 'b': expected a finite number, got 'nan'"),
        ('a,b,y\n1,2,"x\n\ny"\n1,"q""w,\n2",z\n', {}, r":5:3: 'b': expected a number, got 'q\"w,\\n2'"),
        ('a,b,y\n1,2,"x\ny"\n"1",5"6,z\n', {}, r":4:5: 'b': expected a number"),
        ("a,b,y\n\n\n1,2,x\n\n3,4,", {}, r":6:5: 'y': expected a class"),
        ("a,b,y\r1,2,x\r3,four,z\r", {}, r":3:3: 'b': expected a number, got 'four'"),
        ("a,b,y\r\n1,2,x\r\n3,four,z\r\n", {}, r":3:3: 'b': expected a number, got 'four'"),
        ("\ufeffa,y\n1,x\nz,x\n", {}, r":3:1: 'a': expected a number, got 'z'"),
        ("a,b\n1,2\n", {}, r":1:1: there is no column 'y'"),
        ("a, y\n1,2\n", {}, r":1:1: there is no column 'y'; did you mean ' y'"),
        ("a;b;y\n1;2;x\n", {}, r":1:1: there is no column 'y'; the columns are 'a;b;y'"),
        ("a,y\n1,2,3\n", {}, r":2:1: expected 2 columns, as the first line has, got 3"),
        (",a,y\n0,1,x\n1,2,z\n", {}, r"each with a name, got \['', 'a'\]; pandas writes its index"),
        ("y\nx\nz\n", {}, r"expected columns beside 'y'"),
        ("a,y\n1,caf\xe9\n".encode("latin-1"), {}, r":2:6: expected UTF-8, got the byte 0xe9"),
        ("a,y\n1,2\n".encode("utf-16"), {}, r":1:1: expected UTF-8, got the byte 0xff"),
        ("a,y\n1," + "x" * 200_000 + "\n", {}, r":2:1: expected UTF-8 CSV .*: field larger"),
    ],
)
def test_what_is_wrong_in_csv_is_said_with_its_place(
    tmp_path: Path, text: str | bytes, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=rf"^{tmp_path}/t.csv.*?{message}"):
        table(tmp_path / "t.csv", text, **options)


@pytest.mark.parametrize(
    ("second", "options", "message"),
    [
        ('{"a": 1, "y": null}', {}, r":2:15: 'y': expected a class, got none"),
        ('{"a": 1, "y": NaN}', {}, r":2:15: 'y': expected a class, got none"),
        ('{"a": 1, "y": ""}', {}, r":2:15: 'y': expected a class, got none"),
        ('{"a": 1, "y": ["x"]}', {}, r""":2:15: 'y': expected a class, got \["x"\]"""),
        ('{"a": 1, "y": "1"}', {}, r":2:15: 'y': expected a whole number, as line 1 of .* has, got text, '1'"),
        ('{"a": 1, "y": 1.0}', {}, r":2:15: 'y': expected a whole number, .* got a number with a fraction, 1.0"),
        ('{"a": 1, "y": true}', {}, r":2:15: 'y': expected a whole number, .* got a truth value, true"),
        ('{"y": 2, "z": {"a": [1, "y"]}, "a" : "no"}', {}, r":2:38: 'a': expected a number, got 'no'"),
        ('{"a": null, "y": 1}', {}, r":2:7: 'a': expected a number, got null"),
        ('{"a": %s, "y": 1}' % ("1" * 400), {}, r":2:7: 'a': expected a number up to 3.4e\+38, .* got 11111"),
        ('{"a": %s, "y": 1}' % ("1" * 5000), {}, r":2:1: expected one JSON object a line"),
        ('{"a": 1, "y": 6e39}', NUMBERS, r":2:15: 'y': expected a number up to 3.4e\+38"),
        ('{"a": 1, "y": 2, "a": 3}', {}, r":2:23: expected each key once, got 'a' twice"),
        ('{"a": 1}', {}, r":2:1: there is no column 'y'"),
        ("{oops", {}, r":2:2: expected one JSON object a line"),
        ("[" * 100_000, {}, r":2:1: expected one JSON object a line"),
        ("[1]", {}, r":2:1: expected a JSON object, got list"),
    ],
)
def test_what_is_wrong_in_json_lines_is_said_with_its_place(
    tmp_path: Path, second: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=rf"^{tmp_path}/t.jsonl{message}"):
        table(tmp_path / "t.jsonl", f'{{"a": 1, "y": 1}}\n{second}\n', **options)


def test_classes_of_a_file_for_validation_are_of_the_same_kind(tmp_path: Path) -> None:
    (tmp_path / "v.jsonl").write_text('{"a": 1, "y": "1"}\n')
    with pytest.raises(DataError, match=r"v.jsonl:1:15: 'y': expected a whole number, as line 1 of .*t.jsonl has"):
        table(tmp_path / "t.jsonl", '{"a": 1, "y": 1}\n', validation_path=str(tmp_path / "v.jsonl"))


def test_classes_are_sorted_numbers_first_and_never_merged(tmp_path: Path) -> None:
    names = ["b", "nan", "10", "inf", "2", "1.0", "-inf", "1", "01", "1e999", "NaN", "a"]
    text = "a,y\n" + "".join(f"{place},{name}\n" for place, name in enumerate(names))
    data = table(tmp_path / "t.csv", text)
    turned = "".join(["a,y\n", *reversed(text.splitlines(keepends=True)[1:])])
    assert table(tmp_path / "turned.csv", turned).classes == data.classes
    assert data.classes == ["01", "1", "1.0", "2", "10", "-inf", "1e999", "NaN", "a", "b", "inf", "nan"]
    assert rows(data) == [([float(place)], data.classes.index(name)) for place, name in enumerate(names)]


PROGRAM = """
import sys
from burnlike.data import CsvConfig
data = CsvConfig(path=sys.argv[1], target="y").init()
print(data.classes, data.fingerprint, [data.train[index][1].item() for index in range(len(data.train))])
"""


@pytest.mark.slow
def test_classes_and_fingerprints_are_the_same_in_every_process(tmp_path: Path) -> None:
    text = "a,y\n" + "".join(f"{i},{it}\n" for i, it in enumerate(["nan", "3", "1", "2", "10", "nan", "7", "5"] * 2))
    table(tmp_path / "t.csv", text)
    found = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path / "t.csv")],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
            timeout=HANGS_S,
        ).stdout
        for seed in ("0", "1")
    }
    assert len(found) == 1
    assert found.pop().startswith("['1', '2', '3', '5', '7', '10', 'nan']")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        (["16777217", "1", "20240131123457"], r":2:1: 'a': '16777217' becomes 16777216: tables are float32"),
        (["1", "20240131123457", "16777217"], r":3:1: 'a': '20240131123457' becomes 20240131948544"),
        (["9007199254740993", "1", "2"], r":2:1: 'a': '9007199254740993' becomes 9007199254740992"),
        (["1", "2", "1706700000.25"], r":4:1: 'a': '1706700000.25' becomes 1706700032"),
        (["1", "2", "1e-300"], r":4:1: 'a': '1e-300' becomes 0"),
        (["0.1", "16777216", "33554432"], None),
        (["1e20", "1", "0"], r":2:1: 'a': '1e20' becomes 100000002004087734272"),
        (["-9007199254740992", "0", "1e-30"], None),
    ],
)
def test_numbers_that_float32_cannot_hold_are_said_once_for_each_column(
    tmp_path: Path, column: list[str], said: str | None
) -> None:
    text = "a,b,y\n" + "".join(f"{it},{it},{place}\n" for place, it in enumerate(column))
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        data = table(tmp_path / "t.csv", text, **NUMBERS)
    features = torch.tensor([row for row, _ in rows(data)])
    assert sorted(features[:, 0].tolist()) == sorted(torch.tensor([float(it) for it in column]).tolist())
    messages = [str(it.message) for it in found]
    assert len(messages) == (0 if said is None else 2)
    if said is not None:
        with pytest.raises(UserWarning, match=said):
            raise found[0].message if isinstance(found[0].message, Warning) else AssertionError
        assert "'b'" in messages[1]


def test_a_target_that_float32_cannot_hold_is_said(tmp_path: Path) -> None:
    text = "".join(json.dumps({"a": place, "y": 1_700_000_000_123 + place}) + "\n" for place in range(4))
    with pytest.warns(UserWarning, match=r"t.jsonl:1:15: 'y': 1700000000123 becomes 1700000038912"):
        table(tmp_path / "t.jsonl", text, **NUMBERS)


@pytest.mark.parametrize("config", [CsvConfig, JsonLinesConfig])
def test_pipes_devices_and_folders_are_not_read(tmp_path: Path, config: Any) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(BurnlikeError, match=rf"data.path: expected a regular file, got {path}"):
            config(path=str(path), target="y").init()


def test_a_column_is_named_once() -> None:
    with pytest.raises(BurnlikeError, match="features: expected each column once, got b, b"):
        CsvConfig(path="t.csv", target="y", features=("b", "b"))
