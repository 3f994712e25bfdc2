"""What is published: the source distribution and the wheel, each installed in an empty environment and used."""

import os
import re
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*command: object, cwd: Path) -> str:
    """What a command prints, run as a user would: without this process' search path."""
    environment = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "BURNLIKE_LIBRARY_DIR")
    }
    done = subprocess.run(
        list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files that `make dist` makes, by kind."""
    folder = tmp_path_factory.mktemp("dist")
    run(ROOT / ".ci" / "dist.sh", folder, cwd=ROOT)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": wheel, "sdist": sdist}


@pytest.mark.weekly  # builds the native ops anew
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_installed_in_an_empty_environment_it_trains(kind: str, distributions: dict[str, Path], tmp_path: Path) -> None:
    environment, elsewhere = tmp_path / "environment", tmp_path / "else where"
    elsewhere.mkdir()
    venv.create(environment, symlinks=True)
    python = environment / "bin" / "python"
    # torch, pip and the other packages are those of this environment; burnlike itself is not seen through such a line.
    site_packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", cwd=tmp_path).strip()
    )
    (site_packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    look = "import torch, importlib.util; print(importlib.util.find_spec('burnlike'))"
    assert run(python, "-c", look, cwd=elsewhere) == "None\n"

    pip = [python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    run(*pip, distributions[kind], cwd=elsewhere)
    burnlike = environment / "bin" / "burnlike"
    place = run(python, "-c", "import burnlike; print(burnlike.__file__)", cwd=elsewhere)
    assert place.startswith(str(site_packages))

    assert "validation loss" in run(burnlike, "train", "char_gpt_tiny", cwd=elsewhere)
    assert (elsewhere / "runs" / "char_gpt_tiny" / "model.safetensors").is_file()
    run(burnlike, "init", "mine", cwd=elsewhere)
    run(burnlike, "check", "mine/char_gpt.yaml", "mine/char_gpt_tiny.yaml", cwd=elsewhere)
    program = "from burnlike.ops import native_status as s; print(s().loaded, s().cuda.built == s().cuda.loaded)"
    assert run(python, "-c", program, cwd=elsewhere) == "True True\n"


@pytest.mark.weekly
def test_the_wheel_says_where_it_runs_and_not_where_it_was_built(distributions: dict[str, Path]) -> None:
    assert re.search(r"-cp311-abi3-manylinux_2_\d+_\w+\.whl$", distributions["wheel"].name)
    here = {str(ROOT), sys.prefix, sys.base_prefix, str(Path.home()), "/tmp/"}
    with zipfile.ZipFile(distributions["wheel"]) as wheel:
        libraries = [name for name in wheel.namelist() if name.endswith(".so")]
        assert libraries
        for name in libraries:
            assert [folder for folder in here if folder.encode() in wheel.read(name)] == []
        (metadata,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
        assert b"License-Expression: MIT OR Apache-2.0\n" in wheel.read(metadata)
        assert sum(name.rpartition("/")[2].startswith("LICENSE-") for name in wheel.namelist()) == 2
        version = re.escape(distributions["wheel"].name.split("-")[1])
        parts = rf"burnlike/.*\.(py|pyi|so|yaml|css|js|typed)|burnlike-{version}\.dist-info/.*|.*/"
        assert [name for name in wheel.namelist() if not re.fullmatch(parts, name)] == []
    assert distributions["wheel"].stat().st_size < 10_000_000


@pytest.mark.slow
def test_the_source_distribution_has_what_the_checkout_has(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", tmp_path, ROOT, cwd=ROOT)
    (file,) = tmp_path.glob("*.tar.gz")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode != 0:  # this is the source distribution itself
        listed_files = {str(path.relative_to(ROOT)) for path in (ROOT / "csrc").rglob("*.*")}
    else:
        listed_files = {name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()}
    with tarfile.open(file) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    assert listed_files - held <= {".gitignore"}
