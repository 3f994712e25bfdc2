"""Processes of several ranks that a test starts, and what became of them."""

import atexit
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import SIGSEGV
from typing import Any

from .fork_server import HANGS_S, Forked, ForkServer

Worker = subprocess.Popen[bytes] | Forked

_SERVERS: list[ForkServer] = []
"""Two, whose strings have other hashes: processes of a job agree on no order of a set."""


def started(
    arguments: list[str], log: Path, variables: Mapping[str, str], folder: Path | None = None
) -> subprocess.Popen[bytes]:
    """Python with `arguments`, which writes to `log`, in this environment with `variables`, and in `folder`."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
    with log.open("w") as stream:
        return subprocess.Popen(
            [sys.executable, "-W", "ignore", *arguments],
            stdout=stream,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=folder,
        )


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _server(rank: int) -> ForkServer:
    while len(_SERVERS) < 2:
        _SERVERS.append(ForkServer())
        atexit.register(_SERVERS[-1].close)
    return _SERVERS[rank % 2]


def launched(
    arguments: list[str], logs: list[Path], folders: Sequence[Path | None] = (), *, forked: bool = True
) -> list[Worker]:
    """A process for each of `logs`, with the environment that torchrun gives the workers of one machine.

    Args:
        arguments: of each: `-m`, a module, and its own.
        logs: what each writes to.
        folders: in which each works; without, that of this process.
        forked: False for new processes, which read what torch asks of the environment when it is imported.
    """
    port = str(free_port())
    count = str(len(logs))
    job = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    workers: list[Worker] = []
    for rank, (log, folder) in enumerate(zip(logs, folders or [None] * len(logs), strict=True)):
        variables = {**job, "RANK": str(rank), "LOCAL_RANK": str(rank)}
        if forked:
            module = arguments[arguments.index("-m") + 1 :]
            workers.append(_server(rank).run_module(module, log, variables, folder or Path.cwd()))
        else:
            workers.append(started(arguments, log, variables, folder))
    return workers


def assert_succeed(workers: list[Worker], logs: list[Path]) -> None:
    """Wait for all to end well; the test fails with their logs if one does not within `HANGS_S`."""
    wait_for(workers)
    assert [worker.returncode for worker in workers] == [0] * len(workers), "\n".join(log.read_text() for log in logs)


def results_of(module: str, folder: Path, *arguments: str, processes: int = 2) -> list[dict[str, Any]]:
    """The results by check of each process of `module`, which writes them into `folder` by `checks.write_results`."""
    logs = [folder / f"{rank}.log" for rank in range(processes)]
    assert_succeed(launched(["-m", module, str(folder), *arguments], logs), logs)
    return [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(processes)]


def assert_near(results: Sequence[Mapping[str, Any]], check: str, largest: float = 1e-12) -> None:
    """The error that each process found by a check is at most `largest`; the test fails with what was raised."""
    for each in results:
        assert isinstance(each[check], float), each[check]
        assert each[check] <= largest


def wait_for(workers: list[Worker]) -> None:
    """Wait for all to end, and end the others where one fails, or all after `HANGS_S`."""
    deadline = time.monotonic() + HANGS_S
    # One that fails leaves the other waiting.
    while any(worker.poll() is None for worker in workers) and not any(worker.poll() for worker in workers):
        if time.monotonic() > deadline:
            break
        time.sleep(0.05)
    for worker in workers:
        worker.kill()
        worker.wait()


def wait_until(is_done: Callable[[], bool], worker: Worker) -> None:
    """Wait for something that a living process does; the test fails if it ends before, or takes `HANGS_S`."""
    deadline = time.monotonic() + HANGS_S
    while not is_done():
        assert worker.poll() is None, f"the process has ended with {worker.returncode}"
        assert time.monotonic() < deadline, "the process hangs"
        time.sleep(0.001)


def crashed_in_a_thread_of_torch(workers: list[Worker], logs: list[Path]) -> bool:
    """Whether a process that has `faulthandler` enabled was ended by a crash in a thread that runs no Python.

    Those are gloo's: with torch 2.13 one crashed, once in many runs, while the main thread went on after an exchange.
    A crash of code that Python called has a "Current thread" in the log.
    """
    crashed = [log.read_text() for worker, log in zip(workers, logs, strict=True) if worker.returncode == -SIGSEGV]
    return any("Fatal Python error: Segmentation fault" in it and "Current thread" not in it for it in crashed)
