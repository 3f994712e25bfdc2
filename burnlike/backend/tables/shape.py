"""Shapes, joining, padding and triangles; slices, selections, gather and scatter, masks."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor

from .arithmetic import Scalar


class ShapeOps(Protocol):
    """Other shapes of the same elements, joining and splitting, of Float, Int and Bool tensors.

    A dimension may be negative; one that does not exist makes the function raise.

    Functions:
        reshape: The elements in row-major order as `shape`; one -1 is inferred.
        swap_dims: Two dimensions in each other's place.
        permute: Dimension i of the result is dimension `axes[i]` of the tensor.
        movedim: Dimensions at other places; the rest keep their order.
        flip: Each of `axes` backwards.
        flatten: `start_dim` to `end_dim`, both included, as one dimension.
        squeeze: Without one or several dimensions, each of size 1.
        unsqueeze_dim: With a dimension of size 1 at `dim`, counted in the result.
        expand: Dimensions of size 1 repeated to `shape`, new ones in front; -1 keeps a size.
        repeat: Dimension i tiled `times[i]` times; one number per dimension.
        roll: Element i of a dimension moves to i + shift, around the end; equal, positive lengths.
        unfold: Windows of `size` elements, `step` apart, as a new last dimension; none where `size` is too large.
        cat: One after the other along `dim`; other sizes are equal.
        stack: Side by side along a new dimension `dim`; shapes are equal.
        split: Consecutive pieces along `dim`; the sizes add up to the dimension's.
    """

    def reshape(self, tensor: Tensor, shape: Sequence[int], /) -> Tensor: ...
    def swap_dims(self, tensor: Tensor, dim1: int, dim2: int, /) -> Tensor: ...
    def permute(self, tensor: Tensor, axes: Sequence[int], /) -> Tensor: ...
    def movedim(self, tensor: Tensor, source: int | Sequence[int], destination: int | Sequence[int], /) -> Tensor: ...
    def flip(self, tensor: Tensor, axes: Sequence[int], /) -> Tensor: ...
    def flatten(self, tensor: Tensor, start_dim: int, end_dim: int, /) -> Tensor: ...
    def squeeze(self, tensor: Tensor, dims: int | Sequence[int], /) -> Tensor: ...
    def unsqueeze_dim(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def expand(self, tensor: Tensor, shape: Sequence[int], /) -> Tensor: ...
    def repeat(self, tensor: Tensor, times: Sequence[int], /) -> Tensor: ...
    def roll(self, tensor: Tensor, shifts: Sequence[int], dims: Sequence[int], /) -> Tensor: ...
    def unfold(self, tensor: Tensor, dim: int, size: int, step: int, /) -> Tensor: ...
    def cat(self, tensors: Sequence[Tensor], dim: int, /) -> Tensor: ...
    def stack(self, tensors: Sequence[Tensor], dim: int, /) -> Tensor: ...
    def split(self, tensor: Tensor, sizes: Sequence[int], dim: int, /) -> Sequence[Tensor]: ...


class PaddingOps(Protocol):
    """Padding and triangles, of Float and Int tensors. `pairs` are (before, after) of the last dimensions, in order.

    Functions:
        pad_constant: `value` around the tensor.
        pad_reflect: The elements next to each edge mirrored around it; padding is smaller than the dimension.
        pad_edge: The outermost elements repeated; padded dimensions are not empty.
        triu: 0 below the diagonal of the last two dimensions.
        tril: 0 above the diagonal of the last two dimensions.
    """

    def pad_constant(self, tensor: Tensor, pairs: Sequence[tuple[int, int]], value: float | int, /) -> Tensor: ...
    def pad_reflect(self, tensor: Tensor, pairs: Sequence[tuple[int, int]], /) -> Tensor: ...
    def pad_edge(self, tensor: Tensor, pairs: Sequence[tuple[int, int]], /) -> Tensor: ...
    def triu(self, tensor: Tensor, diagonal: int, /) -> Tensor: ...
    def tril(self, tensor: Tensor, diagonal: int, /) -> Tensor: ...


Ranges = tuple[slice, ...]


class IndexOps(Protocol):
    """Indexing and masks, of Float, Int and Bool tensors.

    A `Ranges` has one slice per leading dimension, with bounds as in Python and a positive step; `backwards` names
    the dimensions that are walked from their last element. Indices are not negative.

    Functions:
        slice: The region, `[n_0, n_1, ..]`.
        slice_assign: A copy with `values`, of the region's shape, in the region.
        slice_fill: A copy with `value` in the region.
        narrow: `length` elements along `dim`, from `start` on.
        select: The rows `indices`, `[n]`, along `dim`.
        select_dim: One row along `dim`, without that dimension.
        take: The rows `indices` of any shape; that shape takes the place of `dim`.
        gather: Elements along `dim`, in the shape of `indices`.
        select_assign: A copy, rows `indices` (`[n]`) updated by `values`: Assign, Add, Mul, Min or Max; Add is or on
            Bool.
        scatter: A copy with elements along `dim` updated; `values` has the shape of `indices`. Updates as
            `select_assign`.
        mask_where: `values` where the mask is set, else `tensor`; the three broadcast.
        mask_fill: `value` where the mask is set, else `tensor`; the two broadcast.
        mask_select: `[n]`: the elements where the mask, of the same shape, is set, row by row.
    """

    def slice(self, tensor: Tensor, ranges: Ranges, backwards: Sequence[int], /) -> Tensor: ...
    def slice_assign(self, tensor: Tensor, ranges: Ranges, backwards: Sequence[int], values: Tensor, /) -> Tensor: ...
    def slice_fill(self, tensor: Tensor, ranges: Ranges, value: Scalar, /) -> Tensor: ...
    def narrow(self, tensor: Tensor, dim: int, start: int, length: int, /) -> Tensor: ...
    def select(self, tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor: ...
    def select_dim(self, tensor: Tensor, dim: int, index: int, /) -> Tensor: ...
    def take(self, tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor: ...
    def gather(self, tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor: ...
    def select_assign(self, tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor: ...
    def scatter(self, tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor: ...
    def mask_where(self, tensor: Tensor, mask: Tensor, values: Tensor, /) -> Tensor: ...
    def mask_fill(self, tensor: Tensor, mask: Tensor, value: Scalar, /) -> Tensor: ...
    def mask_select(self, tensor: Tensor, mask: Tensor, /) -> Tensor: ...


class NumericIndexOps(Protocol):
    """Indexing of Float and Int tensors only.

    Functions:
        gather_nd: `[.., k]` indices of the first k dimensions -> `[.., rest]`; a negative one is an error.
        scatter_nd: A copy, updated where `gather_nd` would read; `values` has the shape of its result.
        one_hot: `on` at the class that an element names, else `off`, in a new dimension; negative ones count back.
        bounds: The smallest and the largest element on the host; NaN if there is one. Not of an empty tensor.
    """

    def gather_nd(self, tensor: Tensor, indices: Tensor, /) -> Tensor: ...
    def scatter_nd(self, tensor: Tensor, indices: Tensor, values: Tensor, update: str, /) -> Tensor: ...
    def one_hot(self, tensor: Tensor, classes: int, on: Scalar, off: Scalar, dim: int, /) -> Tensor: ...
    def bounds(self, tensor: Tensor, /) -> tuple[float, float]: ...
