"""What a training takes of the machine. These metrics take any predictions and targets, and look at neither."""

import time
import warnings
from typing import Any

import psutil
import torch
from torch import Tensor

from ...config import MetricConfig
from .base import EpochMetric
from .configs import CpuMemoryConfig, CpuUseConfig, CudaMemoryConfig, CudaUseConfig, IterationSpeedConfig

_INTERVAL_S = 0.2
_GB = 1e9


class _Timed(EpochMetric):
    """total / seconds over the time between the first and the last update of each epoch."""

    compares = False
    title = ""
    total: Tensor
    seconds: Tensor

    def __init__(self, config: MetricConfig | None = None) -> None:
        super().__init__((config.name if config else None) or self.title)
        self.add_sum("total")
        self.add_sum("seconds")
        self._last: float | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_last": None}  # the clock of another process begins elsewhere

    def reset(self) -> None:
        super().reset()
        self._last = None

    def compute(self) -> Tensor:
        return self.total / self.seconds

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

    def add(self, value: float, seconds: float) -> None:
        self.total = self.total + value
        self.seconds = self.seconds + seconds


class IterationSpeed(_Timed):
    """Batches per second, from the end of the first batch on; over several ranks the mean."""

    title = "Iteration Speed"
    unit = "iter/sec"
    higher_is_better = IterationSpeedConfig.higher_is_better

    def update(self, *_: Any) -> None:
        if seconds := self.passed():
            self.add(1, seconds)


class CpuUse(_Timed):
    """How busy the CPUs of the machine are, in percent of all: the mean over the time since the first update."""

    title = "CPU Usage"
    unit = "%"
    higher_is_better = CpuUseConfig.higher_is_better

    def update(self, *_: Any) -> None:
        """Look at the CPUs, at most every 0.2 seconds."""
        if self._last is None:
            psutil.cpu_percent()  # the next call gives the mean since this one
        if seconds := self.passed(least=_INTERVAL_S):
            self.add(psutil.cpu_percent() * seconds, seconds)


class CudaUse(_Timed):
    """How busy the current CUDA device is, in percent: the mean of looks every 0.2 seconds.

    NaN without a device, or without the package nvidia-ml-py; a warning says which.
    """

    title = "CUDA Usage"
    unit = "%"
    higher_is_better = CudaUseConfig.higher_is_better

    def __init__(self, config: CudaUseConfig | None = None) -> None:
        super().__init__(config)
        self.available = _has_cuda(self) and _has_nvml(self)

    def update(self, *_: Any) -> None:
        if self.available and (seconds := self.passed(least=_INTERVAL_S)):
            self.add(torch.cuda.utilization() * seconds, seconds)


class _Peak(EpochMetric):
    """The highest of the values of all updates and ranks, in GB (1e9 bytes)."""

    compares = False
    title = ""
    unit = "Gb"
    higher_is_better = CpuMemoryConfig.higher_is_better
    highest: Tensor

    def __init__(self, config: MetricConfig | None = None) -> None:
        super().__init__((config.name if config else None) or self.title)
        self.add_state("highest", torch.full((), -torch.inf, dtype=torch.float64), dist_reduce_fx="max")

    def compute(self) -> Tensor:
        return torch.where(self.highest.isinf(), torch.nan, self.highest)

    def add(self, value: float) -> None:
        self.highest = self.highest.clamp(min=value)


class CpuMemory(_Peak):
    """The most memory of the machine that was in use, by all programs."""

    title = "CPU Memory"

    def update(self, *_: Any) -> None:
        memory = psutil.virtual_memory()
        self.add((memory.total - memory.available) / _GB)


class CudaMemory(_Peak):
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
        warnings.warn(
            f"{type(metric).__name__}: the driver can't be asked, by the package nvidia-ml-py ({error});"
            " its value is NaN",
            stacklevel=3,
        )
        return False
    return True
