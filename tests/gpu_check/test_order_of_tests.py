"""`pytest -m cuda` in the check: one case of each op comes first, and a failure is one line."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.ops.cases import CASES
from tools.gpu_check import pytest_plugin, results, tests as tests_part
from tools.gpu_check.environment import ROOT

EVERY_OP = "tests/ops/test_every_op.py::test_cuda_is_near_float64_and_the_cpu"


def item(nodeid: str, **params: Any) -> Any:
    return SimpleNamespace(nodeid=nodeid, callspec=SimpleNamespace(params=params))


def test_one_case_of_each_op_comes_before_the_second_of_any() -> None:
    items = [item(f"tests/ops/test_every_op.py::test_opcheck_on_cuda[{case}]", case=case) for case in CASES]
    items += [item(f"{EVERY_OP}[{case}]", case=case) for case in CASES]
    items += [item("tests/tensor/test_vectors.py::test_cuda")]
    found = pytest_plugin.ordered(items)
    assert sorted(it.nodeid for it in found) == sorted(it.nodeid for it in items)
    ops = [pytest_plugin.op_of(it) for it in found]
    count = len({*ops} - {""})
    assert len({*ops[:count]}) == count
    assert all(it.nodeid.startswith(EVERY_OP) for it in found[: len(CASES)])
    assert found[len(CASES)].nodeid == "tests/tensor/test_vectors.py::test_cuda"
    assert all("opcheck" in it.nodeid for it in found[len(CASES) + 1 :])


def test_a_failure_is_one_line_with_op_shape_dtype_and_difference() -> None:
    case = next(it for it in CASES if str(it) == "rotary-odd-halves-float32")
    with pytest.raises(AssertionError) as raised:
        torch.testing.assert_close(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5]))
    line = pytest_plugin.line_of(item(f"{EVERY_OP}[x]", case=case), "AssertionError", str(raised.value))
    shape = [*case.inputs()[0].shape]
    assert line == (
        f"rotary {shape} float32: differs by at most 0.5 (ops/test_every_op.py::"
        "test_cuda_is_near_float64_and_the_cpu[x])"
    )
    line = pytest_plugin.line_of(item("tests/data/test_x.py::test_y"), "RuntimeError", "first\nsecond")
    assert line == "RuntimeError: first (data/test_x.py::test_y)"


def test_files_with_tests_for_a_gpu_are_found_by_their_marks() -> None:
    names = {Path(it).relative_to(ROOT).as_posix() for it in tests_part.files()}
    assert {"tests/ops/test_every_op.py", "tests/ops/test_norms_on_cuda.py", "tests/train/test_job.py"} <= names


def test_without_hypothesis_files_with_examples_are_collected_without_those(tmp_path: Path) -> None:
    code = """
import sys
from tools.gpu_check import pytest_plugin
pytest_plugin.without_hypothesis()
import hypothesis
from hypothesis import given, settings, strategies as st
hypothesis.settings.register_profile("x", suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("x")
@settings(max_examples=3)
@given(st.integers(0, 2).map(str) | st.none())
def test(value): ...
assert test is None
print("collected")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == "collected\n", done.stderr


FAILING = """
import pytest, torch

@pytest.mark.parametrize("number", range(12))
def test_number(number):
    if number == 3:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")
    if number == 5:
        torch.testing.assert_close(torch.zeros(2), torch.ones(2))
    if number == 6:
        pytest.skip("not here")
"""


@pytest.mark.weekly
@pytest.mark.parametrize("processes", [[], ["-n", "2", "--maxschedchunk", "4", "--max-worker-restart", "9"]])
def test_what_came_out_is_kept_and_a_process_with_a_broken_gpu_is_replaced(
    processes: list[str], tmp_path: Path
) -> None:
    """A process of pytest-xdist ends after an error of a kernel; another runs what it had yet to run."""
    (tmp_path / "test_numbers.py").write_text(FAILING)
    (tmp_path / "test_missing.py").write_text("import not_there_at_all\n")
    code = f"""
from pathlib import Path
from tools.gpu_check.results import Part
from tools.gpu_check.tests import Recorder, record
part = Part("tests", Path({str(tmp_path)!r}), "cuda", 1000)
options = ["-q", "-p", "no:cacheprovider", "-p", "tools.gpu_check.pytest_plugin", "--continue-on-collection-errors"]
record(Recorder(part, False), [*options, "-c", "/dev/null", "--rootdir", {str(tmp_path)!r}, *{processes!r},
       {str(tmp_path)!r}])
part.end()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, check=False)
    found = results.read(tmp_path, "tests")
    assert found is not None
    lines = sorted(found.failures)
    assert [line.partition(" (")[0] for line in lines] == [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "differs by at most 1.0",
    ]
    assert found.notes == ["9 passed, 2 failed, 1 skipped, of 12 tests"]
    assert found.status == "failed"
    assert found.skipped == ["test_missing.py: not_there_at_all is not installed", "1 tests were skipped"]
