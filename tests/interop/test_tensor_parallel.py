"""Layers, models and native ops in two processes that share them give the numbers of one, in float64."""

import json

import pytest

from ..processes import assert_succeed, launched
from .tensor_worker import CHECKS

LARGEST = 1e-12
Found = list[dict[str, float | str]]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What two processes found, started once for all checks."""
    folder = tmp_path_factory.mktemp("two")
    logs = [folder / f"{rank}.log" for rank in range(2)]
    assert_succeed(launched(["-m", "tests.interop.tensor_worker", str(folder)], logs), logs)
    return [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_two_processes_compute_what_one_does(name: str, found: Found) -> None:
    for each in found:
        error = each[name]
        assert isinstance(error, float), error
        assert error <= LARGEST
