"""Gradients under DDP and FSDP2: two processes on halves of a batch equal one on the whole."""

from pathlib import Path

import pytest

from ..marks import slow, weekly
from ..processes import assert_succeed, started


def run_two(worker: str, how: str, tmp_path: Path) -> None:
    logs = [tmp_path / f"rank{rank}.log" for rank in range(2)]
    command = ["-m", f"tests.backend.{worker}", how]
    workers = [started([*command, str(rank), str(tmp_path / "store")], log, {}) for rank, log in enumerate(logs)]
    assert_succeed(workers, logs)


@pytest.mark.parametrize("how", [*slow("fsdp"), *weekly("plain", "ddp", "ddp_unused")])
def test_two_processes_equal_the_joined_batch(how: str, tmp_path: Path) -> None:
    run_two("gradient_worker", how, tmp_path)


@pytest.mark.parametrize("how", [*slow("ddp"), *weekly("ddp_bucket_views", "fsdp")])
def test_loops_end_with_the_weights_of_torchs_own(how: str, tmp_path: Path) -> None:
    run_two("loop_worker", how, tmp_path)
