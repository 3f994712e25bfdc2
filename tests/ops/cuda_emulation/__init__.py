"""The CUDA kernels on a CPU: csrc/cuda compiled as C++ with the header of this folder in the place of CUDA's.

That shows what the kernels compute, block by block and lane by lane, where there is no GPU. It shows nothing of their
speed, nor what comes of two threads that write the same place at once.
"""

import hashlib
import importlib.util
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from burnlike.ops._library import DERIVATIVES

ROOT = Path(__file__).parents[3]
NAMESPACE = "burnlike_emulated"
SOURCES = "".join(path.read_text() for path in sorted((ROOT / "csrc/cuda").glob("*.cu")))
OPS = re.findall(r'CallCounter \w+\{"(\w+)"\}', SOURCES)


@cache
def emulated_ops() -> Any:
    """The ops of the CUDA library as ops of CPU tensors; built when a source has changed."""
    library = torch.library.Library(NAMESPACE, "DEF")
    for name in OPS:
        schema = str(getattr(torch.ops.burnlike, name).default._schema)
        library.define(schema.removeprefix("burnlike::"))
    torch.ops.load_library(str(_built()))
    for name in set(OPS) & set(DERIVATIVES):
        backward, setup_context = DERIVATIVES[name]
        torch.library.register_autograd(f"{NAMESPACE}::{name}", backward, setup_context=setup_context, lib=library)
    emulated_ops.library = library  # type: ignore[attr-defined]  # schemas live as long as their library
    return getattr(torch.ops, NAMESPACE)


def _built() -> Path:
    setup = _setup()
    folder = ROOT / ".cache" / "cuda_emulation"
    torch_folder, version = setup.torch_package()
    headers = Path(__file__).parent
    files = sorted([*(ROOT / "csrc/include").rglob("*.h"), *(ROOT / "csrc/cuda").iterdir(), *headers.rglob("*.h")])
    digest = hashlib.sha256(version["__version__"].encode())
    for file in files:
        digest.update(file.read_bytes())
    target = folder / f"{digest.hexdigest()[:16]}.so"
    if target.exists():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.so"):
        old.unlink(missing_ok=True)
    compiler = [*setup.cxx_compiler(), *setup.CXX_FLAGS, "-O1", "-Werror", *setup.DEFINES]
    # Another namespace: the CPU ops of the same names are there, too.
    compiler += [f"-Dburnlike={NAMESPACE}", "-I", str(headers), "-include", str(headers / "cuda_runtime.h")]
    compiler += setup.includes(torch_folder)
    with tempfile.TemporaryDirectory(dir=folder) as name:

        def compiled(source: str) -> str:
            made = str(Path(name, Path(source).name).with_suffix(".o"))
            _run([*compiler, "-x", "c++", "-c", source, "-o", made])
            return made

        with ThreadPoolExecutor(torch.get_num_threads()) as pool:
            objects = list(pool.map(compiled, setup.sources("cuda/*.cu")))
        made = Path(name, target.name)
        libraries = [f"-L{torch_folder / 'lib'}", "-ltorch_cpu"]
        _run([*setup.cxx_compiler(), "-shared", *objects, "-o", str(made), *libraries])
        made.rename(target)
    return target


def build_flags() -> list[str]:
    """The compiler and flags of the build that a source with kernels needs."""
    setup = _setup()
    torch_folder, _ = setup.torch_package()
    return [*setup.cxx_compiler(), *setup.CXX_FLAGS, *setup.includes(torch_folder)]


def _run(command: list[str]) -> None:
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    if result.returncode:
        raise RuntimeError(f"the emulation can't be built: {' '.join(command)}\n{result.stderr}")


def _setup() -> ModuleType:
    """setup.py as a module, for the flags that the build uses."""
    spec = importlib.util.spec_from_file_location("burnlike_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
