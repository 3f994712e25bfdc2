"""Slices, selections, gather and scatter, masks."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from .arithmetic import Scalar

Ranges = tuple[slice, ...]


class IndexOps(Protocol):
    """Indexing and masks, of Float, Int and Bool tensors.

    A `Ranges` has one slice per leading dimension, with bounds as in Python and a positive step; `backwards` names
    the dimensions that are walked from their last element. Indices are not negative.
    """

    def slice(self, tensor: Tensor, ranges: Ranges, backwards: Sequence[int], /) -> Tensor:
        """The region, `[n_0, n_1, ..]`."""

    def slice_assign(self, tensor: Tensor, ranges: Ranges, backwards: Sequence[int], values: Tensor, /) -> Tensor:
        """A copy with `values`, of the region's shape, in the region."""

    def slice_fill(self, tensor: Tensor, ranges: Ranges, value: Scalar, /) -> Tensor:
        """A copy with `value` in the region."""

    def narrow(self, tensor: Tensor, dim: int, start: int, length: int, /) -> Tensor:
        """`length` elements along `dim`, from `start` on."""

    def select(self, tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor:
        """The rows `indices`, `[n]`, along `dim`."""

    def select_dim(self, tensor: Tensor, dim: int, index: int, /) -> Tensor:
        """One row along `dim`, without that dimension."""

    def take(self, tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor:
        """The rows `indices` of any shape; that shape takes the place of `dim`."""

    def gather(self, tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor:
        """Elements along `dim`, in the shape of `indices`."""

    def select_assign(self, tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        """A copy, rows `indices` (`[n]`) updated by `values`: Assign, Add, Mul, Min or Max; Add is or on Bool."""

    def scatter(self, tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        """A copy with elements along `dim` updated; `values` has the shape of `indices`. Updates as `select_assign`."""

    def mask_where(self, tensor: Tensor, mask: Tensor, values: Tensor, /) -> Tensor:
        """`values` where the mask is set, else `tensor`; the three broadcast."""

    def mask_fill(self, tensor: Tensor, mask: Tensor, value: Scalar, /) -> Tensor:
        """`value` where the mask is set, else `tensor`; the two broadcast."""

    def mask_select(self, tensor: Tensor, mask: Tensor, /) -> Tensor:
        """`[n]`: the elements where the mask, of the same shape, is set, row by row."""


class NumericIndexOps(Protocol):
    """Indexing of Float and Int tensors only."""

    def gather_nd(self, tensor: Tensor, indices: Tensor, /) -> Tensor:
        """`[.., k]` indices of the first k dimensions -> `[.., rest]`; a negative one is an error."""

    def scatter_nd(self, tensor: Tensor, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        """A copy, updated where `gather_nd` would read; `values` has the shape of its result."""

    def one_hot(self, tensor: Tensor, classes: int, on: Scalar, off: Scalar, dim: int, /) -> Tensor:
        """`on` at the class that an element names, else `off`, in a new dimension; negative ones count back."""

    def bounds(self, tensor: Tensor, /) -> tuple[float, float]:
        """The smallest and the largest element on the host; NaN if there is one. Not of an empty tensor."""
