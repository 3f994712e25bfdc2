"""Needs of the check: facts of the machine, packages of a folder of wheels, and the libraries for its GPU.

`python -m tools.gpu_check.environment` prints the facts as JSON: the check itself imports no torch, and uses no GPU.
"""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from burnlike._atomic import AtomicDirectory, copy_files, make_directories, remove_directory

from .processes import first_error, last_lines, run

ROOT = Path(__file__).parent.parent.parent
CACHE = ROOT / ".cache" / "gpu_check"
LIBRARIES = ("_C.abi3.so", "_C_cuda.abi3.so")
PACKAGES = ("torch", "safetensors", "yaml", "numpy", "msgspec", "pytest", "xdist")
"""What nothing runs without, by the names of the modules."""


@dataclass(frozen=True)
class Facts:
    """The interpreter and the GPU.

    Attributes:
        python, torch, cuda: versions; `cuda` is that of torch's build, None where it is for CPU only.
        machine, folder: the GPU's name, or the processor's, and its folder, as `benchmarks._results` names them.
        devices: how many GPUs torch sees.
        capability: of the first one, such as `9.0`.
        missing: packages that nothing runs without.
    """

    python: str = platform.python_version()
    torch: str | None = None
    cuda: str | None = None
    machine: str = ""
    folder: str = ""
    devices: int = 0
    capability: str = ""
    missing: tuple[str, ...] = ()


def facts_here() -> Facts:
    """The facts of this process's interpreter."""
    missing = tuple(name for name in PACKAGES if find_spec(name) is None)
    if "torch" in missing:
        return Facts(missing=missing)
    import torch

    devices = torch.cuda.device_count() if torch.cuda.is_available() else 0
    capability = ".".join(map(str, torch.cuda.get_device_capability())) if devices else ""
    machine = folder = ""
    if "msgspec" not in missing:
        from benchmarks import _results

        machine = _results.machine()
        folder = _results.folder_of(machine)
    versions = platform.python_version(), str(torch.__version__), torch.version.cuda
    return Facts(*versions, machine, folder, devices, capability, missing)


def facts(log: Path, seconds: float) -> Facts:
    """The facts, of a process of its own; those of no machine where it fails or takes too long."""
    ended = run([sys.executable, "-m", __name__], log, seconds, folder=str(ROOT))
    lines = log.read_text(errors="replace").splitlines()
    if ended.status != 0 or not lines:
        return Facts(missing=(f"an answer of {sys.executable}: {last_lines(log) or 'none came in time'}",))
    values = json.loads(lines[-1])
    return Facts(**{**values, "missing": tuple(values["missing"])})


def install_wheels(folder: Path, log: Path, seconds: float) -> Iterator[str]:
    """Install the wheels of a folder for this process and those that it starts; yields a line for each that failed."""
    target = CACHE / f"packages-{sys.implementation.cache_tag}"
    remove_directory(target)
    make_directories(target)
    for wheel in sorted(folder.glob("*.whl")):
        command = [sys.executable, "-m", "pip", "install", "--no-index", "--no-deps", "--target", str(target)]
        if run([*command, str(wheel)], log, seconds).status != 0:
            yield f"{wheel.name} was not installed: {last_lines(log, 1)}"
    put_on_path(target)


def put_on_path(*folders: Path) -> None:
    """Have this process and those that it starts import from folders before all others."""
    for folder in folders:
        sys.path.insert(0, str(folder))
        before = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{before}" if before else str(folder)


def library_folder(facts: Facts) -> Path:
    """The folder of the libraries for this GPU, torch and state of the sources, built or not."""
    archs = facts.capability or os.environ.get("TORCH_CUDA_ARCH_LIST")
    digest = hashlib.sha256(f"{facts.torch} {archs} {tool('nvcc')}".encode())
    for path in [ROOT / "setup.py", ROOT / "burnlike" / "__init__.py", *sorted((ROOT / "csrc").rglob("*"))]:
        if path.is_file():
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return CACHE / f"libraries-{digest.hexdigest()[:16]}"


def build(facts: Facts, device: str, log: Path, seconds: float, built: Path | None = None) -> tuple[Path | None, str]:
    """Build the libraries for this GPU alone with all cores; (their folder, how) or (None, why not).

    Those of `built` are taken as they are, and what was built before of the same sources. A rehearsal on a CPU takes
    those of the checkout.
    """
    if device == "cpu" or built is not None:
        folder = built or Path(os.environ.get("BURNLIKE_LIBRARY_DIR") or ROOT / "burnlike")
        missing = [name for name in LIBRARIES[: 1 if device == "cpu" else 2] if not (folder / name).exists()]
        return (None, f"{folder / missing[0]} was not built") if missing else (folder, f"those of {folder}")
    folder = library_folder(facts)
    if all((folder / name).exists() for name in LIBRARIES):
        return folder, "built before, of the same sources"
    with AtomicDirectory(folder) as made:
        places = ["--build-lib", str(made.path / "lib"), "--build-temp", str(made.path / "objects")]
        variables = {"BURNLIKE_CUDA": "1"}
        if facts.capability:
            variables["TORCH_CUDA_ARCH_LIST"] = facts.capability
        ended = run([sys.executable, "setup.py", "build_ext", *places], log, seconds, variables, str(ROOT))
        if ended.status is None:
            return None, f"the build was not done after {ended.seconds:.0f} s"
        if ended.status != 0:
            return None, f"the build ended with status {ended.status}: {first_error(log)}"
        for name in LIBRARIES:
            copy_files(made.path / "lib" / "burnlike" / name, made.path / name)
        for name in ("lib", "objects"):
            remove_directory(made.path / name)
        made.commit()
    archs = facts.capability or os.environ.get("TORCH_CUDA_ARCH_LIST") or "the usual GPUs"
    return folder, f"built in {ended.seconds:.0f} s for {archs}"


def tool(name: str) -> str | None:
    """A program of the CUDA toolkit: of the PATH, of CUDA_HOME, or at the usual place."""
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    candidates = [name, *(f"{home}/bin/{name}" for home in homes if home)]
    return next(filter(None, map(shutil.which, candidates)), None)


def commit() -> str:
    """The commit of the checkout, with `changed` where its files differ; `unknown` in a copy without git."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=12", "--dirty=, changed"]
    try:
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


if __name__ == "__main__":
    print(json.dumps(asdict(facts_here())))
