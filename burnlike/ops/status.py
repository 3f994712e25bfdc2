"""What of the ops is native here, and proof that it ran."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch

from . import _library
from ._library import Library as LibraryStatus, choose_cpu_isa


@dataclass(frozen=True, slots=True)
class NativeStatus:
    """The state of the native libraries.

    Attributes:
        version: of the loaded CPU library; None if it is not loaded.
        cpu: the library of schemas and CPU kernels.
        cuda: the library of CUDA kernels.
        isa: the instruction set in use (`default`, `avx2` or `avx512`); None if not loaded.
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
        """Whether the CPU library's file is there."""
        return self.cpu.built

    @property
    def loaded(self) -> bool:
        """Whether the CPU library's ops are in use."""
        return self.cpu.loaded

    @property
    def path(self) -> Path:
        """Where the CPU library is, or would be."""
        return self.cpu.path


def native_status() -> NativeStatus:
    """Say what is native, which CPU kernels are in use, and how often each has run.

    >>> before = native_status().calls.get("rms_norm", 0)
    >>> from burnlike.ops import rms_norm
    >>> _ = rms_norm(torch.ones(2, 8), torch.ones(8))
    >>> native_status().calls["rms_norm"] - before
    1
    """
    cpu, cuda = _library.CPU, _library.CUDA
    if not cpu.loaded:
        return NativeStatus(None, cpu, cuda, None, (), {})
    ops = torch.ops.burnlike
    calls = _counts(ops.call_counts())
    if cuda.loaded:
        calls |= {f"cuda:{name}": count for name, count in _counts(ops.cuda_call_counts()).items()}
    isas = tuple(ops.cpu_isas_available().split())
    return NativeStatus(ops.library_version(), cpu, cuda, ops.cpu_isa(), isas, calls)


def _counts(text: str) -> dict[str, int]:
    pairs = (pair.split("=") for pair in text.split())
    return {name: int(count) for name, count in sorted(pairs)}


@contextmanager
def force_cpu_isa(name: str | None) -> Iterator[None]:
    """Use the CPU kernels of one instruction set within a `with` block, in all threads; None is the best one.

    Raises:
        NativeError: this machine does not run it, or the native library is not loaded.
    """
    before = native_status().isa
    choose_cpu_isa(name)
    try:
        yield
    finally:
        choose_cpu_isa(before)
