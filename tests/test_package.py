"""The package as a whole: what an import loads, and that the README's programs run."""

import re
import shlex
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

from tools.readme import AFTER_THE_COMMANDS, COMMANDS, FILES, INSTALLS, PROGRAMS

ROOT = Path(__file__).parent.parent


def test_import_loads_no_torch_and_every_name_resolves() -> None:
    program = """
import sys, burnlike
assert "torch" not in sys.modules, "import burnlike loads torch"
import burnlike.nn, burnlike.optim, burnlike.data, burnlike.record, burnlike.module
assert "torch" not in sys.modules, "a package of burnlike loads torch"
import burnlike.record.materialize  # a submodule that is imported first must not hide a function
assert callable(burnlike.record.init_from)
for package in (burnlike, burnlike.nn, burnlike.optim, burnlike.data, burnlike.record, burnlike.module):
    for name in dir(package):
        getattr(package, name)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    import burnlike

    with pytest.raises(AttributeError, match="module 'burnlike' has no attribute 'tensr'"):
        _ = burnlike.tensr


def test_the_version_is_written_in_one_place() -> None:
    import burnlike

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" not in project
    assert metadata.version("burnlike") == burnlike.__version__  # of the build, which read it there
    released = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released is not None
    assert released[1] == burnlike.__version__


def test_the_readme_has_programs() -> None:
    assert (len(PROGRAMS), len(COMMANDS)) == (1, 13)
    assert {name.split("-")[1] for name, _ in INSTALLS} == {metadata.version("burnlike")}


@pytest.mark.parametrize("program", PROGRAMS, ids=range(len(PROGRAMS)))
def test_programs_of_the_readme_run(program: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert bool(list(tmp_path.glob("*.safetensors"))) == (".safetensors" in program)


@pytest.mark.slow
def test_commands_of_the_readme_run(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    for command in COMMANDS:
        done = subprocess.run(
            [sys.executable, "-W", "error", "-m", "burnlike", *shlex.split(command)],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, f"burnlike {command}: {done.stderr}"
    assert (tmp_path / "model.mpk").is_file()
    program = [sys.executable, "-W", "error", "-c", AFTER_THE_COMMANDS]
    done = subprocess.run(program, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "DecoderLm" in done.stdout
