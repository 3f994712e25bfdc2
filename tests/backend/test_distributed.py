"""Gradients under DDP and FSDP2: two processes on halves of a batch equal one on the whole."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.parametrize("how", ["plain", "ddp", "ddp_unused", "fsdp"])
def test_two_processes_equal_the_joined_batch(how: str, tmp_path: Path) -> None:
    command = [sys.executable, "-W", "ignore", "-m", "tests.backend.gradient_worker", how]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    logs = [tmp_path / f"rank{rank}.log" for rank in range(2)]
    workers: list[subprocess.Popen[bytes]] = []
    for rank, log in enumerate(logs):
        with log.open("w") as stream:
            arguments = [*command, str(rank), str(tmp_path / "store")]
            workers.append(subprocess.Popen(arguments, stdout=stream, stderr=subprocess.STDOUT, env=environment))
    deadline = time.monotonic() + 120
    # One that fails leaves the other waiting.
    while any(worker.poll() is None for worker in workers) and not any(worker.poll() for worker in workers):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    for worker in workers:
        worker.kill()
        worker.wait()
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(log.read_text() for log in logs)
