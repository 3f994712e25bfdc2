"""Metrics of the training and of its machine, which torchmetrics has not; most look at no predictions and targets."""

import time
import warnings
from collections.abc import Callable
from typing import Any

import psutil
import torch
from torch import Tensor

from ...errors import ShapeError
from . import configs
from .base import ConfiguredMetric, MeanMetric

_INTERVAL_S = 0.2
_GB = 1e9


class Loss(MeanMetric, of=configs.LossConfig, title="Loss"):
    """The mean loss of all items."""

    def update(self, loss: Tensor, size: int | None = None) -> None:
        """Take the losses of the items of a batch, `[n]`, or their mean and the number of items; else a ShapeError."""
        expected = "the losses of items, [n], or their mean, [], and how many there are"
        if not isinstance(loss, Tensor):
            raise ShapeError(f"Loss: expected {expected}, got {type(loss).__name__}")
        if loss.dim() > 1 or (loss.dim() == 1) != (size is None) or isinstance(size, Tensor):
            got = list(size.shape) if isinstance(size, Tensor) else size
            raise ShapeError(f"Loss: expected {expected}, got a loss of {list(loss.shape)} and a size of {got}")
        if size != 0:  # the mean of no items is NaN, which would stay
            self.follow(loss)
            weight = 1 if size is None else size
            self.add(loss.sum(dtype=torch.float64) * weight, loss.numel() * weight)


class LearningRate(MeanMetric, of=configs.LearningRateConfig, title="Learning Rate"):
    """The mean learning rate of the steps. Takes the rate of one step: a number, or a scalar tensor."""

    def update(self, rate: Any, *_: Any) -> None:
        value = rate if isinstance(rate, Tensor) else torch.tensor(float(rate), dtype=torch.float64)
        if value.numel() != 1:
            raise ShapeError(f"LearningRate: expected the rate of a step, a number, got {list(value.shape)}")
        self.follow(value)
        self.add(value.sum(dtype=torch.float64), 1)


class _Timed(MeanMetric):
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


class IterationSpeed(_Timed, of=configs.IterationSpeedConfig, title="Iteration Speed", unit="iter/sec"):
    """Batches per second, from the end of the first batch on; over several ranks the mean."""

    def update(self, *_: Any) -> None:
        if seconds := self.passed():
            self.add(1, seconds)


class CpuUse(_Timed, of=configs.CpuUseConfig, title="CPU Usage", unit="%"):
    """The use of the machine's CPUs, in percent of all: the mean over the time since the first update."""

    def update(self, *_: Any) -> None:
        """Look at the CPUs, at most every 0.2 seconds."""
        if self._last is None:
            psutil.cpu_percent()  # the next call gives the mean since this one
        if seconds := self.passed(least=_INTERVAL_S):
            self.add(psutil.cpu_percent() * seconds, seconds)


class CudaUse(_Timed, of=configs.CudaUseConfig, title="CUDA Usage", unit="%"):
    """The use of the current CUDA device, in percent: the mean of looks every 0.2 seconds.

    NaN without a device, or without the package nvidia-ml-py; a warning says which.
    """

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.available = False
        try:
            if _has_cuda(self):
                torch.cuda.utilization()
                self.available = True
        except (ModuleNotFoundError, RuntimeError) as error:
            why = f"the driver can't be asked, by the package nvidia-ml-py ({error}); its value is NaN"
            warnings.warn(f"CudaUse: {why}", stacklevel=2)

    def update(self, *_: Any) -> None:
        if self.available and (seconds := self.passed(least=_INTERVAL_S)):
            self.add(torch.cuda.utilization() * seconds, seconds)


class _Peak(ConfiguredMetric, unit="Gb"):
    """The highest of the values of all updates and ranks, in GB (1e9 bytes); `look` gives free and all bytes."""

    compares = False
    available = True
    look: Callable[[], tuple[int, int]]
    highest: Tensor

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.add_state("highest", torch.full((), -torch.inf, dtype=torch.float64), dist_reduce_fx="max")

    def update(self, *_: Any) -> None:
        if self.available:
            free, total = self.look()
            self.highest = self.highest.clamp(min=(total - free) / _GB)

    def compute(self) -> Tensor:
        return torch.where(self.highest.isinf(), torch.nan, self.highest)


def _host_memory() -> tuple[int, int]:
    memory = psutil.virtual_memory()
    return memory.available, memory.total


class CpuMemory(_Peak, of=configs.CpuMemoryConfig, title="CPU Memory", look=_host_memory):
    """The most memory of the machine that was in use, by all programs."""


class CudaMemory(_Peak, of=configs.CudaMemoryConfig, title="CUDA Memory", look=lambda: torch.cuda.mem_get_info()):
    """The most memory of the current CUDA device that was in use, by all programs. NaN without a device."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.available = _has_cuda(self)


def _has_cuda(metric: object) -> bool:
    if not torch.cuda.is_available():
        warnings.warn(f"{type(metric).__name__}: there is no CUDA device; its value is NaN", stacklevel=3)
    return torch.cuda.is_available()
