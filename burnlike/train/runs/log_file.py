"""`log.txt` of a run: what happened when, and how the run ended."""

import os
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..._regular_file import appended_regular, read_regular
from ..._terminal import harmless
from ...errors import RunDirError

LOG_NAME = "log.txt"
DONE, STOPPED, FAILED = "done", "stopped", "failed"
Ending = Literal["done", "stopped", "failed"]

_LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00) (.*)")
_START = re.compile(r"(starting|resuming) at step \d+ of \d+")
_END = re.compile(rf"({DONE}|{STOPPED}|{FAILED})(?:$|: )")


class LogFile:
    """Appends lines with their time; a text of several lines is indented below its first."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def write(self, text: str) -> None:
        """Add a line; it is in the file when this returns."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        try:
            with appended_regular(self.path) as file:
                file.write(f"{now} {harmless(text.strip()).replace(chr(10), f'{chr(10)}  ')}\n")
        except OSError as error:
            raise RunDirError(f"{self.path} can't be written: {error.strerror}") from error

    def start(self, step: int, total_steps: int) -> None:
        self.write(f"{'resuming' if step else 'starting'} at step {step} of {total_steps}")

    def end(self, ending: Ending, reason: str = "") -> None:
        self.write(f"{ending}: {reason}" if reason else ending)


class LogSummary(NamedTuple):
    """What a log says of its run.

    Attributes:
        seconds: the time of all parts of the run, from each start to the last line before the next; None without one.
        ending: how the last part ended; None where it did not, as while it goes on or after a kill.
        reason: of that ending, such as the message of an error.
    """

    seconds: float | None = None
    ending: str | None = None
    reason: str = ""


def read_log(path: Path) -> LogSummary:
    """Read a log as far as it makes sense; a missing one says nothing."""
    try:
        text = read_regular(path, within=path.parent).decode("utf-8", "replace")
    except OSError:
        return LogSummary()
    parts: list[list[datetime]] = []
    ending: Any = None
    reason = ""
    for line in text.splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            continue
        try:
            time = datetime.fromisoformat(match[1])
        except ValueError:  # no such day
            continue
        if _START.fullmatch(match[2]):
            parts.append([time, time])
            ending, reason = None, ""
        if parts:
            parts[-1][1] = max(time, parts[-1][0])
        if end := _END.match(match[2]):
            ending, reason = end[1], match[2][end.end() :]
    seconds = sum((last - first).total_seconds() for first, last in parts) if parts else None
    return LogSummary(seconds, ending, reason)
