"""What setup.py does with its flags, as far as it shows in seconds: it stops before it compiles."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]


def build(tmp_path: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """`setup.py build_ext` into a folder of its own."""
    command = [sys.executable, "setup.py", "-q", "build_ext"]
    command += [f"--build-lib={tmp_path / 'out put'}", f"--build-temp={tmp_path / 'temp'}"]
    cleared = {key: value for key, value in os.environ.items() if not key.startswith(("BURNLIKE_", "CXX"))}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**cleared, **environment})


def test_the_list_of_kernels_is_what_the_build_writes() -> None:
    setup = runpy.run_path(str(ROOT / "setup.py"))
    assert setup["list_of_kernels"]() == (ROOT / "csrc" / "cpu" / "isa" / "ops.inc").read_text()


def test_native_0_builds_nothing(tmp_path: Path) -> None:
    result = build(tmp_path, BURNLIKE_NATIVE="0")
    assert result.returncode == 0
    assert "no native ops" in result.stdout
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.parametrize("name", ["BURNLIKE_NATIVE", "BURNLIKE_CUDA"])
def test_unknown_value_of_a_flag(tmp_path: Path, name: str) -> None:
    result = build(tmp_path, **{name: "maybe"})
    assert result.returncode != 0
    assert f"{name} must be one of 0, 1" in result.stderr
    assert "'maybe'" in result.stderr


@pytest.mark.skipif(torch.version.cuda is not None, reason="this torch is for CUDA: there is nothing to refuse")
def test_cuda_1_with_a_cpu_torch_stops(tmp_path: Path) -> None:
    result = build(tmp_path, BURNLIKE_CUDA="1")
    assert result.returncode != 0
    assert "BURNLIKE_CUDA=1, but this torch is for CPU only; install a CUDA build of torch" in result.stderr
    assert "Traceback" not in result.stderr


def test_missing_compiler_is_named_with_remedies(tmp_path: Path) -> None:
    result = build(tmp_path, CXX="no-such-compiler")
    assert result.returncode != 0
    assert "'no-such-compiler' was not found" in result.stderr
    assert "apt-get install g++" in result.stderr
    assert "BURNLIKE_NATIVE=0" in result.stderr


def test_missing_torch_is_named(tmp_path: Path) -> None:
    # An interpreter without site-packages of its own, but with setuptools.
    import setuptools

    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "setuptools").symlink_to(Path(setuptools.__file__).parent)
    (tmp_path / "site" / "_distutils_hack").symlink_to(Path(setuptools.__file__).parents[1] / "_distutils_hack")
    command = [sys.executable, "-S", "setup.py", "-q", "build_ext"]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path / "site")}
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert result.returncode != 0
    assert "torch was not found" in result.stderr
    assert "--no-build-isolation" in result.stderr


@pytest.mark.weekly
def test_build_prints_a_summary_and_makes_the_library(tmp_path: Path) -> None:
    result = build(tmp_path)
    assert result.returncode == 0, result.stderr
    summary = result.stdout
    assert f"torch      {torch.__version__}" in summary
    assert "CUDA       " in summary
    (library, *_) = sorted((tmp_path / "out put").rglob("*.so"))
    assert library.name == "_C.abi3.so"
