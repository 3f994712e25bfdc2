"""Two launchers stand for two machines; one is killed with its processes and replaced, again and again.

Each has a network of its own, a namespace of Linux, where these can be made; else both are on loopback.

python -m tests.train.distributed.machines 20
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from ...kills import kill_and_resume
from ...processes import HANGS_S, free_port
from ..samples import assert_same_run, write_config

OPTIONS = ["training.accumulation_steps=2", "distributed.strategy=ddp", "training.ema={}", "task.sample_length=0"]
QUICK = "keep_alive_interval=1,keep_alive_max_attempt=3,last_call_timeout=1"
"""A machine that is silent for three seconds is gone; the others wait a second for more than the fewest."""


class Network(NamedTuple):
    """Of a machine: what a command in it begins with, the machine's address and its interface."""

    command: Sequence[str] = ()
    address: str = "127.0.0.1"
    interface: str = "lo"


LOOPBACK = (Network(), Network())


@contextmanager
def networks() -> Iterator[Sequence[Network]]:
    """Two networks that a cable joins; loopback twice where the system lets nobody make any."""
    names = [f"bl{os.getpid()}-{number}" for number in range(2)]
    pairs = [Network(("ip", "netns", "exec", it), f"10.77.0.{at}", it) for at, it in enumerate(names, 1)]
    steps = [f"netns add {it}" for it in names]
    steps.append(f"link add {names[0]} netns {names[0]} type veth peer name {names[1]} netns {names[1]}")
    for it in pairs:
        steps.append(f"-n {it.interface} addr add {it.address}/24 dev {it.interface}")
        steps += [f"-n {it.interface} link set {device} up" for device in ("lo", it.interface)]
    try:
        yield pairs if shutil.which("ip") and all(_ip(step) for step in steps) else LOOPBACK
    finally:
        for it in names if shutil.which("ip") else ():
            _ip(f"netns del {it}")


def _ip(words: str) -> bool:
    return subprocess.run(["ip", *words.split()], capture_output=True, check=False).returncode == 0


class Machines:
    """The launchers of one job, the first of which keeps what they tell one another."""

    def __init__(
        self,
        config: Path,
        run: Path,
        nodes: str,
        *options: str,
        more: Sequence[str] = (),
        networks: Sequence[Network] = LOOPBACK,
    ) -> None:
        self.run = run
        self._networks = networks
        self.logs: list[Path] = []
        self._command = [
            *(sys.executable, "-W", "ignore", "-m", "burnlike", "launch", str(config), "--run-dir", str(run)),
            *("--nproc", "1", "--nnodes", nodes, "--rdzv-endpoint", f"{networks[0].address}:{free_port()}"),
            *("--max-restarts", "100"),
            *(word for it in (*OPTIONS, *options) for word in ("--set", it)),
            *more,
        ]

    def start(self) -> subprocess.Popen[bytes]:
        log = self.run.with_name(f"{self.run.name}-launcher-{len(self.logs)}.log")
        # Both are on the machine of the endpoint; only the first is to keep it.
        network = self._networks[min(len(self.logs), 1)]
        command = [*network.command, *self._command, "--local-addr", network.address]
        command += ["--rdzv-conf", f"{QUICK},is_host={int(not self.logs)}"]
        variables = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": network.interface}
        self.logs.append(log)
        with log.open("w") as stream:
            return subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT, env={**os.environ, **variables})

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


class TwoMachines:
    """Of one run, the second of which is killed and replaced, where the first one stays."""

    def __init__(self, config: Path, networks: Sequence[Network]) -> None:
        self._config, self._networks = config, networks
        self._job: Machines | None = None
        self._first: subprocess.Popen[bytes] | None = None
        self._second: subprocess.Popen[bytes] | None = None
        self._has_joined = False

    def start(self, run: Path) -> None:
        """Returns when the run trains, or trains again."""
        if self._job is None or self._job.run != run or self._first is None:
            self._job = Machines(self._config, run, "2", networks=self._networks)
            self._first = self._job.start()
        job, starts = self._job, self._job.starts()
        self._second = job.start()
        self._has_joined = job.wait_for(lambda: job.starts() > starts, self._first)

    def is_running(self) -> bool:
        launchers = (self._first, self._second)
        return all(it is not None and it.poll() is None for it in launchers)

    def kill(self) -> None:
        if self.is_running() and self._second is not None:
            kill(self._second)

    def wait(self) -> bool:
        assert self._job is not None
        assert self._first is not None
        assert self._second is not None
        if self._second.poll() == -signal.SIGKILL:
            return False
        self._job.end(self._first)
        if self._has_joined:
            self._job.end(self._second)
        else:  # it was started when the training was over, and waits for others that never come
            kill(self._second)
        return True


def kill_and_replace(kills: int, place: Path) -> int:
    """Kill so many times; returns how many runs were needed, each of which ended as one that was left alone."""
    with networks() as pair:
        trains = TwoMachines(write_config(place), pair)
        trains.start(place / "whole")
        assert trains.wait()
        return kill_and_resume(trains, kills, place, lambda run: assert_same_run(run, place / "whole"), steps=(3,))[0]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        count = int(sys.argv[1])
        runs = kill_and_replace(count, Path(folder))
        print(f"{count} kills of one of two machines in {runs} runs: all ended in the same bits")
