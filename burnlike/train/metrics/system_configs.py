"""Configs of what a training takes of a machine."""

from typing import TYPE_CHECKING

from ...config import MetricConfig

if TYPE_CHECKING:
    from .system import CpuMemory, CpuUse, CudaMemory, CudaUse, IterationSpeed


class IterationSpeedConfig(MetricConfig, tag="IterationSpeed"):
    """Batches per second."""

    higher_is_better = True

    def init(self) -> "IterationSpeed":
        from .system import IterationSpeed

        return IterationSpeed(self)


class CpuUseConfig(MetricConfig, tag="CpuUse"):
    """How busy the machine's CPUs are."""

    higher_is_better = False

    def init(self) -> "CpuUse":
        from .system import CpuUse

        return CpuUse(self)


class CpuMemoryConfig(MetricConfig, tag="CpuMemory"):
    """The most memory of the machine that was in use."""

    higher_is_better = False

    def init(self) -> "CpuMemory":
        from .system import CpuMemory

        return CpuMemory(self)


class CudaUseConfig(MetricConfig, tag="CudaUse"):
    """How busy the current CUDA device is; NaN without one, or without the package nvidia-ml-py."""

    higher_is_better = False

    def init(self) -> "CudaUse":
        from .system import CudaUse

        return CudaUse(self)


class CudaMemoryConfig(MetricConfig, tag="CudaMemory"):
    """The most memory of the current CUDA device that was in use; NaN without one."""

    higher_is_better = False

    def init(self) -> "CudaMemory":
        from .system import CudaMemory

        return CudaMemory(self)
