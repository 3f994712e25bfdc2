#!/usr/bin/env python3
"""Compiles what this machine can't run: `cuda ARCH...`, the CUDA sources for GPUs; `arm`, the CPU ones for aarch64.

Fails on errors, on register spills, on memory of a thread's stack, on accesses of 16 bytes that the compiler has split
(vector_accesses.py), and where an aarch64 object has an x86 variant.
Needs nvcc or aarch64-linux-gnu-g++ (Debian: g++-aarch64-linux-gnu); without it it fails too, as nothing was checked.
"""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent))
import vector_accesses

ROOT = Path(__file__).parent.parent.resolve()
CROSS = "aarch64-linux-gnu-g++"


class Kernel(NamedTuple):
    """What ptxas says of one kernel for one GPU."""

    source: str
    name: str
    arch: str
    registers: int
    spilled_bytes: int
    stack_bytes: int


def load_setup():
    """setup.py as a module, for the flags that the build uses."""
    spec = importlib.util.spec_from_file_location("burnlike_setup", ROOT / "setup.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def parse(source: str, log: str) -> list[Kernel]:
    """The kernels in the output of `nvcc -Xptxas -v`."""
    kernels = []
    name, arch, stack, spilled = "", "", 0, 0
    for line in log.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)' for '(\w+)'", line):
            name, arch, stack, spilled = found[1], found[2], 0, 0
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack, spilled = stack + int(found[1]), spilled + int(found[2]) + int(found[3])
        elif (found := re.search(r"Used (\d+) registers", line)) and name:
            kernels.append(Kernel(source, name, arch, int(found[1]), spilled, stack))
            name = ""
    return kernels


def demangled(kernels: list[Kernel]) -> list[Kernel]:
    """The same with names to read."""
    names = vector_accesses.short_names([kernel.name for kernel in kernels])
    return [kernel._replace(name=name) for kernel, name in zip(kernels, names, strict=True)]


def run(command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a compiler in the checkout."""
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def compile_cuda(setup, nvcc: str, torch_folder: Path, folder: Path, gpus: list[str]) -> list[str]:
    """Compile each .cu for each GPU, print the table of kernels, and return what is wrong."""
    version = run([nvcc, "--version"]).stdout.strip().splitlines()[-2]
    archs = [flag for arch in gpus for flag in ("-gencode", f"arch={arch.replace('sm', 'compute')},code={arch}")]
    command = [nvcc, *setup.NVCC_FLAGS, *archs, "-Xptxas", "-v", *setup.DEFINES, *setup.includes(torch_folder)]
    sources = setup.sources("cuda/*.cu")
    problems: list[str] = [] if sources else ["no .cu found below csrc/cuda"]

    def compile_one(source: str) -> list[Kernel]:
        stem = Path(source).stem
        kept = folder / stem
        kept.mkdir()
        result = run([*command, "--keep", "--keep-dir", str(kept), "-c", source, "-o", str(kept / f"{stem}.o")])
        log = result.stdout + result.stderr
        if result.returncode != 0:
            problems.append(f"{source}: nvcc failed\n{log}")
            return []
        kernels = parse(source, log)
        seen = Counter(kernel.arch for kernel in kernels)
        if any(seen[arch] != seen[gpus[0]] for arch in gpus):  # none in a source that launches another's
            problems.append(f"{source}: expected the same kernels for {', '.join(gpus)}, got {dict(seen)}")
        for ptx in sorted(kept.glob("*.ptx")):
            text = ptx.read_text()
            target = re.search(r"^\.target (\w+)", text, re.MULTILINE)
            problems.extend(vector_accesses.problems(stem, target[1] if target else ptx.name, text))
        return kernels

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        kernels = demangled([kernel for found in pool.map(compile_one, sources) for kernel in found])
    if not kernels:
        problems.append("no kernel found in the sources")
    print(f"CUDA: {version}, {len(sources)} sources, {len(kernels)} kernels")
    width = max((len(kernel.name) for kernel in kernels), default=6)
    print(f"{'registers (spilled bytes)':{width}}  {'  '.join(f'{arch:>10}' for arch in gpus)}")
    for name in sorted({kernel.name for kernel in kernels}):
        cells = {
            kernel.arch: f"{kernel.registers} ({kernel.spilled_bytes})" for kernel in kernels if kernel.name == name
        }
        row = "  ".join(f"{cells.get(arch, '-'):>10}" for arch in gpus)
        print(f"{name:{width}}  {row}")
    for kernel in kernels:
        if kernel.spilled_bytes or kernel.stack_bytes:
            problems.append(
                f"{kernel.source}: {kernel.name} for {kernel.arch} spills {kernel.spilled_bytes} bytes of registers "
                f"and keeps {kernel.stack_bytes} bytes on the stack; use fewer live values or a smaller launch bound"
            )
    return problems


def compile_aarch64(setup, torch_folder: Path, folder: Path) -> list[str]:
    """Compile each C++ source for aarch64 and return what is wrong."""
    sources = setup.sources("library.cpp", "cpu/**/*.cpp", "cuda/*.cpp")
    command = [CROSS, *setup.CXX_FLAGS, "-O3", "-Werror", *setup.DEFINES, *setup.includes(torch_folder)]
    command.append('-DBURNLIKE_CUDA_ARCHS=""')
    problems = []

    def compile_one(source: str) -> None:
        target = folder / (source.replace("/", "_") + ".o")
        result = run([*command, "-c", source, "-o", str(target)])
        if result.returncode != 0:
            problems.append(f"{source}: {CROSS} failed\n{result.stdout}{result.stderr}")
            return
        symbols = run([CROSS.replace("g++", "nm"), "--defined-only", "-C", str(target)]).stdout
        if variants := re.findall(r"\S*avx\w*", symbols):
            problems.append(f"{source}: x86 variants in an aarch64 object: {', '.join(sorted(set(variants)))}")

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, sources))
    print(f"aarch64: {run([CROSS, '--version']).stdout.splitlines()[0]}, {len(sources)} sources")
    return problems


def main() -> int:
    """Compile everything of one kind; 0 if nothing is wrong."""
    kind, *gpus = sys.argv[1:] or [""]
    if kind not in ("cuda", "arm") or (kind == "cuda") != bool(gpus):
        sys.exit("compile-check: expected `arm`, or `cuda` and GPUs such as sm_90")
    setup = load_setup()
    torch_folder, torch_version = setup.torch_package()
    nvcc = setup.nvcc_path()
    missing = []
    if not torch_version:
        missing.append("torch (its headers): install requirements.lock and run this with .venv/bin/python")
    if kind == "cuda" and nvcc is None:
        missing.append("nvcc: install the CUDA toolkit (the compiler is enough) or set CUDA_HOME")
    if kind == "arm" and shutil.which(CROSS) is None:
        missing.append(f"{CROSS}: apt-get install g++-aarch64-linux-gnu")
    if missing:
        print(f"{kind}-compile: nothing was checked, as these are missing:", *missing, sep="\n  ", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory() as name:
        if kind == "cuda":
            problems = compile_cuda(setup, nvcc, torch_folder, Path(name), gpus)
            right = "no errors, no spills, no split vectors"
        else:
            problems, right = compile_aarch64(setup, torch_folder, Path(name)), "no errors, no x86 code"
    for problem in problems:
        print(f"{kind}-compile: {problem}", file=sys.stderr)
    print(f"{kind}-compile:", f"{len(problems)} problems" if problems else right)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
