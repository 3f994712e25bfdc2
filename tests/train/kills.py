"""Kills of a run at random moments: what they leave is whole, and resumed it ends in the same bits."""

import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from burnlike.record import SafetensorsRecorder

from ..fork_server import ForkServer
from .samples import assert_same_run

RECORDS = {"model", "optimizer", "training"}


def last_whole_step(run: Path) -> int:
    """The step of the last checkpoint, after reading every checkpoint in full; -1 without one."""
    steps = [-1]
    for path in (run / "checkpoints").glob("step-*"):
        files = {file.stem for file in path.iterdir()}
        assert files - {"ema"} == RECORDS, f"{path} holds {files}"
        records = {name: SafetensorsRecorder().load(path / f"{name}.safetensors") for name in files}
        for record in records.values():
            assert all(tensor is not None for tensor in dict(record.tensors).values())
        assert records["training"].values["parts"]["counters"]["step"] == int(path.name.removeprefix("step-"))
        steps.append(int(path.name.removeprefix("step-")))
    return max(steps)


def survive_kills(
    server: ForkServer, command: Sequence[str], expected: Path, seconds: float, tmp_path: Path, n_kills: int
) -> None:
    """Kill runs of a command `n_kills` times in all, resume each, and compare it with the run that took `seconds`."""
    moments, longest = random.Random(20), 0.4 * seconds
    kills, runs, interrupted_steps, resumed = 0, 0, set(), 0
    while kills < n_kills:
        run = tmp_path / f"run-{runs}"
        arguments = [*command, "--run-dir", str(run)]
        step = -1
        while True:
            process = server.start(arguments, tmp_path / "output")
            if kills < n_kills:
                time.sleep(moments.uniform(0, longest))
                os.kill(process, signal.SIGKILL)
            status = server.wait()
            assert status in (0, -signal.SIGKILL), (tmp_path / "output").read_text()
            if status == 0:
                longest *= 0.7  # the machine is faster than it was for the undisturbed run
                break
            kills += 1
            found = last_whole_step(run) if run.exists() else -1
            assert found >= step, "a checkpoint was lost"
            longest *= 1.0 if found > step else 1.3
            step = found
            interrupted_steps.add(step)
            resumed += step > 0
            if run.exists():
                arguments = [*command, "--resume", str(run)]
        assert_same_run(run, expected)
        runs += 1
    # the moments must have been spread over the run for this to show anything
    assert len(interrupted_steps) >= min(4, n_kills // 4)
    assert resumed >= n_kills // 10
