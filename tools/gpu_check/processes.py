"""Processes with a limit of time, whose own processes end with them."""

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

GRACE_S = 1.0
"""How long a process that is asked to end has for it; those that have started others need more."""


class Ended(NamedTuple):
    """How a process ended: its exit status, None if it was killed when its time was over."""

    status: int | None
    seconds: float


def run(
    command: Sequence[str],
    log: Path,
    seconds: float,
    variables: Mapping[str, str] | None = None,
    folder: str = ".",
    grace_s: float = GRACE_S,
) -> Ended:
    """Run a command in a group of processes of its own; what it prints goes to a file.

    When its time is over, when it ends, and when this process is interrupted, all of the group are killed.
    """
    started = time.monotonic()
    with log.open("ab") as stream:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(variables or {})},
            cwd=folder,
            start_new_session=True,
        )
        try:
            status = process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end_group(process, grace_s)
    return Ended(status, time.monotonic() - started)


def end_group(process: subprocess.Popen[bytes], grace_s: float = GRACE_S) -> None:
    """End a process and all that it has started: asked first, killed after a moment."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:  # none is left
            break
        deadline = time.monotonic() + grace_s
        while time.monotonic() < deadline and (process.poll() is None or _is_there(process.pid)):
            time.sleep(0.01)
    process.wait()


def _is_there(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def first_error(log: Path) -> str:
    """The first line in which a compiler, a linker or setup.py says what is wrong; the last line without one."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    words = (": error:", "fatal error", "cannot find", "burnlike: ", "Killed")
    found = [line for line in lines if any(word in line for word in words)]
    return found[0].strip() if found else last_lines(log, 1)


def last_lines(log: Path, count: int = 3) -> str:
    """The end of what a process has printed."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return " | ".join(line.strip() for line in [it for it in lines if it.strip()][-count:])
