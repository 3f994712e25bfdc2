"""Logic, positions of what is set, triangular masks."""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class LogicOps(Protocol):
    """Functions of Bool tensors only. Sizes of operands are equal or 1."""

    def bool_not(self, tensor: Tensor, /) -> Tensor:
        """Not."""
        ...

    def bool_and(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor:
        """Both."""
        ...

    def bool_or(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor:
        """At least one."""
        ...

    def bool_xor(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor:
        """Exactly one."""
        ...

    def argwhere(self, tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        """`[n, rank]`: the coordinates of what is set, row by row, as `dtype`."""
        ...

    def nonzero(self, tensor: Tensor, dtype: torch.dtype, /) -> list[Tensor]:
        """`[n]` per dimension: the coordinates of what is set, as `dtype`; no tensors where nothing is."""
        ...

    def triu_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        """`[1, .., rows, columns]`, set below the diagonal `offset`."""
        ...

    def tril_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        """`[1, .., rows, columns]`, set above the diagonal `offset`."""
        ...

    def diag_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        """`[1, .., rows, columns]`, set but on the diagonal `offset`."""
        ...
