"""Functions of every kind: other element types, and the truth of one element."""

from typing import Protocol

import torch
from torch import Tensor


class ConversionOps(Protocol):
    """Other element types, of Float, Int and Bool tensors."""

    def cast(self, tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        """The values in another element type: Float to Int truncates, to Bool is x != 0."""
        ...

    def truth(self, tensor: Tensor, /) -> bool:
        """Whether the only element is not 0, on the host."""
        ...
