"""Kills a random process of a two-process run and resumes it: the run ends in the same bits.

python -m tests.train.distributed.kills 50
"""

import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from ...kills import kill_and_resume
from ...processes import HANGS_S, assert_succeed, launched
from ..samples import assert_same_run, write_config

OPTIONS = ["training.epochs=2", "training.accumulation_steps=2", "distributed.strategy=ddp", "training.ema={}"]


class TwoProcesses:
    """Of one run; where one is killed, the other one is too."""

    def __init__(self, place: Path) -> None:
        options = (word for it in OPTIONS for word in ("--set", it))
        self._command = ["-m", "burnlike", "train", str(write_config(place)), *options]
        self._logs = [place / f"log-{rank}" for rank in range(2)]
        self._workers: list[subprocess.Popen[bytes]] = []
        self._victims, self._killed = random.Random(3), False

    def start(self, run: Path) -> None:
        place = ["--resume", str(run)] if (run / "run.lock").exists() else ["--run-dir", str(run)]
        self._killed, self._workers = False, launched([*self._command, *place], self._logs)

    def is_running(self) -> bool:
        return all(it.poll() is None for it in self._workers)

    def kill(self) -> None:
        victim = self._victims.choice(self._workers)
        if victim.poll() is None:
            victim.kill()
            self._killed = victim.wait(HANGS_S) == -signal.SIGKILL

    def wait(self) -> bool:
        if not self._killed:
            assert_succeed(self._workers, self._logs)
            return True
        for worker in self._workers:
            worker.kill()
            worker.wait(HANGS_S)
        return False


def kill_one_of_two(kills: int, place: Path) -> int:
    """Kill so many times; returns how many runs were needed, each of which ended as one that was left alone."""
    trains = TwoProcesses(place)
    trains.start(place / "whole")
    assert trains.wait()
    return kill_and_resume(trains, kills, place, lambda run: assert_same_run(run, place / "whole"))[0]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[1])
        runs = kill_one_of_two(count, Path(folder))
        print(f"{count} kills in {runs} runs of two processes: all ended in the same bits")
