"""Every name of Burn's tensor API has a numeric case that runs: a vector, or a case of the modules `api_cases*`."""

import importlib
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import Autodiff, Cpu, Tensor
from burnlike.tensor import Transaction, set_print_options
from tests.vectors import calls
from tests.vectors.cases import run
from tests.vectors.files import read
from tools.tensor_api import groups

from .api_cases import CASES, check

for part in ("math", "values", "functions"):
    importlib.import_module(f"tests.tensor.api.api_cases_{part}")

ROOT = Path(__file__).parents[3]
ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "api_table.json").read_text())
NAMES = [row["name"] for row in ROWS]

# Names that burnlike spells otherwise, by design.
SPELLED = {
    "inner": "without_autodiff",
    "no_grad": "without_autodiff",
}
FUNCTIONS: dict[str, Any] = {"set_print_options": set_print_options}
# Names of torch's tensors, burnlike's own, and two that Burn had up to 0.13.
NOT_OF_BURN = {"T", "backend", "clone", "item", "numpy", "pin_memory", "from_full_precision", "to_full_precision"}


def numeric(record: dict[str, Any]) -> bool:
    """Whether a vector says what numbers come out."""
    expected = record["expected"]
    forms = expected if isinstance(expected, list) else [expected]
    return any(isinstance(it, bool) or (isinstance(it, dict) and {"data", "full", "text"} & it.keys()) for it in forms)


VECTORS: dict[str, dict[str, Any]] = {}
for found in read(ROOT / "tests" / "vectors" / "tensor_ops.json"):
    if numeric(found):
        VECTORS.setdefault(found["op"], found)


def key_of(row: dict[str, Any]) -> str:
    """The name of a row; with its kind where several rows have the name."""
    name = row["name"]
    return name if NAMES.count(name) == 1 else f"{name} ({row['kinds'][0]})"


@pytest.mark.parametrize("row", ROWS, ids=key_of)
def test_every_name_exists(row: dict[str, Any]) -> None:
    name = row["name"]
    if name.startswith("__"):
        assert all(callable(getattr(Tensor, operator)) for operator in name.split("/"))
    elif name.startswith("Transaction."):
        assert callable(getattr(Transaction, name.split(".")[1]))
    elif name not in FUNCTIONS:
        assert calls.function_named(SPELLED.get(name, name)) is not None


@pytest.mark.parametrize("row", ROWS, ids=key_of)
def test_every_name_has_a_numeric_case_that_passes(row: dict[str, Any]) -> None:
    key = key_of(row)
    if key in CASES:
        check(CASES[key](Cpu()))
        check(CASES[key](Autodiff(Cpu())))
        return
    record = VECTORS.get(key)
    assert record is not None, f"{key} has neither a vector nor a case"
    plain = Cpu(int=torch.int32)
    for backend in (plain, Autodiff(plain)):
        outcome = run(record, backend)
        assert outcome.verdict == "passed", outcome.reason


def test_every_case_has_a_row() -> None:
    keys = {key_of(row) for row in ROWS} | {"from"}
    assert [name for name in CASES if name not in keys] == []


def test_every_method_and_function_has_a_row() -> None:
    listed = {row.name for group in groups() for row in group.rows}
    assert sorted(listed - set(NAMES) - NOT_OF_BURN) == []


def test_every_kind_has_rows() -> None:
    assert {kind for row in ROWS for kind in row["kinds"]} == {"Float", "Int", "Bool"}
