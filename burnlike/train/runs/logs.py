"""Logs of a run: `metrics.jsonl` and `log.txt` while it goes on, and `results.json` at its end."""

import json
import math
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from ..._atomic import make_directories, replace_file, sync_directory
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
    """Summary of a run's log.

    `seconds` are those of all parts of the run, from each start to the last line before the next; None without one.
    `ending` is how the last part ended, for what `reason`; None where it did not, as while it goes on or after a kill.
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
    for line in text.split("\n"):
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


RESULTS_NAME = "results.json"
RANKS_NAME = "ranks.jsonl"
"""What each of several processes did, a line for each time that they were compared."""


class MetricsLog:
    """Appends one JSON object a line; a reader may follow the file while it grows.

    Every line has `step` (optimizer steps taken), `epoch` (from 0), `split` (train, valid), `loss` and `time` (Unix
    seconds); those of the training also `lr` and `tokens_per_s`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def append(self, line: dict[str, Any]) -> None:
        """Write one line; it is in the file when this returns, or a RunDirError."""
        self._write(json.dumps(finite(line)) + "\n")

    def sync(self) -> None:
        """Make the lines durable, as a checkpoint of their step is about to be."""
        if self.path.exists():
            self._write("", is_synced=True)

    def _write(self, text: str, *, is_synced: bool = False) -> None:
        try:
            make_directories(self.path.parent)
            with appended_regular(self.path) as file:
                file.write(text)
                if is_synced:  # not each line: a sync takes milliseconds, in which no step is taken
                    os.fsync(file.fileno())
                    sync_directory(self.path.parent)
        except OSError as error:
            raise RunDirError(
                f"{self.path} can't be written: {error.strerror}; the last checkpoint is whole"
            ) from error

    def cut_back(self, step: int) -> None:
        """Drop lines after `step`, and an unfinished last line, so that a resumed run logs nothing twice."""
        try:
            is_there = os.path.lexists(self.path)
            lines = read_regular(self.path, within=self.path.parent).splitlines(keepends=True) if is_there else []
            kept = [line for line in lines if line.endswith(b"\n") and _step(line) <= step]
            if len(kept) != len(lines):  # else the file stays, which a reader may follow
                replace_file(self.path, b"".join(kept))
        except OSError as error:
            raise RunDirError(f"{self.path} can't be rewritten: {error.strerror or error}") from error

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in read_regular(self.path).splitlines()]


def write_results(
    run: Path, values: Mapping[str, Mapping[str, float]], task_notes: Mapping[str, Any], **facts: Any
) -> None:
    """Write the loss and metrics over all of each split, the task's notes by label, and facts such as the step."""
    by_split = {split: dict(value) for split, value in values.items()}
    write_json(run / RESULTS_NAME, {**facts, "values": by_split, "said": dict(task_notes)})


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file of a run for readers of JSON; it is replaced whole or not at all."""
    text = json.dumps(finite(values), indent=2, default=str, ensure_ascii=False)
    try:
        make_directories(path.parent)
        replace_file(path, text.encode("utf-8", "backslashreplace") + b"\n")
    except OSError as error:
        raise RunDirError(f"{path} can't be written: {error.strerror or error}") from error


_MOST_NAMES, _LONGEST_NAME = 500, 200
"""Of metrics in a file, each split counted, and characters of a name: more can't be shown."""
NO_VALUES = ("step", "epoch", "split", "time")
"""What a line of metrics has beside its values."""


class MetricLines(NamedTuple):
    """The lines of a file of metrics that can be used, the numbers of those that can't, and how many metrics are left
    out as there are too many, or as their names are too long.
    """

    lines: list[dict[str, Any]]
    damaged: list[int]
    left_out: int = 0


def read_metrics(path: Path) -> MetricLines:
    """Read a file of metrics that may be damaged, or be written to at this moment; a missing one has no lines.

    Lines have `step`, `epoch` and `split`; of the other values those that are numbers, None where not finite. A last
    line without its end is left out and not counted: it is just being written.
    """
    try:
        rows = read_regular(path, within=path.parent).splitlines(keepends=True)
    except FileNotFoundError:
        return MetricLines([], [])
    except OSError as error:
        raise RunDirError(f"{path} can't be read: {error.strerror}") from error
    if rows and not rows[-1].endswith(b"\n"):
        rows.pop()
    usable: list[dict[str, Any]] = []
    damaged: list[int] = []
    for number, row in enumerate(rows, 1):
        try:
            line = json.loads(row)
            named = {name: line[name] for name in ("step", "epoch", "split")}
        except (ValueError, KeyError, TypeError, RecursionError):
            damaged.append(number)
            continue
        if not (_is_count(named["step"]) and _is_count(named["epoch"]) and isinstance(named["split"], str)):
            damaged.append(number)
            continue
        numbers = {name: _number(value) for name, value in line.items() if value is None or type(value) in (int, float)}
        usable.append(named | {name: it for name, it in numbers.items() if name not in named})
    names = dict.fromkeys((line["split"], name) for line in usable for name in line if name not in NO_VALUES)
    kept = {name for name in [*names][:_MOST_NAMES] if max(map(len, name)) <= _LONGEST_NAME}
    if len(kept) < len(names):
        splits = {split for split, _ in kept}
        usable = [
            {name: value for name, value in line.items() if name in NO_VALUES or (line["split"], name) in kept}
            for line in usable
            if line["split"] in splits
        ]
    return MetricLines(usable, damaged, len(names) - len(kept))


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _number(value: float | None) -> float | None:
    try:
        return None if value is None or not math.isfinite(value) else float(value)
    except OverflowError:  # an int that no float can hold
        return None


def _step(line: bytes) -> float:
    """The step of a line; a damaged one counts as later than any."""
    try:
        return int(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return math.inf


def finite(value: Any) -> Any:
    """The value with None for numbers that JSON lacks: NaN and infinities."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
