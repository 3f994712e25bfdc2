"""The results of each part of the check, on disk after each of its steps, so that a part that is killed leaves all.

A part is a file of JSON in the folder of the run. Rows of benchmarks are also a file that `benchmarks._results` reads.
"""

import json
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from burnlike._atomic import make_directories, replace_file

RUNNING, PASSED, FAILED, CUT, NOT_RUN = "running", "passed", "failed", "cut", "not run"
LINE_OF_REPORT = "gpu_check"
"""The property of a report of pytest that has a failure's line."""
MOST_LINES = 200
"""Failures of a part that are kept; the others are counted."""


@dataclass
class PartResult:
    """A part of the check.

    Attributes:
        name: of the part.
        status: `running`, `passed`, `failed`, `cut` where its time was over before it was, or `not run`.
        reason: why it was cut, or not run.
        failures: a line each.
        failure_count: of all, those included that are not in the list.
        skipped: what could not be run, and why, a line each.
        notes: other figures, a line each.
        rows: of benchmarks, by the module's name, as `benchmarks._results.Comparison` has them.
        seconds: how long it took.
    """

    name: str
    status: str = RUNNING
    reason: str = ""
    failures: list[str] = field(default_factory=list[str])
    failure_count: int = 0
    skipped: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict[str, list[dict[str, Any]]])
    seconds: float = 0.0

    @property
    def is_whole(self) -> bool:
        """True if all of it ran, and nothing failed."""
        return self.status == PASSED

    def fail(self, line: str) -> None:
        self.failure_count += 1
        if len(self.failures) < MOST_LINES:
            self.failures.append(one_line(line))

    def ended(self) -> None:
        """Give the part the status that follows from what it has found."""
        if self.status in (CUT, NOT_RUN):
            return
        self.status = FAILED if self.failures else NOT_RUN if self.skipped else PASSED
        if self.status == NOT_RUN:
            self.reason = "; ".join(self.skipped)


def one_line(text: str, length: int = 300) -> str:
    """A text without its breaks, cut off."""
    text = " ".join(text.split())
    return text if len(text) <= length else f"{text[: length - 3]}..."


def path_of(folder: Path, name: str) -> Path:
    return folder / f"{name}.json"


def write(folder: Path, result: PartResult) -> None:
    """Write a part's file, whole or not at all."""
    make_directories(folder)
    replace_file(path_of(folder, result.name), json.dumps(asdict(result), indent=1).encode() + b"\n")


def read(folder: Path, name: str) -> PartResult | None:
    """The file of a part; None if it has written none."""
    path = path_of(folder, name)
    return PartResult(**json.loads(path.read_bytes())) if path.exists() else None


class Part:
    """A part as it runs, in its own process.

    Args:
        name: of the part.
        folder: of the run's results.
        device: `cuda`, or `cpu` for a rehearsal with tiny sizes.
        seconds: until the process is killed; no step begins after nine tenths of it.
    """

    def __init__(self, name: str, folder: Path, device: str, seconds: float) -> None:
        self.result = PartResult(name)
        self.folder, self.device = folder, device
        self._started = time.monotonic()
        self._ends = self._started + 0.9 * seconds
        self._file_of_rows: Path | None = None
        self._is_broken = ""
        self.save()

    @property
    def is_rehearsal(self) -> bool:
        """True on a CPU, where sizes are tiny."""
        return self.device == "cpu"

    def seconds_left(self) -> float:
        return self._ends - time.monotonic()

    def save(self) -> None:
        self.result.seconds = round(time.monotonic() - self._started, 2)
        write(self.folder, self.result)

    def step(self, name: str, function: Callable[[], object]) -> bool:
        """Run a step and write what was found. False if it failed, or had no time; then the part is cut."""
        if self._is_broken or self.seconds_left() <= 0:
            why = f"after the CUDA error of {self._is_broken}" if self._is_broken else "no time was left"
            self.result.status = CUT
            self.result.reason = self.result.reason or f"{why}: {name} and what follows did not run"
            return False
        failures = self.result.failure_count
        try:
            function()
        except Exception as error:
            traceback.print_exc()
            self.result.fail(f"{name}: {type(error).__name__}: {error}")
            if _breaks_the_process(error):
                self._is_broken = name
        self.save()
        return self.result.failure_count == failures

    def add_rows(self, benchmark: str, rows: Sequence[Any]) -> None:
        """Keep rows of a benchmark: in the part's file, and on a GPU in one that `benchmarks._results` reads."""
        self.result.rows.setdefault(benchmark, []).extend(asdict(row) for row in rows)
        self.save()
        if self.is_rehearsal:
            return
        from benchmarks import _results

        kept = {name: [_results.Comparison(**row) for row in found] for name, found in self.result.rows.items()}
        self._file_of_rows = _results.write(self.folder.parent.parent, kept, self._file_of_rows)

    def end(self) -> int:
        """Write the last state; 0 if all ran and nothing failed."""
        self.result.ended()
        self.save()
        return 0 if self.result.is_whole else 1


def _breaks_the_process(error: Exception) -> bool:
    """True for an error of a kernel, after which CUDA refuses every other call of the process."""
    text = str(error)
    return "CUDA error" in text and "out of memory" not in text and "not built for" not in text
