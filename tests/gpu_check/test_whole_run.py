"""`python -m tools.gpu_check` as a whole: limits, folders, what is missing, the exit status."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from tools.gpu_check import __main__ as gpu_check, environment
from tools.gpu_check.environment import ROOT, Facts
from tools.gpu_check.results import CUT, FAILED, NOT_RUN, PASSED

NAMES = {*gpu_check.NAMES}


def check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, facts: Facts, **options: object) -> gpu_check.Check:
    """A run on a machine of these facts, with nothing built."""
    monkeypatch.setattr(environment, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    monkeypatch.setattr(environment, "facts", lambda *_: facts)
    monkeypatch.setattr(environment, "build", lambda *_: (tmp_path, "built"))
    defaults = {
        "device": "cuda",
        "limit": 540.0,
        "part_limit": None,
        "wheels": None,
        "libraries": None,
        "out": tmp_path,
        "parts": [],
    }
    return gpu_check.Check(Namespace(**{**defaults, **options}))


def statuses(folder: Path) -> dict[str, str]:
    """Of each part in the folder of a run, by its file."""
    found = [json.loads(path.read_text()) for path in folder.glob("*.json")]
    return {it["name"]: it["status"] for it in found}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tools.gpu_check", *arguments]
    return subprocess.run(command, cwd=ROOT, env={**os.environ}, capture_output=True, text=True, check=False)


@pytest.mark.weekly
def test_limits_of_a_second_leave_whole_results_and_two_runs_do_not_mix(tmp_path: Path) -> None:
    for count in (1, 2):
        done = run("--device", "cpu", "--part-limit", "1", "--out", str(tmp_path))
        assert done.returncode == 1, done.stderr
        folders = sorted(tmp_path.glob("*/gpu_check-*"))
        assert len(folders) == count
        assert statuses(folders[-1]).keys() == NAMES
        assert {*statuses(folders[-1]).values()} <= {PASSED, FAILED, CUT, NOT_RUN}
        assert CUT in statuses(folders[-1]).values()
        assert (folders[-1] / "gpu_check.txt").read_text() in done.stdout


def test_without_packages_nothing_runs_and_all_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = check(tmp_path, monkeypatch, Facts(missing=("msgspec", "xdist")))
    assert one.run() == 1
    assert {*statuses(one.folder).values()} == {NOT_RUN}
    assert statuses(one.folder).keys() == NAMES
    assert "build: not run: msgspec, xdist missing; see WHEELS" in (one.folder / "gpu_check.txt").read_text()


def test_without_a_device_parts_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = check(tmp_path, monkeypatch, Facts(torch="2.13.0", cuda="13.0"), parts=["rates", "steps", "profile"])
    assert one.folder.parent.name == "no-device"
    assert one.run() == 1
    assert statuses(one.folder) == {"build": PASSED, "rates": NOT_RUN, "steps": NOT_RUN, "profile": NOT_RUN}
    text = (one.folder / "gpu_check.txt").read_text()
    for name in ("rates", "steps", "profile"):
        assert f"  {name}: not run: no device\n" in text


def test_a_missing_tool_is_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "tool", lambda _: None)
    facts = Facts("3.12", "2.11", "13.0", "NVIDIA H100", "nvidia-h100", 1, "9.0")
    one = check(tmp_path, monkeypatch, facts, parts=["sanitizer", "profile"])
    assert one.folder.parent.name == "nvidia-h100"
    assert one.run() == 1
    text = (one.folder / "gpu_check.txt").read_text()
    assert "  sanitizer: not run: compute-sanitizer is not installed\n" in text
    assert "  profile: not run: ncu is not installed\n" in text


def test_what_a_part_leaves_goes_to_those_after_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = check(tmp_path, monkeypatch, Facts(), limit=100.0)
    assert one.limit_of(30, 60) == pytest.approx(50, abs=5)
    assert one.limit_of(60, 60) == pytest.approx(100, abs=5)
    one.part_limit = 1
    assert one.limit_of(30, 60) == 1
    one.limit = 0
    assert one.limit_of(30, 60) == 0


def test_a_part_whose_process_dies_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = Facts("3.12", "2.11", "13.0", "NVIDIA H100", "nvidia-h100", 1, "9.0")
    one = check(tmp_path, monkeypatch, facts, parts=["load"])
    monkeypatch.setattr(gpu_check.sys, "executable", "/bin/false")
    assert one.run() == 1
    assert statuses(one.folder) == {"build": PASSED, "load": FAILED}
    assert "load: its process ended with status 1" in (one.folder / "gpu_check.txt").read_text()


def test_unknown_parts_and_folders_are_refused(tmp_path: Path) -> None:
    done = run("--wheels", str(tmp_path / "none"))
    assert done.returncode == 2
    assert "--wheels: expected a folder" in done.stderr
    done = run("ratse")
    assert done.returncode == 2
    assert "unknown: ratse; the parts are load, tests, sanitizer, rates, steps, trainings, profile" in done.stderr


def test_a_wheel_is_installed_for_the_parts_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "CACHE", tmp_path / "cache")
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    (wheels / "broken-1-py3-none-any.whl").write_bytes(b"no zip")
    write_wheel(wheels / "tiny_example-1.0-py3-none-any.whl")
    (complaint,) = environment.install_wheels(wheels, tmp_path / "log", 120)
    assert complaint.startswith("broken-1-py3-none-any.whl was not installed")
    code = "import tiny_example; print(tiny_example.VALUE)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "5\n"


def write_wheel(path: Path) -> None:
    """A wheel of a module `tiny_example`."""
    import zipfile

    about = "tiny_example-1.0.dist-info"
    files = {
        "tiny_example.py": "VALUE = 5\n",
        f"{about}/METADATA": "Metadata-Version: 2.1\nName: tiny-example\nVersion: 1.0\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{about}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{about}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
