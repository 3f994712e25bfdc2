"""Metrics of the machine that trains. They take any predictions and targets, and look at neither."""

import time
import warnings
from typing import Any

import psutil
import torch
from torch import Tensor

from .base import Chosen, ConfiguredMetric, EpochMetric, MeanMetric
from .configs import CpuMemoryConfig, CpuUseConfig, CudaMemoryConfig, CudaUseConfig, IterationSpeedConfig

_INTERVAL_S = 0.2
_GB = 1e9


class _Timed(MeanMetric[Chosen]):
    """total / seconds over the time between the first and the last update of each epoch."""

    compares = False
    _last: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_last": None}  # the clock of another process begins elsewhere

    def reset(self) -> None:
        super().reset()
        self._last = None

    def passed(self, least: float = 0.0) -> float:
        """Seconds since the last time that gave any; 0 at first, and if there are fewer than `least`."""
        now = time.perf_counter()
        if self._last is None:
            self._last = now
        seconds = now - self._last
        if seconds < least:
            return 0.0
        self._last = now
        return seconds


class IterationSpeed(_Timed[IterationSpeedConfig], of=IterationSpeedConfig):
    """Batches per second, from the end of the first batch on; over several ranks the mean."""

    title, unit = "Iteration Speed", "iter/sec"

    def update(self, *_: Any) -> None:
        if seconds := self.passed():
            self.add(1, seconds)


class CpuUse(_Timed[CpuUseConfig], of=CpuUseConfig):
    """How busy the CPUs of the machine are, in percent of all: the mean over the time since the first update."""

    title, unit = "CPU Usage", "%"

    def update(self, *_: Any) -> None:
        """Look at the CPUs, at most every 0.2 seconds."""
        if self._last is None:
            psutil.cpu_percent()  # the next call gives the mean since this one
        if seconds := self.passed(least=_INTERVAL_S):
            self.add(psutil.cpu_percent() * seconds, seconds)


class CudaUse(_Timed[CudaUseConfig], of=CudaUseConfig):
    """How busy the current CUDA device is, in percent: the mean of looks every 0.2 seconds.

    NaN without a device, or without the package nvidia-ml-py; a warning says which.
    """

    title, unit = "CUDA Usage", "%"

    def __init__(self, config: CudaUseConfig | None = None) -> None:
        super().__init__(config)
        self.available = _has_cuda(self) and _has_nvml(self)

    def update(self, *_: Any) -> None:
        if self.available and (seconds := self.passed(least=_INTERVAL_S)):
            self.add(torch.cuda.utilization() * seconds, seconds)


class _Peak(ConfiguredMetric[Chosen]):
    """The highest of the values of all updates and ranks, in GB (1e9 bytes)."""

    compares = False
    unit = "Gb"
    highest: Tensor

    def __init__(self, config: Chosen | None = None) -> None:
        super().__init__(config)
        self.add_state("highest", torch.full((), -torch.inf, dtype=torch.float64), dist_reduce_fx="max")

    def compute(self) -> Tensor:
        return torch.where(self.highest.isinf(), torch.nan, self.highest)

    def add(self, value: float) -> None:
        self.highest = self.highest.clamp(min=value)


class CpuMemory(_Peak[CpuMemoryConfig], of=CpuMemoryConfig):
    """The most memory of the machine that was in use, by all programs."""

    title = "CPU Memory"

    def update(self, *_: Any) -> None:
        memory = psutil.virtual_memory()
        self.add((memory.total - memory.available) / _GB)


class CudaMemory(_Peak[CudaMemoryConfig], of=CudaMemoryConfig):
    """The most memory of the current CUDA device that was in use, by all programs. NaN without a device."""

    title = "CUDA Memory"

    def __init__(self, config: CudaMemoryConfig | None = None) -> None:
        super().__init__(config)
        self.available = _has_cuda(self)

    def update(self, *_: Any) -> None:
        if self.available:
            free, total = torch.cuda.mem_get_info()
            self.add((total - free) / _GB)


def _has_cuda(metric: EpochMetric) -> bool:
    if not torch.cuda.is_available():
        warnings.warn(f"{type(metric).__name__}: there is no CUDA device; its value is NaN", stacklevel=3)
        return False
    return True


def _has_nvml(metric: EpochMetric) -> bool:
    try:
        torch.cuda.utilization()
    except (ModuleNotFoundError, RuntimeError) as error:
        why = f"the driver can't be asked, by the package nvidia-ml-py ({error}); its value is NaN"
        warnings.warn(f"{type(metric).__name__}: {why}", stacklevel=3)
        return False
    return True
