"""Runs commands, programs and modules without their start-up: a process that has imported torch forks them.

The server runs nothing itself, so that a fork has no threads to lose. It reads lines of JSON and answers each with one:
what to start with its process id, `{"poll": id}` with the status, or null while the process runs. An ended process
stays a zombie until `{"reap": id}`, so that its id means no other process.
"""

import atexit
import builtins
import faulthandler
import json
import os
import random
import re
import resource
import runpy
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

HANGS_S = 600
"""When what should have come is taken for hanging: long after any machine, however busy, would have done it."""


class Forked:
    """A process that a server has forked, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, server: "ForkServer", pid: int) -> None:
        self._server, self.pid = server, pid
        self.returncode: int | None = None
        self._is_reaped = False

    def poll(self) -> int | None:
        """The status; negative for the signal that ended the process; None while it runs."""
        if self.returncode is None:
            self.returncode = self._server.ask({"poll": self.pid})
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = time.monotonic() + (timeout or HANGS_S)
        while (status := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"the fork {self.pid}", timeout or HANGS_S)
            time.sleep(0.002)
        if not self._is_reaped:
            self._server.ask({"reap": self.pid})
            self._is_reaped = True
        return status

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class ForkServer:
    """Starts processes; `start` and `run_program` one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server"],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # tests share the cores
        )
        self._child: Forked | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(HANGS_S)
        self._process.stdout.close()

    def start(self, arguments: list[str], output: Path, max_file_bytes: int | None = None) -> int:
        """Start `burnlike <arguments>`, its output going to a file; returns the process id."""
        command = {"arguments": arguments, "output": str(output), "max_file_bytes": max_file_bytes}
        self._child = self._forked(command)
        return self._child.pid

    def run_program(self, text: str, folder: Path, allowed_warnings: dict[str, type[Warning]]) -> tuple[int, str]:
        """The status and the output of `python -W error -c text` in a folder.

        Args:
            text: of the program.
            folder: that it runs in.
            allowed_warnings: how the messages begin that are no errors, and of which built-in class they are.
        """
        output = folder / "output-of-the-program"
        allowed = {message: category.__name__ for message, category in allowed_warnings.items()}
        command = {"program": text, "folder": str(folder), "output": str(output), "allowed": allowed}
        self._child = self._forked(command)
        return self.wait(), output.read_text()

    def run_module(self, arguments: list[str], output: Path, variables: Mapping[str, str], folder: Path) -> Forked:
        """Start `python -W ignore -m <arguments>` in a folder, with further environment variables."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **variables}
        command = {"module": arguments, "output": str(output), "environment": environment, "folder": str(folder)}
        return self._forked(command)

    @property
    def is_running(self) -> bool:
        """Whether the command that was started last has not ended."""
        return self._child is not None and self._child.poll() is None

    def wait(self) -> int:
        """The exit status of the command that was started last; negative for the signal that killed it."""
        assert self._child is not None
        return self._child.wait()

    def run(self, arguments: list[str], output: Path, max_file_bytes: int | None = None) -> int:
        """Start a command and wait for its end."""
        self.start(arguments, output, max_file_bytes)
        return self.wait()

    def _forked(self, command: dict[str, Any]) -> Forked:
        return Forked(self, self.ask(command))

    def ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answered, _, _ = select.select([self._process.stdout], [], [], HANGS_S)
        assert answered, f"no answer to {question} within {HANGS_S} seconds"
        return json.loads(self._process.stdout.readline())


def _serve() -> None:
    # imported once, for all children
    import torch

    import burnlike.cli.main
    import burnlike.models.decoder_lm.model
    import burnlike.tensor.tensor
    import burnlike.train.job.job  # noqa: F401

    with torch.device("meta"):
        torch.empty_like(torch.empty(1))  # the first use of this device imports much more

    while line := sys.stdin.readline():
        command = json.loads(line)
        if "poll" in command:
            print(json.dumps(_status_of(command["poll"])), flush=True)
            continue
        if "reap" in command:
            print(os.waitpid(command["reap"], 0)[0], flush=True)
            continue
        child = os.fork()
        if child == 0:
            _become(command)
            status = 1
            try:
                status = _run(command)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        print(child, flush=True)


def _status_of(pid: int) -> int | None:
    ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status


def _become(command: dict[str, Any]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(command["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if "environment" in command:
        os.environ.clear()
        os.environ.update(command["environment"])
    if "folder" in command:
        os.chdir(command["folder"])
    if command.get("max_file_bytes") is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (command["max_file_bytes"],) * 2)
    random.seed()  # as a new process has it, and not as the server


def _run(command: dict[str, Any]) -> int:
    if "arguments" in command:
        from burnlike.cli.main import main

        return main(command["arguments"])
    status = 0
    try:
        _run_module(command["module"]) if "module" in command else _run_program(command)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # as at the end of a process: what runs in the background ends
    atexit._run_exitfuncs()
    return status


def _run_module(arguments: list[str]) -> None:
    faulthandler.enable()
    warnings.resetwarnings()
    warnings.simplefilter("ignore")
    sys.argv = arguments  # whose first becomes the file of the module
    sys.path[:1] = [os.getcwd(), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)


def _run_program(command: dict[str, Any]) -> None:
    sys.argv, sys.path[:0] = ["-c"], [""]
    sys.modules["__main__"] = main = ModuleType("__main__")
    warnings.resetwarnings()
    warnings.simplefilter("error")
    for message, category in command["allowed"].items():
        warnings.filterwarnings("ignore", re.escape(message), getattr(builtins, category))
    exec(compile(command["program"], "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    _serve()
