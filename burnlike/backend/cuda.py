"""The CUDA backend."""

import dataclasses
from typing import Any

import torch

from .torch_backend import TorchBackend


@dataclasses.dataclass(frozen=True, init=False, repr=False)
class Cuda(TorchBackend):
    """torch on one CUDA device. Work is queued and runs asynchronously; `sync()` waits for it."""

    def __init__(self, index: int = 0, float: torch.dtype = torch.float32, int: torch.dtype = torch.int64) -> None:
        """Choose the device and the element types.

        Args:
            index: which device, 0 for the first.
            float: of new Float tensors.
            int: of new Int tensors, indices among them.
        """
        super().__init__(torch.device("cuda", index), float, int)

    def __repr__(self) -> str:
        return f"Cuda({self.device.index}, float={self.float_dtype}, int={self.int_dtype})"

    def __reduce__(self) -> tuple[Any, ...]:
        return Cuda, (self.device.index, self.float_dtype, self.int_dtype)

    def sync(self) -> None:
        """Wait until everything queued on the device has run.

        Raises:
            RuntimeError: torch's, if a queued kernel failed.
        """
        torch.cuda.synchronize(self.device)
