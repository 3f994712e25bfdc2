"""Runs `burnlike` commands and programs without their start-up: a process that has imported torch forks them.

The server runs nothing itself, so that a fork has no threads to lose. It reads a JSON object, starts what it says and
answers with its process id; then reads a line, waits for the end and answers with the status. Until that line an ended
process stays a zombie, so that its id means no other one.
"""

import atexit
import builtins
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import threading
import traceback
import warnings
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, Self

import psutil

from .processes import HANGS_S


class ForkServer:
    """Starts commands; one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fork_server"],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},  # tests share the cores
        )
        self._child: psutil.Process | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(HANGS_S)
        self._process.stdout.close()

    def start(self, arguments: list[str], output: Path, max_file_bytes: int | None = None) -> int:
        """Start `burnlike <arguments>`, its output going to a file; returns the process id."""
        return self._start({"arguments": arguments, "output": str(output), "max_file_bytes": max_file_bytes})

    def run_program(self, text: str, folder: Path, allowed_warnings: dict[str, type[Warning]]) -> tuple[int, str]:
        """The status and the output of `python -W error -c text` in a folder.

        Args:
            text: of the program.
            folder: that it runs in.
            allowed_warnings: how the messages begin that are no errors, and of which built-in class they are.
        """
        output = folder / "output-of-the-program"
        allowed = {message: category.__name__ for message, category in allowed_warnings.items()}
        self._start({"program": text, "folder": str(folder), "output": str(output), "allowed": allowed})
        return self.wait(), output.read_text()

    @property
    def is_running(self) -> bool:
        """Whether the command that was started last has not ended."""
        return self._child is not None and self._child.status() != psutil.STATUS_ZOMBIE

    def wait(self) -> int:
        """The exit status of the command that was started last; negative for the signal that killed it."""
        return self._ask("wait")

    def run(self, arguments: list[str], output: Path, max_file_bytes: int | None = None) -> int:
        """Start a command and wait for its end."""
        self.start(arguments, output, max_file_bytes)
        return self.wait()

    def _start(self, command: dict[str, Any]) -> int:
        self._child = psutil.Process(number := self._ask(json.dumps(command)))
        return number

    def _ask(self, line: str) -> int:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        answered, _, _ = select.select([self._process.stdout], [], [], HANGS_S)
        if not answered and self._child is not None:
            self._child.kill()  # or the server would wait for it, too
        assert answered, f"no answer to {line} within {HANGS_S} seconds"
        return int(self._process.stdout.readline())


def _serve() -> None:
    # imported once, for all children
    import torch

    import burnlike.models.decoder_lm.model
    import burnlike.tensor.tensor
    import burnlike.train.job.job  # noqa: F401
    from burnlike.cli.main import main

    with torch.device("meta"):
        torch.empty_like(torch.empty(1))  # the first use of this device imports much more

    while line := sys.stdin.readline():
        command = json.loads(line)
        child = os.fork()
        if child == 0:
            _become(command)
            status = 1
            try:
                status = _run(command) if "program" in command else main(command["arguments"])
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        print(child, flush=True)
        sys.stdin.readline()
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(command: dict[str, Any]) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    output = os.open(command["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(output, 1)
    os.dup2(output, 2)
    if command.get("max_file_bytes") is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (command["max_file_bytes"],) * 2)


def _run(command: dict[str, Any]) -> int:
    os.chdir(command["folder"])
    sys.argv, sys.path[:0] = ["-c"], [""]
    sys.modules["__main__"] = main = ModuleType("__main__")
    warnings.resetwarnings()
    warnings.simplefilter("error")
    for message, category in command["allowed"].items():
        warnings.filterwarnings("ignore", re.escape(message), getattr(builtins, category))
    status = 0
    try:
        exec(compile(command["program"], "<string>", "exec"), main.__dict__)
    except BaseException:
        traceback.print_exc()
        status = 1
    threading._shutdown()  # as at the end of a process: what runs in the background ends
    atexit._run_exitfuncs()
    return status


if __name__ == "__main__":
    _serve()
