"""Builds the native libraries: burnlike/_C.abi3.so and, where torch is for CUDA, burnlike/_C_cuda.abi3.so.

Both use LibTorch's stable ABI: one build runs on torch 2.11 and newer and on any Python from 3.11, and needs no headers
of Python. The environment decides (docs/building.md has the details):
    BURNLIKE_NATIVE    1 (default) builds the libraries, 0 leaves them out: the plain-torch references are used
    BURNLIKE_CUDA      auto (default) builds for CUDA where torch is for CUDA and nvcc is there, 1 insists, 0 does not
    BURNLIKE_SANITIZE  for example `address,undefined`: instruments the libraries (see .ci/asan.sh)
    CXX, CXXFLAGS, LDFLAGS, CUDA_HOME, TORCH_CUDA_ARCH_LIST, MAX_JOBS: as elsewhere
"""

import importlib.util
import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import setuptools
from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

try:
    from setuptools.command.bdist_wheel import bdist_wheel
except ImportError:  # with --no-build-isolation nobody else looks at what pyproject.toml requires
    sys.exit(
        f"burnlike: setuptools 77 or newer is needed, this is {setuptools.__version__}: pip install 'setuptools>=77'"
    )

ROOT = Path(__file__).parent.resolve()
(VERSION,) = re.findall(r'^__version__ = "(.+)"$', (ROOT / "burnlike" / "__init__.py").read_text(), re.MULTILINE)
CUDA_ARCHS = ["80", "90", "100"]
# torch's names in TORCH_CUDA_ARCH_LIST, of the GPUs that it still supports.
NAMED_ARCHS = {
    "Turing": "7.5+PTX",
    "Ampere+Tegra": "8.7",
    "Ampere": "8.0;8.6+PTX",
    "Ada": "8.9+PTX",
    "Hopper": "9.0+PTX",
    "Blackwell+Tegra": "11.0",
    "Blackwell": "10.0;10.3;12.0;12.1+PTX",
}
LAUNCHERS = ("ccache", "sccache", "distcc", "icecc")
WITHOUT = "set BURNLIKE_NATIVE=0 to go without native ops (slower)."
# The stable ABI of torch 2.11.
DEFINES = ["-DTORCH_TARGET_VERSION=0x020b000000000000", f'-DBURNLIKE_VERSION="{VERSION}"']
# Never -ffast-math: it would turn off subnormal numbers in the whole process. Products and sums are not contracted, so
# that every instruction set gives the same bits, and so does CUDA, but for float32 ops made of exp (quick_float.h).
CXX_FLAGS = ["-std=c++20", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wextra", "-Wno-unknown-pragmas"]
CXX_FLAGS += ["-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"]
# Machine code is a tenth as large compressed: 1.2 MB instead of 11 for each architecture.
NVCC_FLAGS = ["-std=c++20", "-O3", "-fmad=false", "-DUSE_CUDA", "-Xfatbin=-compress-all"]
NVCC_FLAGS += ["-Xcompiler=-fPIC,-fvisibility=hidden,-ffp-contract=off,-Wno-unknown-pragmas"]


def flag(name: str, default: str, allowed: tuple[str, ...]) -> str:
    """The value of an environment flag, or an end of the build that says which values there are."""
    value = os.environ.get(name, "").strip() or default
    if value not in allowed:
        sys.exit(f"burnlike: {name} must be one of {', '.join(allowed)}, not {value!r}")
    return value


NATIVE = flag("BURNLIKE_NATIVE", "1", ("0", "1")) == "1"
CUDA = flag("BURNLIKE_CUDA", "auto", ("0", "1", "auto"))
SANITIZE = os.environ.get("BURNLIKE_SANITIZE", "").strip()


def words(name: str) -> list[str]:
    """An environment variable as the words of a command line."""
    return shlex.split(os.environ.get(name, ""))


def includes(torch_folder: Path) -> list[str]:
    """Where the headers are."""
    return ["-I", str(ROOT / "csrc" / "include"), "-isystem", str(torch_folder / "include")]


def without_paths(torch_folder: Path, for_nvcc: bool) -> list[str]:
    """Flags that keep this machine's folders out of the libraries; messages of errors name their source."""
    folders = {ROOT, torch_folder.parent, torch_folder.parent.resolve()}  # compilers name some of them resolved
    flags = [f"-ffile-prefix-map={folder}/=" for folder in sorted(folders)]
    return [f"-Xcompiler={flag}" for flag in flags] if for_nvcc else flags


def sources(*patterns: str) -> list[str]:
    """Sources below csrc, as paths from the root of the checkout."""
    return sorted(str(path.relative_to(ROOT)) for pattern in patterns for path in (ROOT / "csrc").glob(pattern))


def list_of_kernels() -> str:
    """The text of csrc/cpu/isa/ops.inc: each op with a `.h` and an `.inl` there, which are for all instruction sets."""
    folder = ROOT / "csrc" / "cpu" / "isa"
    names = sorted(path.stem for path in folder.glob("*.inl") if path.with_suffix(".h").exists())
    # Kernels of bfloat16 alone are compiled for one instruction set, by a file of their own.
    lines = [f"#include BURNLIKE_FILE({name})" for name in names if not name.endswith("_bf16")]
    head = "// Every op with kernels of its own for each instruction set, read for its `.h` and then for its `.inl`."
    return "\n".join([head, *lines, ""])


def cxx_compiler() -> list[str]:
    """The C++ compiler's command."""
    command = words("CXX") or ["c++" if shutil.which("c++") else "g++"]
    if shutil.which(command[0]) is None:
        sys.exit(
            f"burnlike: the C++ compiler {command[0]!r} was not found. Install one with C++20 "
            f"(Debian: apt-get install g++), name one in CXX, or {WITHOUT}"
        )
    return command


def torch_package() -> tuple[Path, dict[str, Any]]:
    """Torch's folder and what its version.py says (nothing without torch), without the seconds that an import takes."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        return Path(), {}
    folder = Path(spec.origin).parent
    return folder, runpy.run_path(str(folder / "version.py"))


def nvcc_path() -> str | None:
    """The CUDA compiler: of CUDA_HOME, of the PATH, or at the usual place."""
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", "")]
    candidates = [*(f"{home}/bin/nvcc" for home in homes if home), "nvcc", "/usr/local/cuda/bin/nvcc"]
    return next(filter(None, map(shutil.which, candidates)), None)


def cuda_compiler(torch_cuda: str | None) -> tuple[str | None, str]:
    """(nvcc, or None to go without CUDA; the reason). It depends on torch and on nvcc, never on a visible GPU."""
    if CUDA == "0":
        return None, "BURNLIKE_CUDA=0"
    if torch_cuda is None:
        return None, "this torch is for CPU only; install a CUDA build of torch"
    nvcc = nvcc_path()
    if nvcc is None:
        return None, f"torch is for CUDA {torch_cuda}, but there is no nvcc; install the CUDA toolkit or set CUDA_HOME"
    text = subprocess.run([nvcc, "--version"], check=True, capture_output=True, text=True).stdout
    release = re.search(r"release (\d+)\.(\d+)", text)
    if release is None or release[1] != torch_cuda.split(".")[0]:
        found = release[0] if release else "of unknown release"
        return None, f"torch is for CUDA {torch_cuda}, but {nvcc} is {found}; the major versions must be equal"
    return nvcc, f"{nvcc}, torch for CUDA {torch_cuda}"


def cuda_archs(nvcc: str) -> tuple[list[str], list[str]]:
    """The architectures that get machine code, those listed or that nvcc knows of, and those that get portable code."""
    archs, portable = listed_archs(os.environ.get("TORCH_CUDA_ARCH_LIST", ""))
    if not archs:
        known = subprocess.run([nvcc, "--list-gpu-arch"], check=True, capture_output=True, text=True).stdout.split()
        archs = [arch for arch in CUDA_ARCHS if f"compute_{arch}" in known]
    return archs, portable or archs[-1:]


def cuda_arch_flags(nvcc: str) -> list[str]:
    """nvcc's flags for these."""
    archs, portable = cuda_archs(nvcc)
    flags = [f"-gencode=arch=compute_{arch},code=sm_{arch}" for arch in archs]
    return flags + [f"-gencode=arch=compute_{arch},code=compute_{arch}" for arch in portable]


def cuda_archs_define(nvcc: str) -> str:
    """What the CUDA library says of them, for burnlike.ops to compare with a GPU."""
    archs, portable = cuda_archs(nvcc)
    return f'-DBURNLIKE_CUDA_ARCHS="{" ".join([*archs, *(f"{arch}+PTX" for arch in portable)])}"'


def listed_archs(text: str) -> tuple[list[str], list[str]]:
    """The architectures of TORCH_CUDA_ARCH_LIST as nvcc writes them, and those of them that get portable code."""
    words = [part for word in text.replace(";", " ").split() for part in NAMED_ARCHS.get(word, word).split(";")]
    for word in words:
        if not re.fullmatch(r"\d+\.\d[af]?(\+PTX)?", word):
            names = ", ".join(NAMED_ARCHS)
            sys.exit(
                f"burnlike: TORCH_CUDA_ARCH_LIST: expected numbers such as 9.0 or 8.0+PTX, or {names}; got {word!r}"
            )
    archs = {word.removesuffix("+PTX").replace(".", ""): word.endswith("+PTX") for word in words}
    return [*archs], [arch for arch, is_portable in archs.items() if is_portable]


def host_flags(cxx: list[str], *flags: str) -> list[str]:
    """nvcc's flags for the C++ compiler, which it starts itself, and for what that one is given."""
    program, *own = cxx[1:] if Path(cxx[0]).name in LAUNCHERS and len(cxx) > 1 else cxx
    return [f"-ccbin={program}", *(f"-Xcompiler={flag}" for flag in [*own, *flags])]


class BuildNative(build_ext):
    """Compiles the sources of each library side by side and links them."""

    def finalize_options(self) -> None:
        """Decide whether the CUDA library is built."""
        self.torch_folder, self.torch_version = torch_package()
        self.nvcc, self.cuda_reason = cuda_compiler(self.torch_version.get("cuda"))
        libraries = self.distribution.ext_modules
        if self.nvcc and libraries and len(libraries) == 1:
            libraries.append(Extension("burnlike._C_cuda", sources("cuda/*.cu", "cuda/*.cpp"), py_limited_api=True))
        super().finalize_options()

    def run(self) -> None:
        """Check what is needed, say what is built, and build it."""
        if not self.extensions:
            print("burnlike: BURNLIKE_NATIVE=0: no native ops, the plain-torch references are used", flush=True)
            return
        if not self.torch_version:
            sys.exit(
                "burnlike: torch was not found, and the native libraries are built against it. Install torch >= 2.11 "
                f"first and build with `pip install --no-build-isolation .`, or {WITHOUT}"
            )
        if CUDA == "1" and self.nvcc is None:
            sys.exit(f"burnlike: BURNLIKE_CUDA=1, but {self.cuda_reason}.")
        self.cxx = cxx_compiler()
        kernels, text = ROOT / "csrc" / "cpu" / "isa" / "ops.inc", list_of_kernels()
        if kernels.read_text() != text:
            kernels.write_text(text)
        print(
            f"burnlike {VERSION} native build\n"
            f"  torch      {self.torch_version['__version__']}, stable ABI of 2.11\n"
            f"  compiler   {shlex.join(self.cxx)}\n"
            f"  CUDA       {'yes' if self.nvcc else 'no'}: {self.cuda_reason}\n"
            f"  sanitize   {SANITIZE or 'no'}\n"
            f"  libraries  {', '.join(ext.name for ext in self.extensions)}",
            flush=True,
        )
        super().run()

    def build_extension(self, ext: Extension) -> None:
        """Compile with as many jobs as there are cores (or MAX_JOBS) and link."""
        objects = [Path(self.build_temp, f"{source}.o").resolve() for source in ext.sources]
        target = Path(self.get_ext_fullpath(ext.name)).resolve()
        for path in [*objects, target]:
            path.parent.mkdir(parents=True, exist_ok=True)
        with ThreadPoolExecutor(int(os.environ.get("MAX_JOBS", 0)) or len(os.sched_getaffinity(0))) as pool:
            list(pool.map(self.compile, ext.sources, objects))
        flags = [*([f"-fsanitize={SANITIZE}"] if SANITIZE else []), *words("LDFLAGS")]
        libraries = [f"-L{self.torch_folder / 'lib'}", "-ltorch_cpu"]
        linker = [*self.cxx, *flags]
        if ext.name.endswith("_cuda"):
            linker = [str(self.nvcc), *host_flags(self.cxx, *flags)]
            # A toolkit of NVIDIA's wheels has its libraries in `lib`, where nvcc does not look.
            toolkit = Path(str(self.nvcc)).parent.parent / "lib"
            if (toolkit / "libcudart_static.a").exists():
                libraries.append(f"-L{toolkit}")
            libraries.append("-ltorch_cuda")
        subprocess.run([*linker, "-shared", *map(str, objects), "-o", str(target), *libraries], check=True, cwd=ROOT)

    def compile(self, source: str, target: Path) -> None:
        """Compile one source."""
        optimize = ["-O1", "-g", "-fno-omit-frame-pointer", f"-fsanitize={SANITIZE}"] if SANITIZE else ["-O3"]
        command = [*self.cxx, *CXX_FLAGS, *optimize, *words("CXXFLAGS")]
        if source.endswith(".cu"):
            command = [str(self.nvcc), *NVCC_FLAGS, *host_flags(self.cxx, *words("CXXFLAGS"))]
            command += cuda_arch_flags(str(self.nvcc))
        elif source.startswith("csrc/cuda/"):
            command.append(cuda_archs_define(str(self.nvcc)))
        command += [*DEFINES, *without_paths(self.torch_folder, source.endswith(".cu"))]
        command += [*includes(self.torch_folder), "-c", source, "-o", str(target)]
        subprocess.run(command, check=True, cwd=ROOT)


class StableWheel(bdist_wheel):
    """A wheel with native libraries fits every Python from 3.11 on."""

    def finalize_options(self) -> None:
        """Tag the wheel abi3."""
        self.py_limited_api = "cp311" if NATIVE else ""
        super().finalize_options()


CPU_LIBRARY = Extension("burnlike._C", sources("library.cpp", "cpu/**/*.cpp"), py_limited_api=True)

if __name__ == "__main__":
    setup(
        ext_modules=[CPU_LIBRARY] if NATIVE else [],
        cmdclass={"build_ext": BuildNative, "bdist_wheel": StableWheel},
    )
