"""Part `tests`: the suite's tests that need a GPU, by pytest in several processes.

On a CPU a few tests of ops in their place; without a device they are collected only.
"""

import os

import pytest

from .environment import ROOT
from .results import CUT, LINE_OF_REPORT, NOT_RUN, Part, one_line

MOST_PROCESSES = 8
_SAVES_EVERY = 50


class Recorder:
    """A plugin of pytest's first process that keeps what came out, on disk now and then and after each failure."""

    def __init__(self, part: Part, without_device: bool) -> None:
        self.part, self.without_device = part, without_device
        self.collected = 0
        self.counts = {"passed": 0, "failed": 0, "skipped": 0}
        self._failed: set[str] = set()

    @property
    def done(self) -> int:
        return sum(self.counts.values())

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self.collected = max(self.collected, len(session.items))

    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self.collected = max(self.collected, len(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            text = str(report.longrepr)
            missing = [line for line in text.splitlines() if "ModuleNotFoundError: No module named" in line]
            if missing:
                name = missing[-1].rpartition("'")[0].rpartition("'")[2]
                line = f"{report.nodeid}: {name} is not installed"
                if line not in self.part.result.skipped:  # pytest-xdist's processes say it each
                    self.part.result.skipped.append(line)
            else:
                self.part.result.fail(f"{report.nodeid} can't be collected: {text.strip().splitlines()[-1]}")
            self.part.save()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            if report.nodeid not in self._failed:  # a process that ended after a failure is told as another
                self._failed.add(report.nodeid)
                self.counts["failed"] += 1
                lines = [str(value) for name, value in report.user_properties if name == LINE_OF_REPORT]
                self.part.result.fail(lines[0] if lines else f"{report.nodeid}: {one_line(str(report.longrepr))}")
                self._save()
        elif report.skipped:
            self.counts["skipped"] += 1
        elif report.when == "call":
            self.counts["passed"] += 1
            if self.done % _SAVES_EVERY == 0:
                self._save()
        if self.part.seconds_left() <= 0:
            self.part.result.status = CUT
            self.part.result.reason = "no time was left"
            pytest.exit("the time of this part is over")

    def _save(self) -> None:
        self.part.result.notes = [self.summary()]
        self.part.save()

    def summary(self) -> str:
        counts = ", ".join(f"{count} {name}" for name, count in self.counts.items())
        return f"{self.collected} collected" if self.without_device else f"{counts}, of {self.collected} tests"


def run(part: Part, without_device: bool = False) -> None:
    """Run them, or collect them."""
    recorder = Recorder(part, without_device)
    options = ["-q", "-p", "no:cacheprovider", "-p", "tools.gpu_check.pytest_plugin", "--tb=short"]
    options += ["--continue-on-collection-errors", "--rootdir", str(ROOT)]
    if part.is_rehearsal:
        options += ["-n0", "-m", "not cuda", "-k", "odd and float32", f"{ROOT}/tests/ops/test_every_op.py"]
        options[-1] += "::test_native_and_reference_are_near_float64"
    else:
        # In brackets the words mean the same, and conftest.py does not refuse them where there is no device.
        options += ["-n0", "--collect-only", "-m", "(cuda)"] if without_device else ["-m", "cuda", *_processes()]
        options += files()
    record(recorder, options)


def record(recorder: Recorder, options: list[str]) -> None:
    """Run pytest and give the part what came out."""
    part = recorder.part
    status = pytest.main(options, plugins=[recorder])
    part.result.notes = [recorder.summary()]
    if not recorder.collected:
        part.result.fail(f"no test was collected: pytest ended with status {int(status)}")
    elif recorder.without_device:
        part.result.status, part.result.reason = NOT_RUN, "no device"
    elif part.result.status != CUT and recorder.done < recorder.collected:
        part.result.fail(f"{recorder.collected - recorder.done} tests did not run: pytest ended with {int(status)}")
    if recorder.counts["skipped"] and not part.is_rehearsal:
        part.result.skipped.append(f"{recorder.counts['skipped']} tests were skipped")


def files() -> list[str]:
    """The files that have tests for a GPU; collecting all takes longer than running some."""
    texts = {path: path.read_text() for path in (ROOT / "tests").rglob("test_*.py")}
    return sorted(
        str(path) for path, text in texts.items() if "mark.cuda" in text or "test_cuda_kernels import" in text
    )


def _processes() -> list[str]:
    count = min(MOST_PROCESSES, (os.cpu_count() or 1) // 2)
    # Few at a time, so that the order of the first ones is that of all processes together.
    return ["-n", str(max(count, 1)), "--maxschedchunk", "4", "--max-worker-restart", "64"]
