"""What a part has found is on disk after each step, and the page has what failed first."""

import json
from pathlib import Path

import pytest

from benchmarks import _results
from tools.gpu_check import page, results
from tools.gpu_check.environment import Facts
from tools.gpu_check.results import CUT, FAILED, NOT_RUN, PASSED, Part, PartResult

FACTS = Facts("3.12.1", "2.11.0", "13.0", "NVIDIA H100", "nvidia-h100", 1, "9.0")
ROW = _results.Comparison("rms_norm forward", 0.5, 0.4, "copy of as many bytes", 0.8, 0.85, 10, 1, "")


def part_of(folder: Path, seconds: float = 100) -> Part:
    return Part("steps", folder, "cpu", seconds)


def raise_error(error: Exception) -> None:
    raise error


def test_a_part_that_is_killed_leaves_what_it_has_found(tmp_path: Path) -> None:
    part = part_of(tmp_path)
    assert json.loads((tmp_path / "steps.json").read_text())["status"] == "running"
    assert part.step("first", lambda: part.add_rows("ops.x", [ROW]))
    assert not part.step("second", lambda: raise_error(ValueError("wrong\n  value")))
    found = results.read(tmp_path, "steps")
    assert found is not None
    assert found.failures == ["second: ValueError: wrong value"]
    assert found.rows["ops.x"][0]["ratio"] == 0.8
    assert part.end() == 1
    found = results.read(tmp_path, "steps")
    assert found is not None
    assert found.status == FAILED


def test_a_part_without_time_is_cut(tmp_path: Path) -> None:
    part, called = part_of(tmp_path, 0), list[str]()
    assert not part.step("first", lambda: called.append("first"))
    assert not called
    assert part.end() == 1
    assert (part.result.status, part.result.reason) == (CUT, "no time was left: first and what follows did not run")


@pytest.mark.parametrize(
    ("message", "goes_on"),
    [
        ("CUDA error: an illegal memory access was encountered", False),
        ("CUDA error: the kernels were not built for this GPU", True),
        ("CUDA out of memory", True),
    ],
)
def test_after_an_error_of_a_kernel_nothing_else_is_blamed(tmp_path: Path, message: str, goes_on: bool) -> None:
    part = part_of(tmp_path)
    part.step("rotary", lambda: raise_error(RuntimeError(message)))
    assert part.step("next", lambda: None) is goes_on
    assert ("after the CUDA error of rotary" in part.result.reason) is not goes_on
    assert part.result.failure_count == 1


def test_what_was_skipped_is_not_run_and_never_passed(tmp_path: Path) -> None:
    part = part_of(tmp_path)
    part.result.skipped.append("Llama: transformers is not installed")
    assert part.end() == 1
    assert (part.result.status, part.result.reason) == (NOT_RUN, "Llama: transformers is not installed")
    assert part_of(tmp_path).end() == 0


def test_rows_of_a_gpu_are_one_file_that_the_benchmarks_read(tmp_path: Path) -> None:
    part = Part("rates", tmp_path / "nvidia-h100" / "gpu_check-1", "cuda", 100)
    part.add_rows("ops.sizes_device", [ROW])
    part.add_rows("ops.calls", [ROW])
    (run,) = _results.read_all(tmp_path)
    assert {name: [*rows] for name, rows in run.rows.items()} == {"ops.sizes_device": [ROW], "ops.calls": [ROW]}


def test_the_page_has_failures_first_then_what_was_not_run() -> None:
    failed = PartResult(
        "tests",
        FAILED,
        failures=["rotary [2] float32: differs by at most 3"],
        failure_count=25,
        reason="no time was left",
    )
    missing = PartResult("profile", NOT_RUN, "ncu is not installed")
    passed = PartResult("rates", PASSED, rows={"ops.x": [vars(ROW)]}, notes=["a note"])
    text = page.text(FACTS, [passed, failed, missing], "abc", "cuda", 12)
    lines = text.splitlines()
    assert lines[0] == "burnlike gpu-check: 1 of 3 parts passed, in 12 s"
    assert lines[lines.index("Failed") + 1] == "  tests: rotary [2] float32: differs by at most 3"
    assert lines[lines.index("Failed") + 2] == "  tests: and 24 more"
    assert lines[lines.index("Not run") + 1 :][:2] == [
        "  tests: not all of it: no time was left",
        "  profile: not run: ncu is not installed",
    ]
    assert lines.index("Failed") < lines.index("Not run") < lines.index("Figures")
    assert "    rms_norm forward: 80% of a copy's rate, 0.500 ms" in lines
    assert "NVIDIA H100, compute capability 9.0" in lines


def test_only_a_run_of_all_parts_without_a_failure_passes() -> None:
    names = ("build", "load")
    build, load = PartResult("build", PASSED), PartResult("load", PASSED)
    assert page.is_passed([build, load], names)
    assert not page.is_passed([build], names)
    for status in (FAILED, CUT, NOT_RUN):
        assert not page.is_passed([build, PartResult("load", status)], names)
