"""Comparisons, and reductions to Bool."""

from typing import Protocol

from torch import Tensor

Scalar = float | int


class ComparisonOps(Protocol):
    """Equality and reductions to Bool, of Float, Int and Bool tensors. Sizes of operands are equal or 1."""

    @staticmethod
    def equal(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs == rhs, as Bool."""
        ...

    @staticmethod
    def not_equal(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs != rhs, as Bool."""
        ...

    @staticmethod
    def any(tensor: Tensor, /) -> Tensor:
        """`[1]`: whether an element is not zero; NaN is not zero."""
        ...

    @staticmethod
    def any_dim(tensor: Tensor, dim: int, /) -> Tensor:
        """Whether an element along `dim` is not zero; the dimension keeps size 1."""
        ...

    @staticmethod
    def all(tensor: Tensor, /) -> Tensor:
        """`[1]`: whether no element is zero."""
        ...

    @staticmethod
    def all_dim(tensor: Tensor, dim: int, /) -> Tensor:
        """Whether no element along `dim` is zero; the dimension keeps size 1."""
        ...


class InequalityOps(Protocol):
    """Comparisons by order, of Float and Int tensors. Sizes of operands are equal or 1."""

    @staticmethod
    def greater(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs > rhs, as Bool."""
        ...

    @staticmethod
    def greater_equal(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs >= rhs, as Bool."""
        ...

    @staticmethod
    def lower(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs < rhs, as Bool."""
        ...

    @staticmethod
    def lower_equal(lhs: Tensor, rhs: Tensor | Scalar, /) -> Tensor:
        """lhs <= rhs, as Bool."""
        ...
