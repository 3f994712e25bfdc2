"""Logic, positions of what is set, triangular masks."""

from typing import Protocol

import torch
from torch import Tensor


class LogicOps(Protocol):
    """Functions of Bool tensors only. Sizes of operands are equal or 1."""

    @staticmethod
    def bool_not(tensor: Tensor, /) -> Tensor:
        """Not."""
        ...

    @staticmethod
    def bool_and(lhs: Tensor, rhs: Tensor | bool, /) -> Tensor:
        """Both."""
        ...

    @staticmethod
    def bool_or(lhs: Tensor, rhs: Tensor | bool, /) -> Tensor:
        """At least one."""
        ...

    @staticmethod
    def bool_xor(lhs: Tensor, rhs: Tensor | bool, /) -> Tensor:
        """Exactly one."""
        ...

    @staticmethod
    def argwhere(tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        """`[n, rank]`: the coordinates of what is set, row by row, as `dtype`."""
        ...

    @staticmethod
    def nonzero(tensor: Tensor, dtype: torch.dtype, /) -> list[Tensor]:
        """`[n]` per dimension: the coordinates of what is set, as `dtype`; no tensors where nothing is."""
        ...

    @staticmethod
    def triu_mask(rows: int, columns: int, offset: int, device: torch.device, /) -> Tensor:
        """`[rows, columns]`, set below the diagonal `offset`."""
        ...

    @staticmethod
    def tril_mask(rows: int, columns: int, offset: int, device: torch.device, /) -> Tensor:
        """`[rows, columns]`, set above the diagonal `offset`."""
        ...

    @staticmethod
    def diag_mask(rows: int, columns: int, offset: int, device: torch.device, /) -> Tensor:
        """`[rows, columns]`, set but on the diagonal `offset`."""
        ...
