"""Two launchers on loopback stand for two machines; one is killed with its processes and replaced, again and again.

python -m tests.train.distributed.machines 20
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from ...processes import HANGS_S, free_port
from ..samples import assert_same_run, write_config

OPTIONS = ["training.accumulation_steps=2", "distributed.strategy=ddp", "training.ema={}", "task.sample_length=0"]
QUICK = "keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=1"
"""A machine that is silent for three seconds is gone; the others wait a second for more than the fewest."""


class Machines:
    """The launchers of one job, the first of which keeps what they tell one another."""

    def __init__(self, config: Path, run: Path, nodes: str, *options: str, more: Sequence[str] = ()) -> None:
        self.run = run
        self.logs: list[Path] = []
        self._command = [
            *(sys.executable, "-W", "ignore", "-m", "burnlike", "launch", str(config), "--run-dir", str(run)),
            *("--nproc", "1", "--nnodes", nodes, "--rdzv-endpoint", f"127.0.0.1:{free_port()}"),
            *("--local-addr", "127.0.0.1", "--max-restarts", "100"),
            *(word for it in (*OPTIONS, *options) for word in ("--set", it)),
            *more,
        ]

    def start(self) -> subprocess.Popen[bytes]:
        log = self.run.with_name(f"{self.run.name}-launcher-{len(self.logs)}.log")
        # Both are on the machine of the endpoint; only the first is to keep it.
        command = [*self._command, "--rdzv-conf", f"{QUICK},is_host={int(not self.logs)}"]
        self.logs.append(log)
        with log.open("w") as stream:
            return subprocess.Popen(
                command, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, "OMP_NUM_THREADS": "1"}
            )

    def wait_for(self, is_done: Callable[[], object], launcher: subprocess.Popen[bytes]) -> bool:
        """Whether it is done, before this launcher has ended."""
        deadline = time.monotonic() + HANGS_S
        while not is_done():
            if launcher.poll() is not None:
                return False
            assert time.monotonic() < deadline, self.text()
            time.sleep(0.01)
        return True

    def text(self) -> str:
        return "\n".join(log.read_text() for log in [*self.logs, *self.run.glob("logs/*.log")])

    def starts(self) -> int:
        """How often rank 0 has begun, or gone on."""
        log = self.run / "log.txt"
        return log.read_text().count(" at step ") if log.exists() else 0

    def end(self, *launchers: subprocess.Popen[bytes]) -> None:
        for launcher in launchers:
            assert launcher.wait(HANGS_S) == 0, self.text()


def kill(launcher: subprocess.Popen[bytes]) -> None:
    """As if the power of the machine had failed: the launcher and the processes that it has started."""
    below = subprocess.run(["pgrep", "-P", str(launcher.pid)], capture_output=True, text=True, check=False)
    for process in (*below.stdout.split(), launcher.pid):
        with suppress(ProcessLookupError):
            os.kill(int(process), signal.SIGKILL)
    launcher.wait(HANGS_S)


def kill_and_replace(kills: int, place: Path) -> int:
    """Kill so many times; returns how many runs were needed, each of which ended as one that was left alone."""
    config = write_config(place)
    whole = Machines(config, place / "whole", "2")
    whole.end(whole.start(), whole.start())
    done = runs = 0
    while done < kills:
        job = Machines(config, place / f"run-{runs}", "2")
        first, second = job.start(), job.start()
        while done < kills:
            before, starts = {*job.run.glob("checkpoints/step-*")}, job.starts()
            # Once it trains again, after its next checkpoint.
            is_on = job.wait_for(lambda: {*job.run.glob("checkpoints/step-*")} - before, first)  # noqa: B023
            if not is_on or job.starts() == 0 or second.poll() is not None:
                break
            kill(second)
            done += 1
            second = job.start()
            job.wait_for(lambda: job.starts() > starts, first)  # noqa: B023
        job.end(first, second)
        assert_same_run(job.run, whole.run)
        runs += 1
    return runs


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[1])
        runs = kill_and_replace(count, Path(folder))
        print(f"{count} kills of one of two machines in {runs} runs: all ended in the same bits")
