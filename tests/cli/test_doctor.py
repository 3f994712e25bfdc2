"""`burnlike doctor`: what it reports, and that it sees when the native path did not run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from burnlike.cli.commands import doctor
from burnlike.cli.main import main

OPS = {"rms_norm", "rms_norm_backward", "adamw_step_", "sgd_step_", "lion_step_", "gradient_squares_"}


def test_the_native_path_runs_in_a_model_eager_and_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["problems"] == []
    assert report["cpu"]["isa"] in report["cpu"]["isas"]
    for mode in ("cpu eager", "cpu compiled"):
        assert report["native_calls"][mode].keys() >= OPS
        assert all(report["native_calls"][mode][op] >= 1 for op in OPS)
    assert report["packages"]["torch"]


def test_the_text_names_versions_and_what_ran(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "CPU ops" in text
    assert "in training steps, cpu compiled:" in text
    assert "PROBLEM" not in text


def test_a_kernel_that_does_not_run_is_a_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_calls_of_training_steps", lambda *_: {"rms_norm": 3})
    report = doctor.examine()
    (problem,) = (it for it in report["problems"] if it.startswith("cpu, eager: no native call of "))
    missing = problem.removeprefix("cpu, eager: no native call of ").removesuffix(" in training steps").split(", ")
    assert {"adamw_step_", "gradient_squares_", "lion_step_", "rms_norm_backward", "sgd_step_"} <= set(missing)
    assert "rms_norm" not in missing


def test_without_the_library_doctor_says_so_and_fails(tmp_path: Path) -> None:
    environment = {**os.environ, "BURNLIKE_LIBRARY_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "burnlike", "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "PROBLEM     the native CPU library is not in use: it was not built" in done.stdout
    assert done.stderr.count("RuntimeWarning") == 1


def test_a_gpu_without_kernels_is_a_problem_with_the_command_that_builds_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "get_device_name", ["Card A", "Card B"].__getitem__)
    monkeypatch.setattr(torch.cuda, "get_device_capability", [(9, 0), (7, 5)].__getitem__)
    monkeypatch.setattr(doctor, "_calls_of_training_steps", lambda *_: {})
    report = doctor.examine()
    assert report["cuda"]["capabilities"] == ["9.0", "7.5"]
    if report["cuda"]["native"]:
        pytest.skip("this checkout has CUDA kernels, which the next test is about")
    (problem,) = (it for it in report["problems"] if "compute capability" in it)
    assert "of compute capability 7.5, 9.0: " in problem
    assert report["cuda"]["why_not"] in problem
    assert "TORCH_CUDA_ARCH_LIST='7.5 9.0' pip install --no-build-isolation ." in problem
    assert main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "devices: Card A (9.0), Card B (7.5)" in text
    assert f"PROBLEM     {problem}" in text


def test_kernels_that_were_built_for_other_gpus_are_a_problem(tmp_path: Path) -> None:
    library = tmp_path / "burnlike" / "_C_cuda.abi3.so"
    assert doctor.cuda_problem([(9, 0), (8, 6)], "80 90 90+PTX", "", library) is None
    assert doctor.cuda_problem([], "", "it was not built", library) is None
    problem = doctor.cuda_problem([(9, 0), (7, 5)], "80 90 90+PTX", "", library) or ""
    assert "compute capability 7.5: they were built for 80 90 90+PTX" in problem
    assert "in a checkout of the sources, as wheels have no CUDA kernels" in problem
    (tmp_path / "csrc" / "cuda").mkdir(parents=True)
    assert "To build them, in this checkout: TORCH_CUDA_ARCH_LIST='7.5' " in (
        doctor.cuda_problem([(7, 5)], "80", "", library) or ""
    )
