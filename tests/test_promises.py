"""The promises of docs/deviations: the tests and rows that they name are there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
PAGES = {it.stem: it.read_text() for it in (TESTS.parent / "docs" / "deviations").glob("*.md")}
PROMISES, MLAX = PAGES.pop("promises"), PAGES.pop("mlax")
BURN = "\n".join(PAGES.values())
ROWS = [tuple(line.strip("| ").split(" | ")) for line in PROMISES.splitlines() if line.startswith("| ")]
ROWS = [row for row in ROWS if row not in (("promise", "shown by"), ("---", "---"))]


@cache
def functions(path: Path) -> frozenset[str]:
    """The functions of a file, with the classes that they are in."""
    found: set[str] = set()
    for node in ast.parse(path.read_text()).body:
        within = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        found |= {prefix + it.name for it in within if isinstance(it, ast.FunctionDef | ast.AsyncFunctionDef)}
    return frozenset(found)


def subjects(table: str) -> set[str]:
    return {line.split(" | ")[0].removeprefix("| ") for line in table.splitlines() if line.startswith("| ")}


def test_there_are_promises_of_each_page() -> None:
    assert len(ROWS) > 60
    assert {len(row) for row in ROWS} == {2}
    assert re.findall(r"^## .*\((\w+)\)$", PROMISES, re.MULTILINE) == ["Burn"] * 5 + ["MLAX"]


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_shows_a_promise_is_there(row: tuple[str, str]) -> None:
    named = re.findall(r"`([\w/]+\.py)::([\w:]+)(?:\[[^`]*\])?`", row[1])
    referred = re.findall(r"row “(.*?)”( of MLAX)?", row[1])
    assert named or referred, "a promise is shown by a test or by a row"
    assert row[1].count("::") == sum(1 + name.count("::") for _, name in named), "a test is named otherwise"
    for file, name in named:
        assert (TESTS / file).is_file(), f"there is no tests/{file}"
        assert name in functions(TESTS / file), f"tests/{file} has no {name}"
    for subject, mlax in referred:
        assert subject in subjects(MLAX if mlax else BURN), f"there is no row {subject!r}"
