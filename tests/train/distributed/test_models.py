"""Models in two processes, divided in each way that torch has, give the numbers of one process in float64."""

import json

import pytest

from ...processes import assert_succeed, launched
from .models_worker import CHECKS

LARGEST = 1e-12

Found = list[dict[str, float | str]]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What two processes found."""
    folder = tmp_path_factory.mktemp("models")
    logs = [folder / f"{rank}.log" for rank in range(2)]
    workers = launched(["-m", "tests.train.distributed.models_worker", str(folder), *CHECKS], logs)
    assert_succeed(workers, logs)
    return [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("name", CHECKS)
def test_two_processes_compute_what_one_does(name: str, found: Found) -> None:
    for each in found:
        error = each[name]
        assert isinstance(error, float), error
        assert error <= LARGEST
