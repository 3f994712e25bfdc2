"""Loads the native libraries, once, says what is in use, and registers what belongs to an op besides its kernels.

`_C.abi3.so` has all schemas and the CPU kernels; `_C_cuda.abi3.so` adds CUDA kernels and loads only where torch is for
CUDA.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from .. import __version__, _env
from .._torch_compat.cuda_start import when_cuda_starts
from .._torch_compat.dispatch import any_requires_grad, below_autograd
from .._torch_compat.flop_counter import register_flop_formula
from ..errors import ArgumentError, AutodiffError, NativeError


@dataclass(frozen=True, slots=True)
class LibraryStatus:
    """A native library and whether it could be loaded.

    Attributes:
        path: where it is, or would be.
        built: whether the file is there.
        loaded: whether its ops are in use.
        reason: why it is not loaded; empty if it is.
    """

    path: Path
    built: bool
    loaded: bool
    reason: str


def _load(name: str, version_op: str) -> LibraryStatus:
    folder = _env.library_dir() or Path(__file__).parent.parent
    path = Path(folder, f"{name}.abi3.so")
    if not path.exists():
        return LibraryStatus(path, False, False, f"it was not built ({path} is not there)")
    try:
        torch.ops.load_library(path)
        version = getattr(torch.ops.burnlike, version_op)()
    except (OSError, RuntimeError, AttributeError) as error:
        # torch's own message names the file only; the linker's says which symbol or library is missing.
        return LibraryStatus(path, True, False, f"it can't be loaded: {error.__cause__ or error}")
    # An older build beside newer code would be called with other arguments.
    if version != __version__:
        return LibraryStatus(path, True, False, f"it was built for version {version}, this is {__version__}")
    return LibraryStatus(path, True, True, "")


def _load_cuda() -> LibraryStatus:
    if not CPU.loaded or torch.version.cuda is None:
        path = CPU.path.with_name("_C_cuda.abi3.so")
        reason = CPU.reason or "this torch is for CPU only"
        return LibraryStatus(path, path.exists(), False, reason)
    return _load("_C_cuda", "cuda_library_version")


def _warn(library: LibraryStatus, what: str) -> None:
    has_wheel = "Install the wheel for this machine, or build with a C++ compiler:"
    remedy = "Wheels have no CUDA kernels; build them with nvcc:" if "CUDA" in what else has_wheel
    warnings.warn(
        f"burnlike runs {what} without native ops, which is slower: {library.reason}. "
        f"{remedy} `pip install --no-build-isolation .` in the sources; `burnlike doctor` shows what is native.",
        RuntimeWarning,
        stacklevel=2,
    )


CPU = _load("_C", "library_version")
CUDA = _load_cuda()

# The device types whose tensors take the plain-torch references, because their library is missing.
WITHOUT_NATIVE = set(([] if CPU.loaded else ["cpu", "meta"]) + ([] if CUDA.loaded else ["cuda"]))


def runs_on(capability: tuple[int, int], built: str) -> bool:
    """True if a GPU runs one of the forms that kernels were built in, each a word: `80`, `90a`, `100f`, `120+PTX`.

    Machine code runs where the major number is the same and the minor one no smaller, with `a` on that capability
    alone; portable code (`+PTX`) where the capability is no smaller, with `f` in its family only (CUDA C++ Programming
    Guide, section "Compute capabilities").
    """
    return any(_runs(capability, word) for word in built.split())


def _runs(capability: tuple[int, int], word: str) -> bool:
    parsed = re.fullmatch(r"(\d+)(\d)([af]?)(\+PTX)?", word)
    if parsed is None:
        return False
    of = int(parsed[1]), int(parsed[2])
    if parsed[3] == "a":
        return capability == of
    return capability >= of and (capability[0] == of[0] or (parsed[4] is not None and not parsed[3]))


def _check_gpus(built: str) -> None:
    """Go without CUDA kernels, with one warning, if they were built for none of the GPUs that this process sees.

    If they were built for some, a call on another one is an error that says so.
    """
    global CUDA  # the GPUs are known only once CUDA starts, which importing burnlike is not to do
    capabilities = [torch.cuda.get_device_capability(index) for index in range(torch.cuda.device_count())]
    if not capabilities or any(runs_on(capability, built) for capability in capabilities):
        return
    seen = ", ".join(sorted({f"{major}.{minor}" for major, minor in capabilities}))
    CUDA = replace(
        CUDA,
        loaded=False,
        reason=f"it was built for {built}, not for a GPU of compute capability {seen}: name it in TORCH_CUDA_ARCH_LIST",
    )
    WITHOUT_NATIVE.add("cuda")
    _warn(CUDA, "on CUDA")


if CUDA.loaded:
    when_cuda_starts(lambda: _check_gpus(torch.ops.burnlike.cuda_archs()))

if not CPU.loaded:
    _warn(CPU, "on every device")
elif not CUDA.loaded and torch.version.cuda is not None:
    # Asking now for GPUs would start CUDA's driver, and processes that are forked later could not use it.
    when_cuda_starts(lambda: _warn(CUDA, "on CUDA"))


def cpu_isa() -> str | None:
    """The instruction set of the CPU kernels in use; None without the library."""
    return torch.ops.burnlike.cpu_isa() if CPU.loaded else None


def choose_cpu_isa(name: str | None) -> None:
    """Use the CPU kernels of one instruction set, or the best for None.

    Raises:
        NativeError: this machine does not run it, or the native library is not loaded.
    """
    if not CPU.loaded:
        raise NativeError(f"no CPU kernels to choose from: the native library is not loaded, {CPU.reason}")
    available = torch.ops.burnlike.cpu_isas_available().split()
    if name is not None and name not in available:
        raise NativeError(f"expected one of {', '.join(available)}, which this machine runs, got {name!r}")
    torch.ops.burnlike.choose_cpu_isa(name or "")


if CPU.loaded and (_chosen := _env.cpu_isa()) is not None:
    try:
        choose_cpu_isa(_chosen)
    except NativeError as error:
        raise NativeError(f"BURNLIKE_CPU_ISA: {error}; unset it for the best one") from None


def op(name: str) -> Callable[..., Any]:
    """The native op, to be called with what its schema in csrc/cpu/<op>.cpp says."""
    if CPU.loaded:
        native = getattr(torch.ops.burnlike, name).default
        return native if name.endswith("_") else directly(name, native)

    def missing(*_: object) -> None:
        raise NativeError(f"burnlike::{name} has no kernel: the native library is not loaded, {CPU.reason}")

    return missing


def directly(name: str, native: Callable[..., Any]) -> Callable[..., Any]:
    """`native` without the general way in which torch's dispatcher finds a derivative that is written in Python.

    That way takes 3 us of each call, 6 us where a derivative is recorded, and as much in each backward pass: more than
    the kernels of few values. Compiled and traced code calls `native` itself.
    """

    def run(*arguments: Any) -> Any:
        if torch.compiler.is_compiling() or torch.jit.is_tracing():  # pyright: ignore[reportPrivateImportUsage]
            return native(*arguments)
        if torch.is_grad_enabled() and any_requires_grad(*arguments):
            return _RECORDED.get(name, native)(*arguments)
        with below_autograd():
            return native(*arguments)

    return run


_RECORDED: dict[str, Callable[..., Any]] = {}
"""By the name of an op, its call that records a derivative."""


def _recorded(name: str, backward: Callable[..., Any], setup_context: Callable[..., None] | None) -> Callable[..., Any]:
    """The op with its derivative, for `directly`."""
    native = getattr(torch.ops.burnlike, name).default

    def forward(ctx: Any, *arguments: Any) -> Any:
        with below_autograd():
            result = native(*arguments)
        if setup_context is not None:
            setup_context(ctx, arguments, result)
        return result

    functions = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    # Not Function's own `apply`, which looks for transforms of torch.func for a microsecond: `call` has done that.
    function: Any = super(torch.autograd.Function, type(name, (torch.autograd.Function,), functions))
    return function.apply


def fake(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorates the function that gives an op's outputs without data: shape, strides, dtype and device."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        # From here: torch looks for the file of the call in all modules, a millisecond for each file that is new to it.
        return torch.library.register_fake(f"burnlike::{name}", function) if CPU.loaded else function

    return register


# By the op's name, for libraries that have ops of the same schemas, as the tests have.
DERIVATIVES: dict[str, tuple[Callable[..., Any], Callable[..., None] | None]] = {}


def autograd(name: str, backward: Any, setup_context: Any = None, library: torch.library.Library | None = None) -> None:
    """Give an op its derivative; see `torch.library.register_autograd`. One of a `library` is there without kernels."""
    DERIVATIVES[name] = (backward, setup_context)
    backward = _explained(name, backward)
    if CPU.loaded or library is not None:
        torch.library.register_autograd(f"burnlike::{name}", backward, setup_context=setup_context, lib=library)
        _RECORDED[name] = _recorded(name, backward, setup_context)


def _explained(name: str, backward: Callable[..., Any]) -> Callable[..., Any]:
    """The backward pass with an error that names the op for a tensor that was written to before it."""

    def explained(ctx: Any, *grads: Any) -> Any:
        try:
            return backward(ctx, *grads)
        except RuntimeError as error:
            if "modified by an inplace operation" not in str(error):
                raise
            raise AutodiffError(
                f"{name}: a tensor that its gradient is computed from was written to in place after the call; make a"
                " new one (`x = x + y`, not `x += y`), or write to a clone"
            ) from error

    return explained


def flops(name: str) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Decorates the function that counts an op's operations for torch's `FlopCounterMode`, as for torch's own.

    It is called with the arguments, the shapes of tensors in their places.
    """

    def register(formula: Callable[..., int]) -> Callable[..., int]:
        if hasattr(torch.ops.burnlike, name):
            register_flop_formula(getattr(torch.ops.burnlike, name), formula)
        return formula

    return register


def refuse_lazy_negation(name: str) -> None:
    """Have an op that writes to lists of tensors refuse those that torch negates when they are read (`is_neg()`).

    Torch's own way, to negate them before and after, writes to some of a list and then fails.
    """

    def refuse(*arguments: object) -> None:
        raise ArgumentError(
            f"{name}: a tensor is negated lazily, as the imaginary part of a conjugate is; make it with .resolve_neg()"
        )

    if CPU.loaded:
        torch.library.impl(f"burnlike::{name}", "Negative")(refuse)


@dataclass(frozen=True, slots=True)
class NativeStatus:
    """The state of the native libraries.

    Attributes:
        version: of the loaded CPU library; None if it is not loaded.
        cpu: the library of schemas and CPU kernels.
        cuda: the library of CUDA kernels.
        isa: the instruction set in use (`default`, `avx2`, `avx512` or `avx512_bf16`); None if not loaded.
        isas: those that this machine runs, best last.
        calls: how often each op's native code has run in this process, as it counts itself; on CUDA as `cuda:<op>`.
    """

    version: str | None
    cpu: LibraryStatus
    cuda: LibraryStatus
    isa: str | None
    isas: tuple[str, ...]
    calls: Mapping[str, int]

    @property
    def built(self) -> bool:
        return self.cpu.built

    @property
    def loaded(self) -> bool:
        return self.cpu.loaded

    @property
    def path(self) -> Path:
        return self.cpu.path


def native_status() -> NativeStatus:
    """Say what is native, which CPU kernels are in use, and how often each has run.

    >>> before = native_status().calls.get("rms_norm", 0)
    >>> from burnlike.ops import rms_norm
    >>> _ = rms_norm(torch.ones(2, 8), torch.ones(8))
    >>> native_status().calls["rms_norm"] - before
    1
    """
    if not CPU.loaded:
        return NativeStatus(None, CPU, CUDA, None, (), {})
    ops = torch.ops.burnlike
    calls = _counts(ops.call_counts())
    if CUDA.loaded:
        calls |= {f"cuda:{name}": count for name, count in _counts(ops.cuda_call_counts()).items()}
    isas = tuple(ops.cpu_isas_available().split())
    return NativeStatus(ops.library_version(), CPU, CUDA, ops.cpu_isa(), isas, calls)


def _counts(text: str) -> dict[str, int]:
    pairs = (pair.split("=") for pair in text.split())
    return {name: int(count) for name, count in sorted(pairs)}


@contextmanager
def force_cpu_isa(name: str | None) -> Iterator[None]:
    """Use the CPU kernels of one instruction set within a `with` block, in all threads; as `choose_cpu_isa`."""
    before = native_status().isa
    choose_cpu_isa(name)
    try:
        yield
    finally:
        choose_cpu_isa(before)
