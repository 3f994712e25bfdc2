"""Comparisons, and reductions to Bool."""

from typing import Protocol

from torch import Tensor

Scalar = float | int


class ComparisonOps(Protocol):
    """Equality and reductions to Bool, of Float, Int and Bool tensors. Sizes of operands are equal or 1."""

    def equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs == rhs, as Bool."""
        ...

    def not_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs != rhs, as Bool."""
        ...

    def any(self, tensor: Tensor, /) -> Tensor:
        """`[1]`: whether an element is not zero; NaN is not zero."""
        ...

    def any_dim(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Whether an element along `dim` is not zero; the dimension keeps size 1."""
        ...

    def all(self, tensor: Tensor, /) -> Tensor:
        """`[1]`: whether no element is zero."""
        ...

    def all_dim(self, tensor: Tensor, dim: int, /) -> Tensor:
        """Whether no element along `dim` is zero; the dimension keeps size 1."""
        ...


class InequalityOps(Protocol):
    """Comparisons by order, of Float and Int tensors. Sizes of operands are equal or 1."""

    def greater(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs > rhs, as Bool."""
        ...

    def greater_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs >= rhs, as Bool."""
        ...

    def lower(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs < rhs, as Bool."""
        ...

    def lower_equal(self, lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs <= rhs, as Bool."""
        ...
