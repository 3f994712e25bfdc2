"""Two processes with a TorchOptimizer under FSDP2 give the weights of one, and torch's checkpoints go on alike."""

import json
from pathlib import Path

import pytest

from ..processes import assert_succeed, launched

CHECKS = [
    *(f"{name} {check}" for name in ("adamw", "adafactor") for check in ("steps", "wrapped afterwards")),
    *(
        f"{name} {check}"
        for name in ("adamw", "adafactor")
        for check in ("files", "files in the background", "whole states")
    ),
    "adamw shown",
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float | str]]:
    """What two processes found."""
    folder = tmp_path_factory.mktemp("sharded")
    logs = [folder / f"{rank}.log" for rank in range(2)]
    workers = launched(["-m", "tests.interop.sharded_worker", str(folder)], logs)
    assert_succeed(workers, logs)
    return [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_two_processes_give_the_weights_of_one(found: list[dict[str, float | str]], check: str) -> None:
    for of_rank in found:
        error = of_rank[check]
        assert isinstance(error, float), error
        assert error <= 1e-12


@pytest.mark.slow
def test_lightning_shards_by_fsdp2(tmp_path: Path) -> None:
    logs = [tmp_path / f"{rank}.log" for rank in range(2)]
    assert_succeed(launched(["-m", "tests.interop.lightning_worker", str(tmp_path)], logs), logs)
    for rank in range(2):
        assert json.loads((tmp_path / f"found{rank}.json").read_text())["lightning"] <= 1e-6
