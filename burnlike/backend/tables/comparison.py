"""Comparisons, reductions to Bool, and logic."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from .arithmetic import Scalar


class ComparisonOps(Protocol):
    """Equality and reductions to Bool, of Float, Int and Bool tensors. Sizes of operands are equal or 1."""

    def equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs == rhs, as Bool."""

    def not_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs != rhs, as Bool."""

    def any(self, tensor: Tensor, /) -> Tensor:
        """`[1]`: whether an element is not zero; NaN is not zero."""

    def any_dim(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Whether an element along `dim` is not zero; the dimension keeps size 1."""

    def all(self, tensor: Tensor, /) -> Tensor:
        """`[1]`: whether no element is zero."""

    def all_dim(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Whether no element along `dim` is zero; the dimension keeps size 1."""


class InequalityOps(Protocol):
    """Comparisons by order, of Float and Int tensors. Sizes of operands are equal or 1."""

    def greater(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs > rhs, as Bool."""

    def greater_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs >= rhs, as Bool."""

    def lower(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs < rhs, as Bool."""

    def lower_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs <= rhs, as Bool."""


class LogicOps(Protocol):
    """Functions of Bool tensors only. Sizes of operands are equal or 1."""

    def bool_not(self, tensor: Tensor, /) -> Tensor:
        """Not."""

    def bool_and(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor:
        """Both."""

    def bool_or(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor:
        """At least one."""

    def bool_xor(self, lhs: Tensor, rhs: Tensor | bool, /) -> Tensor:
        """Exactly one."""

    def argwhere(self, tensor: Tensor, dtype: torch.dtype, /) -> Tensor:
        """`[n, rank]`: the coordinates of what is set, row by row, as `dtype`."""

    def nonzero(self, tensor: Tensor, dtype: torch.dtype, /) -> list[Tensor]:
        """`[n]` per dimension: the coordinates of what is set, as `dtype`; no tensors where nothing is."""

    def triu_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        """`[1, .., rows, columns]`, set below the diagonal `offset`."""

    def tril_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        """`[1, .., rows, columns]`, set above the diagonal `offset`."""

    def diag_mask(self, shape: Sequence[int], offset: int, device: torch.device, /) -> Tensor:
        """`[1, .., rows, columns]`, set but on the diagonal `offset`."""
