"""Shapes, joining, padding and triangles; slices, selections, gather and scatter, masks."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from .arithmetic import Scalar


class ShapeOps(Protocol):
    """Other shapes of the same elements, joining and splitting, of Float, Int and Bool tensors.

    A dimension may be negative; one that does not exist makes the function raise.
    """

    def reshape(self, tensor: Tensor, shape: Sequence[int], /) -> Tensor:
        """The elements in row-major order as `shape`; one -1 is inferred."""

    def swap_dims(self, tensor: Tensor, dim1: int, dim2: int, /) -> Tensor:
        """Two dimensions in each other's place."""

    def permute(self, tensor: Tensor, axes: Sequence[int], /) -> Tensor:
        """Dimension i of the result is dimension `axes[i]` of the tensor."""

    def movedim(self, tensor: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor:
        """Dimensions at other places; the rest keep their order."""

    def flip(self, tensor: Tensor, axes: Sequence[int], /) -> Tensor:
        """Each of `axes` backwards."""

    def flatten(self, tensor: Tensor, start_dim: int, end_dim: int, /) -> Tensor:
        """`start_dim` to `end_dim`, both included, as one dimension."""

    def squeeze(self, tensor: Tensor, dims: int | Sequence[int], /) -> Tensor:
        """Without one or several dimensions, each of size 1."""

    def unsqueeze_dim(self, tensor: Tensor, dim: int, /) -> Tensor:
        """With a dimension of size 1 at `dim`, counted in the result."""

    def expand(self, tensor: Tensor, shape: Sequence[int], /) -> Tensor:
        """Dimensions of size 1 repeated to `shape`, new ones in front; -1 keeps a size."""

    def repeat(self, tensor: Tensor, times: Sequence[int], /) -> Tensor:
        """Dimension i tiled `times[i]` times; one number per dimension."""

    def roll(self, tensor: Tensor, shifts: Sequence[int], dims: Sequence[int], /) -> Tensor:
        """Element i of a dimension moves to i + shift, around the end; equal, positive lengths."""

    def unfold(self, tensor: Tensor, dim: int, size: int, step: int, /) -> Tensor:
        """Windows of `size` elements, `step` apart, as a new last dimension; none where `size` is too large."""

    def cat(self, tensors: Sequence[Tensor], dim: int, /) -> Tensor:
        """One after the other along `dim`; other sizes are equal."""

    def stack(self, tensors: Sequence[Tensor], dim: int, /) -> Tensor:
        """Side by side along a new dimension `dim`; shapes are equal."""

    def split(self, tensor: Tensor, sizes: Sequence[int], dim: int, /) -> Sequence[Tensor]:
        """Consecutive pieces along `dim`; the sizes add up to the dimension's."""


class PaddingOps(Protocol):
    """Padding and triangles, of Float and Int tensors. `pairs` are (before, after) of the last dimensions, in order."""

    def pad_constant(self, tensor: Tensor, pairs: Sequence[tuple[int, int]], value: float | int, /) -> Tensor:
        """`value` around the tensor."""

    def pad_reflect(self, tensor: Tensor, pairs: Sequence[tuple[int, int]], /) -> Tensor:
        """The elements next to each edge mirrored around it; padding is smaller than the dimension."""

    def pad_edge(self, tensor: Tensor, pairs: Sequence[tuple[int, int]], /) -> Tensor:
        """The outermost elements repeated; padded dimensions are not empty."""

    def triu(self, tensor: Tensor, diagonal: int, /) -> Tensor:
        """0 below the diagonal of the last two dimensions."""

    def tril(self, tensor: Tensor, diagonal: int, /) -> Tensor:
        """0 above the diagonal of the last two dimensions."""


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
