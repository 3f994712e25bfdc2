"""The native libraries: what is loaded, which instruction set is used, and that loading harms nothing else."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from burnlike.errors import NativeError
from burnlike.ops import force_cpu_isa, native_status, rms_norm

ROOT = Path(__file__).parents[2]


def module_of(path: str) -> ModuleType:
    """A program of the checkout as a module."""
    name = f"burnlike_{Path(path).stem}"
    spec = importlib.util.spec_from_file_location(name, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter, in which every warning is printed."""
    return subprocess.run(
        [sys.executable, "-W", "always", "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, **environment},
    )


def test_native_library_is_loaded() -> None:
    status = native_status()
    assert (status.built, status.loaded, status.cpu.reason) == (True, True, "")
    assert status.path.name == "_C.abi3.so"
    assert status.isa in status.isas
    assert status.isas[0] == "default"


def test_the_best_isa_that_the_cpu_has_is_used() -> None:
    """By torch's list of what the CPU has, which `ATEN_CPU_CAPABILITY` does not change."""
    has = torch.cpu.get_capabilities()
    best = "avx2" if has.get("avx2") else "default"
    if all(has.get(f"avx512_{part}") for part in ("f", "bw", "dq", "vl")):
        best = "avx512_bf16" if has.get("avx512_bf16") else "avx512"
    with force_cpu_isa(None):
        assert native_status().isa == best


def test_isa_is_forced_for_a_block_only() -> None:
    before = native_status().isa
    with force_cpu_isa("default"):
        assert native_status().isa == "default"
    assert native_status().isa == before


def test_unknown_isa_is_refused() -> None:
    with pytest.raises(NativeError, match=r"expected one of default.*, got 'avx1024'"), force_cpu_isa("avx1024"):
        pass


def test_isa_from_the_environment() -> None:
    code = "from burnlike.ops import native_status; print(native_status().isa)"
    assert run_python(code, BURNLIKE_CPU_ISA="default").stdout == "default\n"
    wrong = run_python(code, BURNLIKE_CPU_ISA="sse9")
    assert wrong.returncode != 0
    assert "NativeError: BURNLIKE_CPU_ISA: expected one of default" in wrong.stderr


def test_missing_library_is_said_once_and_the_references_are_used(tmp_path: Path) -> None:
    code = (
        "import torch\n"
        "from burnlike.ops import adamw_step_, native_status, rms_norm\n"
        "print(native_status().loaded, native_status().cpu.reason)\n"
        "print(rms_norm(torch.tensor([3.0, 4.0]), torch.ones(2), 0.0).tolist())\n"
        "param = torch.ones(1)\n"
        "moments = [[torch.zeros(1)], [torch.zeros(1)]]\n"
        "adamw_step_([param], [param.clone()], *moments, times=[1], lr=0.5, weight_decay=0.0)\n"
        "print(round(param.item(), 4))\n"
    )
    result = run_python(code, BURNLIKE_LIBRARY_DIR=str(tmp_path))
    status, normalized, stepped = result.stdout.splitlines()
    assert status == f"False it was not built ({tmp_path / '_C.abi3.so'} is not there)"
    assert [round(value, 4) for value in eval(normalized)] == [0.8485, 1.1314]
    assert stepped == "0.5"
    assert result.stderr.count("RuntimeWarning: burnlike runs on every device without native ops") == 1
    assert "pip install --no-build-isolation" in result.stderr


def test_importing_ops_does_not_start_cudas_driver() -> None:
    """Processes that are forked from one that did could not use CUDA."""
    program = (
        "import torch\n"
        "def asked(*_): raise AssertionError('the driver was asked for GPUs')\n"
        "torch.cuda.is_available = torch._C._cuda_getDeviceCount = torch.cuda.init = asked\n"
        "torch.version.cuda = torch.version.cuda or '13.0'\n"
        "import burnlike.ops, burnlike.nn\n"
    )
    result = run_python(program)
    assert result.returncode == 0, result.stderr
    assert "on CUDA" not in result.stderr


def test_damaged_library_is_said(tmp_path: Path) -> None:
    (tmp_path / "_C.abi3.so").write_text("not a library")
    result = run_python("import burnlike.ops", BURNLIKE_LIBRARY_DIR=str(tmp_path))
    assert re.search("it can't be loaded: .*/_C.abi3.so: (file too short|invalid ELF header)", result.stderr)
    assert result.returncode == 0


def test_cuda_kernels_are_loaded_where_torch_is_for_cuda() -> None:
    """A GPU is not needed for it: without one the library is linked, loaded and registered all the same."""
    cuda = native_status().cuda
    setup_py = module_of("setup.py")
    nvcc, reason = setup_py.cuda_compiler(torch.version.cuda)
    if nvcc is None:
        assert not cuda.built, reason
        return
    assert cuda.loaded, cuda.reason
    registered = torch._C._dispatch_get_registrations_for_dispatch_key
    on_cpu, on_cuda = ({name for name in registered(key) if name.startswith("burnlike::")} for key in ("CPU", "CUDA"))
    sources = {path.stem for path in (ROOT / "csrc" / "cuda").glob("*.cu")}
    assert len(on_cuda) >= len(sources) > 0
    assert on_cuda <= on_cpu | {"burnlike::convert_and_pack_"}, on_cuda - on_cpu


def test_subnormal_numbers_are_left_alone() -> None:
    # A library linked with -ffast-math would flush them to zero in the whole process.
    assert np.float32(1e-40) * np.float32(1.0) != 0
    assert (torch.full((100,), 1e-40) * 1.0 != 0).all()
    assert (torch.full((100_000,), 1e-40) * 1.0 != 0).all()  # in torch's threads, too


def test_library_needs_no_cpp_symbol_of_torch() -> None:
    symbols = module_of(".ci/abi_symbols.py")
    assert symbols.forbidden_symbols(native_status().path) == []
    # The check itself: torch's own Python library needs plenty of them.
    assert symbols.forbidden_symbols(Path(torch.__file__).parent / "lib" / "libtorch_python.so")


@pytest.mark.weekly
def test_variants_are_compiled_for_their_instruction_set_only(tmp_path: Path) -> None:
    setup_py = module_of("setup.py")
    if "avx2" not in native_status().isas:
        pytest.skip("no x86-64 with AVX2")
    widths = {}
    for isa in ("default", "avx2", "avx512", "avx512_bf16"):
        target = tmp_path / f"{isa}.s"
        source = f"csrc/cpu/isa/{isa}.cpp"
        command = [
            *setup_py.cxx_compiler(),
            *setup_py.CXX_FLAGS,
            "-O2",
            "-S",
            "-Icsrc/include",
            source,
            "-o",
            str(target),
        ]
        subprocess.run(command, check=True, cwd=ROOT)
        text = target.read_text()
        widths[isa] = {width for width in ("xmm", "ymm", "zmm") if f"%{width}" in text}
        # In avx512.cpp for functions that are called on processors alone that have it.
        assert ("vdpbf16ps" in text) == (isa in ("avx512", "avx512_bf16"))
    assert widths["default"] == {"xmm"}
    assert "ymm" in widths["avx2"]
    assert "zmm" not in widths["avx2"]
    assert "zmm" in widths["avx512"]


def test_gpus_are_listed_as_torch_lists_them() -> None:
    listed_archs = module_of("setup.py").listed_archs
    assert listed_archs("8.0 9.0a+PTX") == (["80", "90a"], ["90a"])
    assert listed_archs("Ampere;Hopper") == (["80", "86", "90"], ["86", "90"])
    assert listed_archs("") == ([], [])
    with pytest.raises(SystemExit, match=r"expected numbers such as 9\.0 or 8\.0\+PTX, or Turing, .*; got 'sm_90'"):
        listed_archs("sm_90")


def test_nvcc_gets_the_compiler_behind_a_launcher_and_its_flags() -> None:
    host_flags = module_of("setup.py").host_flags
    assert host_flags(["ccache", "g++", "-m64"], "-g") == ["-ccbin=g++", "-Xcompiler=-m64", "-Xcompiler=-g"]
    assert host_flags(["/usr/bin/clang++"]) == ["-ccbin=/usr/bin/clang++"]


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has no large pages")
def test_memory_of_a_large_result_is_asked_for_in_large_pages() -> None:
    result = rms_norm(torch.ones(4096, 512), torch.ones(512))
    place = result.data_ptr() + result.nbytes // 2
    flags: list[list[str]] = []
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if "-" in first and ":" not in first:
            begin, end = (int(it, 16) for it in first.split("-"))
        elif first == "VmFlags:" and begin <= place < end:
            flags.append(rest)
    assert len(flags) == 1
    assert "hg" in flags[0]
