"""The CPU backend."""

import dataclasses

import torch

from ..errors import BackendError
from .protocol import Backend
from .torch_backend import TorchBackend


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Cpu(TorchBackend):
    """torch on the CPU. Never tracks; `Autodiff(Cpu())` does.

    Example:
        >>> from burnlike.backend import Cpu
        >>> Cpu().float_dtype
        torch.float32
    """

    def __init__(self, float: torch.dtype = torch.float32, int: torch.dtype = torch.int64) -> None:
        """Choose the element types.

        Args:
            float: of new Float tensors.
            int: of new Int tensors, indices among them.
        """
        super().__init__(torch.device("cpu"), float, int)

    def __repr__(self) -> str:
        return f"Cpu(float={self.float_dtype}, int={self.int_dtype})"

    def __reduce__(self) -> tuple[type["Cpu"], tuple[torch.dtype, torch.dtype]]:
        return Cpu, (self.float_dtype, self.int_dtype)

    def sync(self) -> None:
        """Nothing to wait for: work on the CPU is done when a function returns."""


def backend_for(device: torch.device) -> Backend:
    """The backend with the usual element types for a torch device.

    Raises:
        BackendError: there is none for devices of this type.
    """
    if device.type == "cpu":
        return Cpu()
    if device.type == "cuda":
        from .cuda import Cuda

        return Cuda(device.index or 0)
    raise BackendError(f"no backend for device '{device}'; Cpu and Cuda exist, others implement burnlike.Backend")
