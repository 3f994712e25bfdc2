"""`pytest -m cuda` in the check: one case of each op comes first, and a failure is one line."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.ops.cases import CASES
from tools.gpu_check import pytest_plugin, tests as tests_part
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
