"""Each part of the check, on the CPU with tiny sizes; and what it reads of other programs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from benchmarks._results import Comparison
from tests.marks import slow, weekly
from tests.ops.cases import CASES
from tools.gpu_check import op_calls, profile, rates, results, sanitizer, steps, trainings
from tools.gpu_check.environment import ROOT
from tools.gpu_check.parts import PARTS
from tools.gpu_check.results import NOT_RUN, PASSED, Part

MEMCHECK = """========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at void burnlike::cuda::rotary_kernel<float>(float*)+0x70
=========     by thread (0,0,0) in block (0,0,0)
========= Invalid __global__ write of size 4 bytes
=========     by thread (1,0,0) in block (0,0,0)
========= ERROR SUMMARY: 2 errors
"""
RACECHECK = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at kernel+0x10 and Read access at kernel+0x20 [64 hazards]
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
WAYS = ("forward", "both passes")
SHORT = ("profile", "steps")
_KERNEL = '"0","7","python","host","void burnlike::cuda::forward_kernel<float>(const float*)","1","7"'
NCU = f"""==PROF== Connected to process 7
"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Metric Name","Metric Unit","Metric Value"
{_KERNEL},"gpu__time_duration.sum","us","12.50"
{_KERNEL},"launch__registers_per_thread","register/thread","48"
{_KERNEL},"other","x","1"
"""


@pytest.fixture
def part(tmp_path: Path) -> Part:
    return Part("part", tmp_path, "cpu", 1000)


@pytest.mark.parametrize("name", [*slow(*SHORT), *weekly(*(it.name for it in PARTS if it.name not in SHORT))])
def test_a_part_runs_on_the_cpu(name: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.gpu_check.parts", name, str(tmp_path), "cpu", "1000"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = results.read(tmp_path, name)
    assert found is not None, done.stderr
    assert found.failures == []
    looks_at_a_gpu = name in ("sanitizer", "profile")
    assert (found.status, done.returncode) == ((NOT_RUN, 1) if looks_at_a_gpu else (PASSED, 0)), found
    assert found.notes or found.rows or looks_at_a_gpu


def test_a_wrong_op_is_told_with_shape_dtype_and_difference() -> None:
    case = next(it for it in CASES if str(it) == "swiglu-odd-float32")
    assert [*op_calls.differences(case, "cpu")] == []
    wrong = replace(case, native=lambda *tensors: [it + 0.25 for it in case.native(*tensors)])
    (line,) = op_calls.differences(wrong, "cpu")
    assert line == "swiglu [5, 3, 123] float32: result 0 differs by at most 0.25 (swiglu-odd-float32)"


def test_cases_of_ops_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert op_calls.main("cases", "cpu", "rotary", "swiglu", "convert_") == 0
    assert capsys.readouterr().out == "3 ops: near float64\n"
    assert {*sanitizer.OPS} <= {op_calls.op_of(it) for it in op_calls.first_cases("cuda")}


@pytest.mark.parametrize("name", profile.TINY)
def test_rows_are_called_by_their_names(name: str) -> None:
    assert op_calls.main("row", "cpu", name) == 0


def test_rows_that_are_profiled_have_names_as_the_benchmark_gives_them() -> None:
    names = {f"{rates._name(size)}".replace(" ", f" {way} ", 1) for size in rates.sizes() for way in WAYS}
    assert {*profile.USUAL} <= names


@pytest.mark.parametrize(
    ("text", "line", "count"),
    [
        (MEMCHECK, "Invalid __global__ write of size 4 bytes", 2),
        (RACECHECK, "Error: Race reported between Write access at kernel+0x10 and Read access at kernel+0x20", 1),
        ("========= ERROR SUMMARY: 0 errors\n", None, 0),
        ("no summary", None, None),
    ],
)
def test_what_the_sanitizer_prints(text: str, line: str | None, count: int | None, tmp_path: Path) -> None:
    (tmp_path / "log").write_text(text)
    lines, counted = sanitizer.problems(tmp_path / "log")
    assert counted == count
    assert len(lines) == (line is not None)
    assert line is None or lines[0].startswith(line)


def test_figures_of_ncu(tmp_path: Path) -> None:
    (tmp_path / "log").write_text(NCU)
    assert [*profile.figures(tmp_path / "log")] == [
        "void burnlike::cuda::forward_kernel<float>: 12.50 us, 48 registers"
    ]


def test_the_slowest_rows_are_one_of_each_op(part: Part) -> None:
    names = ["rms_norm forward 8 x 8 float32", "rms_norm both passes 8 x 8 float32", "rotary forward 8 x 8 float32"]
    names += ["swiglu forward 8 x 8 float32", "geglu forward 8 x 8 float32"]
    rows = [
        Comparison(name, 1.0, 1.0, theirs, ratio, None, 1, 1, "")
        for name, ratio in zip(names, (0.3, 0.2, 0.5, 0.9, 0.4), strict=True)
        for theirs, ratio in ((profile.COPY, ratio), ("torch", 0.01))
    ]
    rated = Part("rates", part.folder, "cpu", 100)
    rated.add_rows(profile.BENCHMARK, rows)
    assert profile.slowest(part.folder) == [names[1], names[4], names[2]]


def test_values_that_come_back_from_a_file_are_compared(part: Part, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [*steps._files(part)]
    assert [row.theirs for row in rows] == ["without the side stream"] * 2
    assert part.result.failures == []
    monkeypatch.setattr(steps, "load", lambda net, _: torch.nn.init.zeros_(next(net.parameters())))
    assert [*steps._files(part)]
    assert len(part.result.failures) >= 1
    assert "not what was saved, by at most" in part.result.failures[0]


@pytest.mark.parametrize(
    "call", [lambda it: trainings._decoder_alone(it, "bfloat16", True), trainings._generation_alone]
)
def test_without_transformers_the_own_decoder_runs_alone(part: Part, call: Callable[[Part], None]) -> None:
    call(part)
    (note,) = part.result.notes
    assert note.startswith("decoder tiny, ")


def test_losses_that_differ_fail(part: Part) -> None:
    trainings._check_losses(part, "Llama", 2.0, 2.001, 1e-3)
    assert not part.result.failures
    trainings._check_losses(part, "Llama", 2.0, float("nan"), 1e-3)
    trainings._check_losses(part, "Llama", 2.0, 2.1, 1e-3)
    assert len(part.result.failures) == 2


def test_a_file_of_a_part_is_json_of_plain_values(part: Part) -> None:
    part.end()
    assert json.loads((part.folder / "part.json").read_text())["status"] == PASSED
