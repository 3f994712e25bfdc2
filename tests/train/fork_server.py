"""Runs `burnlike` commands without their start-up: a process that has imported torch forks them.

The server runs nothing itself, so that a fork has no threads to lose. It reads a JSON object, starts the command and
answers with its process id; then reads a line, waits for the end and answers with the status. Until that line an ended
process stays a zombie, so that its id means no other one.
"""

import json
import os
import resource
import select
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from ..processes import HANGS_S


class ForkServer:
    """Starts commands; one at a time."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.train.fork_server"],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
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
        command = {"arguments": arguments, "output": str(output), "max_file_bytes": max_file_bytes}
        self._child = psutil.Process(number := self._ask(json.dumps(command)))
        return number

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

    import burnlike.models.decoder_lm
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
                status = main(command["arguments"])
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
    if command["max_file_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (command["max_file_bytes"],) * 2)


if __name__ == "__main__":
    _serve()
