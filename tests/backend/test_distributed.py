"""Gradients under DDP and FSDP2: two processes on halves of a batch equal one on the whole."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("how", ["plain", "ddp", "ddp_unused", "fsdp"])
def test_two_processes_equal_the_joined_batch(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.backend.gradient_worker", how]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    workers = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
        )
        for rank in range(2)
    ]
    try:
        outputs = [worker.communicate(timeout=120)[0] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(outputs)
