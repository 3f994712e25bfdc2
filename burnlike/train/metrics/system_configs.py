"""Configs of what a training takes of a machine."""

from typing import TYPE_CHECKING

from ...config import MetricConfig

if TYPE_CHECKING:
    from .system import CpuMemory, CpuUse, CudaMemory, CudaUse, IterationSpeed


class IterationSpeedConfig(MetricConfig["IterationSpeed"], tag="IterationSpeed", builds=".system"):
    """Batches per second."""

    higher_is_better = True


class CpuUseConfig(MetricConfig["CpuUse"], tag="CpuUse", builds=".system"):
    """How busy the machine's CPUs are."""

    higher_is_better = False


class CpuMemoryConfig(MetricConfig["CpuMemory"], tag="CpuMemory", builds=".system"):
    """The most memory of the machine that was in use."""

    higher_is_better = False


class CudaUseConfig(MetricConfig["CudaUse"], tag="CudaUse", builds=".system"):
    """How busy the current CUDA device is; NaN without one, or without the package nvidia-ml-py."""

    higher_is_better = False


class CudaMemoryConfig(MetricConfig["CudaMemory"], tag="CudaMemory", builds=".system"):
    """The most memory of the current CUDA device that was in use; NaN without one."""

    higher_is_better = False
