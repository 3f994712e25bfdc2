"""Installs what is published where nothing else is, and runs the README there: `make release-check`.

    python -m tools.release_check dist/*.whl dist/*.tar.gz --with 3.12:2.11.0 --with 3.13:2.15.0

For each pair of a Python and a torch there is an environment in .cache/release that has this torch and nothing of
burnlike; it is made once. Each wheel and source distribution is installed into an empty environment that sees those
packages, and is used from a folder outside the checkout. Wheels are installed and used with no compiler on the PATH.
Needs nothing but Python, so that it runs in containers and other systems too.
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from .readme import AFTER_THE_COMMANDS, COMMANDS, FILES, INSTALLS, PROGRAMS

ROOT = Path(__file__).parent.parent
KEPT = ROOT / ".cache" / "release"
TAIL = 4000
FACTS = """
import pathlib, platform, burnlike, torch
from burnlike.ops import native_status

status = native_status()
assert status.loaded, status.cpu.reason
assert status.version == burnlike.__version__
folder = pathlib.Path(burnlike.__file__).parent
print(platform.python_version(), platform.machine(), "torch", torch.__version__, "kernels", *status.isas)
print(folder)
"""


def run(command: list[object], folder: Path, environment: Mapping[str, str]) -> str:
    """What a command prints; the end of this program with its output if it fails."""
    words = list(map(str, command))
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(
            f"release-check: {shlex.join(words)} gave {done.returncode}\n{done.stdout[-TAIL:]}{done.stderr[-TAIL:]}"
        )
    if "without native ops" in done.stderr:
        sys.exit(f"release-check: {shlex.join(words)} warns\n{done.stderr[-TAIL:]}")
    return done.stdout


def python_of(version: str) -> str:
    """The interpreter of a version such as 3.12: on the PATH, or of pyenv."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions").glob(
        f"{version}.*/bin/python{version}"
    )
    for python in filter(None, (shutil.which(f"python{version}"), *map(str, sorted(pyenv)))):
        if subprocess.run([python, "-c", ""], capture_output=True, check=False).returncode == 0:
            return python
    sys.exit(f"release-check: there is no python{version}: not on the PATH, nor of pyenv")


def with_torch(version: str, torch: str) -> Path:
    """The environment in .cache that has this torch, made where it is not there."""
    folder = KEPT / f"py{version}-torch{torch}"
    if not (folder / ".installed").exists():
        shutil.rmtree(folder, ignore_errors=True)
        print(f"making {folder.relative_to(ROOT)}", flush=True)
        run([python_of(version), "-m", "venv", folder], ROOT, os.environ)
        # `==` and not `===`: a build with a suffix such as +cpu is this version too.
        run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", f"torch=={torch}"], ROOT, os.environ)
        (folder / ".installed").touch()
    return folder


def empty_environment(base: Path, folder: Path) -> Path:
    """An environment with pip that sees the packages of `base`; returns its Python."""
    run([base / "bin" / "python", "-m", "venv", folder], ROOT, os.environ)
    python = folder / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    of_base, own = (run([it, "-c", where], ROOT, os.environ).strip() for it in (base / "bin" / "python", python))
    Path(own, "torch.pth").write_text(of_base + "\n")
    return python


def check(file: Path, version: str, torch: str, folder: Path) -> str:
    """Install one file and run the README; returns what was run where."""
    python = empty_environment(with_torch(version, torch), folder / "environment")
    elsewhere = folder / "else where"
    elsewhere.mkdir()
    is_wheel = file.suffix == ".whl"
    hidden = {"PYTHONPATH", "BURNLIKE_LIBRARY_DIR", "VIRTUAL_ENV", "PYTHONHOME"}
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment["PATH"] = str(python.parent) if is_wheel else f"{python.parent}:{os.environ['PATH']}"
    extras = INSTALLS[0][1]
    # torch 2.11 refuses setuptools 82, and an environment of Python 3.12 has none.
    if not is_wheel:
        run([python, "-m", "pip", "install", "--quiet", "setuptools>=77,<82"], elsewhere, environment)
    isolation = [] if is_wheel else ["--no-build-isolation"]
    run([python, "-m", "pip", "install", "--quiet", *isolation, f"{file.resolve()}[{extras}]"], elsewhere, environment)

    facts, place = run([python, "-c", FACTS], elsewhere, environment).splitlines()
    if not Path(place).is_relative_to(folder / "environment"):
        sys.exit(f"release-check: another burnlike was used: {place}")
    run([python, "-m", "pip", "check"], elsewhere, environment)
    for program in PROGRAMS:
        run([python, "-c", program], elsewhere, environment)
    for name, text in FILES.items():
        (elsewhere / name).write_text(text)
    for command in COMMANDS:
        run([python.parent / "burnlike", *shlex.split(command)], elsewhere, environment)
    run([python, "-c", AFTER_THE_COMMANDS], elsewhere, environment)
    return facts


def main() -> int:
    """Check each file with each pair."""
    parser = argparse.ArgumentParser(prog="python -m tools.release_check", description=__doc__.split("\n")[0])
    parser.add_argument("files", nargs="+", type=Path, help="wheels and source distributions")
    pairs = {"dest": "pairs", "action": "append", "required": True, "metavar": "PYTHON:TORCH"}
    parser.add_argument("--with", **pairs, help="such as 3.12:2.11.0; may be repeated")
    arguments = parser.parse_args()
    for pair in arguments.pairs:
        version, _, torch = pair.partition(":")
        for file in arguments.files:
            started = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                facts = check(file, version, torch, Path(folder).resolve())
            seconds = time.perf_counter() - started
            print(
                f"{file.name}: Python {facts}: {len(PROGRAMS) + 1} programs, {len(COMMANDS)} commands, {seconds:.0f} s",
                flush=True,
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
