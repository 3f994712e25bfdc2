"""Slices, selections, gather and scatter, masks."""

from typing import Protocol

from torch import Tensor

Scalar = float | int
Ranges = tuple[slice, ...]


class IndexOps(Protocol):
    """Indexing and masks, of Float, Int and Bool tensors.

    A `Ranges` has one slice per leading dimension, with bounds as in Python and a positive step; `backwards` names
    the dimensions that are walked from their last element. Indices are not negative.
    """

    @staticmethod
    def slice(tensor: Tensor, ranges: Ranges, backwards: list[int], /) -> Tensor:
        """The region, `[n_0, n_1, ..]`."""
        ...

    @staticmethod
    def slice_assign(tensor: Tensor, ranges: Ranges, backwards: list[int], values: Tensor, /) -> Tensor:
        """A copy with `values`, of the region's shape, in the region."""
        ...

    @staticmethod
    def slice_fill(tensor: Tensor, ranges: Ranges, value: Scalar, /) -> Tensor:
        """A copy with `value` in the region."""
        ...

    @staticmethod
    def narrow(tensor: Tensor, dim: int, start: int, length: int, /) -> Tensor:
        """`length` elements along `dim`, from `start` on."""
        ...

    @staticmethod
    def select(tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor:
        """The rows `indices`, `[n]`, along `dim`."""
        ...

    @staticmethod
    def select_dim(tensor: Tensor, dim: int, index: int, /) -> Tensor:
        """One row along `dim`, without that dimension."""
        ...

    @staticmethod
    def take(tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor:
        """The rows `indices` of any shape; that shape takes the place of `dim`."""
        ...

    @staticmethod
    def gather(tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor:
        """Elements along `dim`, in the shape of `indices`."""
        ...

    @staticmethod
    def select_assign(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        """A copy, rows `indices` (`[n]`) updated by those of `values`: Assign, Add, Mul, Min, Max; Add is or on Bool."""
        ...

    @staticmethod
    def scatter(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        """A copy with elements along `dim` updated; `values` has the shape of `indices`. Updates as `select_assign`."""
        ...

    @staticmethod
    def mask_where(tensor: Tensor, mask: Tensor, values: Tensor, /) -> Tensor:
        """`values` where the mask is set, else `tensor`; the three broadcast."""
        ...

    @staticmethod
    def mask_fill(tensor: Tensor, mask: Tensor, value: Scalar, /) -> Tensor:
        """`value` where the mask is set, else `tensor`; the two broadcast."""
        ...

    @staticmethod
    def mask_select(tensor: Tensor, mask: Tensor, /) -> Tensor:
        """`[n]`: the elements where the mask, of the same shape, is set, row by row."""
        ...


class NumericIndexOps(Protocol):
    """Indexing of Float and Int tensors only."""

    @staticmethod
    def gather_nd(tensor: Tensor, indices: Tensor, /) -> Tensor:
        """`[.., k]` indices of the first k dimensions -> `[.., rest]`; a negative one is an error."""
        ...

    @staticmethod
    def scatter_nd(tensor: Tensor, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        """A copy, updated where `gather_nd` would read; `values` has the shape of its result."""
        ...

    @staticmethod
    def one_hot(tensor: Tensor, classes: int, on: Scalar, off: Scalar, dim: int, /) -> Tensor:
        """`on` at the class that an element names, else `off`, in a new dimension; negative ones count back."""
        ...

    @staticmethod
    def bounds(tensor: Tensor, /) -> tuple[float, float]:
        """The smallest and the largest element on the host; NaN if there is one. Not of an empty tensor."""
        ...
