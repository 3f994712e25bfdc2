"""Models in two processes, divided in each way that torch has, give the numbers of one process in float64."""

import json
from pathlib import Path

import pytest

from ...processes import assert_succeed, launched
from .models_worker import CHECKS

LARGEST = 1e-12


QUICK = [
    "joint, ddp",
    "joint statistics",
    "generated, grouped heads",
    "tensor parallel, norms of heads",
    "too few heads",
]
SLOW = [name for name in CHECKS if name not in QUICK]
Found = list[dict[str, float | str]]


def run_two(folder: Path, names: list[str]) -> Found:
    """What two processes found."""
    logs = [folder / f"{rank}.log" for rank in range(2)]
    workers = launched(["-m", "tests.train.distributed.models_worker", str(folder), *names], logs)
    assert_succeed(workers, logs)
    return [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return run_two(tmp_path_factory.mktemp("quick"), QUICK)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Found:
    return run_two(tmp_path_factory.mktemp("slow"), SLOW)


def assert_near(found: Found, name: str) -> None:
    for each in found:
        error = each[name]
        assert isinstance(error, float), error
        assert error <= LARGEST


@pytest.mark.parametrize("name", QUICK)
def test_two_processes_compute_what_one_does(name: str, quick: Found) -> None:
    assert_near(quick, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", SLOW)
def test_two_processes_compute_what_one_does_in_every_way(name: str, slow: Found) -> None:
    assert_near(slow, name)
