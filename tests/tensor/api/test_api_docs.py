"""docs/tensor_api.md is what the generator makes, and every public method says what torch has for it."""

import json
from pathlib import Path

import pytest

from tools import tensor_stubs
from tools.pages import line_of, main
from tools.tensor_api import PAGE, Group, Row, groups, page

GROUPS: list[Group] = groups()
ROWS: list[Row] = [row for group in GROUPS for row in group.rows]


def test_the_page_is_what_the_code_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert PAGE.read_text() == page(), "run `make docs`"
    assert main("tools.tensor_api", page, PAGE, ["--check"]) == 0


def test_the_stubs_are_what_the_tables_say(capsys: pytest.CaptureFixture[str]) -> None:
    assert tensor_stubs.main(["--check"]) == 0, capsys.readouterr().err


def test_every_method_names_its_torch_equivalent() -> None:
    assert [row.name for row in ROWS if not row.torch] == []


def test_kinds_come_from_the_annotations() -> None:
    kinds = {row.name: row.kinds for row in ROWS}
    assert kinds["exp"] == "Float"
    assert kinds["add"] == "Float, Int"
    assert kinds["bitwise_not"] == "Int"
    assert kinds["bool_not"] == "Bool"
    assert kinds["flip"] == kinds["zeros"] == "Float, Int, Bool"
    assert kinds["arange"] == "Int"
    assert kinds["activation.relu"] == "Float"


def test_kinds_are_those_of_the_table() -> None:
    kinds: dict[str, set[str]] = {}
    for row in ROWS:
        kinds.setdefault(row.name, set()).update(row.kinds.split(", "))
    rows = json.loads((Path(__file__).parent / "api_table.json").read_text())
    assert [row["name"] for row in rows if not set(row["kinds"]) <= kinds.get(row["name"], set(row["kinds"]))] == []


def test_a_line_of_a_docstring_ends_at_the_next_section() -> None:
    doc = "What it does.\n\nTorch: `torch.add`,\nand more.\nDiffers: ranks.\n\nArgs:\n    x: one."
    assert line_of(doc, "Torch") == "`torch.add`, and more."
    assert line_of(doc, "Differs") == "ranks."
    assert line_of(doc, "Raises") == ""


def test_labels_may_follow_each_other_in_one_line() -> None:
    doc = "What it does. `[..] -> [..]`. Torch: `torch.add(x)`. Differs: ranks; no promotion. Raises TypeError: no."
    assert line_of(doc, "Torch") == "`torch.add(x)`"
    assert line_of(doc, "Differs") == "ranks; no promotion"
