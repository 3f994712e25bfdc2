"""Gradients under DDP and FSDP2: two processes on halves of a batch equal one on the whole."""

from pathlib import Path

import pytest

from ..processes import assert_succeed, started


@pytest.mark.parametrize("how", ["plain", "ddp", "ddp_unused", "fsdp"])
def test_two_processes_equal_the_joined_batch(how: str, tmp_path: Path) -> None:
    logs = [tmp_path / f"rank{rank}.log" for rank in range(2)]
    command = ["-m", "tests.backend.gradient_worker", how]
    workers = [started([*command, str(rank), str(tmp_path / "store")], log, {}) for rank, log in enumerate(logs)]
    assert_succeed(workers, logs)
