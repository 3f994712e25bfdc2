"""Shapes, joining, padding and triangles; slices, selections, gather and scatter, masks."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from .creation import Scalar, element_of

Ranges = tuple[slice, ...]


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


class TorchShapeOps:
    """Implements `ShapeOps`."""

    reshape: Any = staticmethod(Tensor.reshape)
    swap_dims: Any = staticmethod(Tensor.transpose)
    permute: Any = staticmethod(Tensor.permute)
    movedim: Any = staticmethod(Tensor.movedim)
    flip: Any = staticmethod(Tensor.flip)
    flatten: Any = staticmethod(Tensor.flatten)
    squeeze: Any = staticmethod(Tensor.squeeze)
    unsqueeze_dim: Any = staticmethod(Tensor.unsqueeze)
    expand: Any = staticmethod(Tensor.expand)
    repeat: Any = staticmethod(Tensor.repeat)
    roll: Any = staticmethod(Tensor.roll)
    cat: Any = staticmethod(torch.cat)
    stack: Any = staticmethod(torch.stack)
    split: Any = staticmethod(Tensor.split_with_sizes)

    @staticmethod
    def unfold(tensor: Tensor, dim: int, size: int, step: int, /) -> Tensor:
        if size > tensor.shape[dim]:  # no window, where torch refuses
            none = tensor.narrow(dim, 0, 0).unsqueeze(-1)
            return none.expand(*none.shape[:-1], size)
        return tensor.unfold(dim, size, step)


# torch has no triangles of the wide unsigned types; their bits are those of the signed ones.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}


Pairs = Sequence[tuple[int, int]]


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


class TorchPaddingOps:
    """Implements `PaddingOps`."""

    pad_reflect: Any = staticmethod(lambda tensor, pairs, /: _surround(tensor, pairs, _mirrored))
    pad_edge: Any = staticmethod(lambda tensor, pairs, /: _surround(tensor, pairs, _repeated))

    @staticmethod
    def triu(tensor: Tensor, diagonal: int, /) -> Tensor:
        signed = _SIGNED.get(tensor.dtype)
        return tensor.triu(diagonal) if signed is None else tensor.view(signed).triu(diagonal).view(tensor.dtype)

    @staticmethod
    def tril(tensor: Tensor, diagonal: int, /) -> Tensor:
        signed = _SIGNED.get(tensor.dtype)
        return tensor.tril(diagonal) if signed is None else tensor.view(signed).tril(diagonal).view(tensor.dtype)

    @staticmethod
    def pad_constant(tensor: Tensor, pairs: Pairs, value: float | int, /) -> Tensor:
        return F.pad(tensor, [size for pair in reversed(pairs) for size in pair], value=element_of(tensor, value))


def _surround(tensor: Tensor, pairs: Pairs, sides: Callable[[Tensor, int, int, int], list[Tensor]]) -> Tensor:
    """Pad dimension after dimension: torch's own modes take some ranks and element types only."""
    for dim, (before, after) in enumerate(pairs, tensor.ndim - len(pairs)):
        if before or after:
            head, tail = sides(tensor, dim, before, after)
            tensor = torch.cat([head, tensor, tail], dim)
    return tensor


def _mirrored(tensor: Tensor, dim: int, before: int, after: int) -> list[Tensor]:
    size = tensor.shape[dim]
    return [tensor.narrow(dim, 1, before).flip(dim), tensor.narrow(dim, size - 1 - after, after).flip(dim)]


def _repeated(tensor: Tensor, dim: int, before: int, after: int) -> list[Tensor]:
    sizes = [-1] * tensor.ndim
    parts: list[Tensor] = []
    for start, count in ((0, before), (tensor.shape[dim] - 1, after)):
        sizes[dim] = count
        parts.append(tensor.narrow(dim, start, 1).expand(sizes))
    return parts


_REDUCTIONS = {"Mul": "prod", "Min": "amin", "Max": "amax"}


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


class TorchIndexOps:
    """Implements `IndexOps`."""

    narrow: Any = staticmethod(Tensor.narrow)
    gather: Any = staticmethod(Tensor.gather)
    select: Any = staticmethod(Tensor.index_select)
    select_dim: Any = staticmethod(Tensor.select)
    mask_select: Any = staticmethod(Tensor.masked_select)
    mask_where: Any = staticmethod(lambda tensor, mask, values, /: torch.where(mask, values, tensor))

    @staticmethod
    def slice(tensor: Tensor, ranges: Ranges, backwards: Sequence[int], /) -> Tensor:
        return tensor[ranges].flip(tuple(backwards)) if backwards else tensor[ranges]

    @staticmethod
    def slice_assign(tensor: Tensor, ranges: Ranges, backwards: Sequence[int], values: Tensor, /) -> Tensor:
        out = tensor.clone()
        out[ranges] = values.flip(tuple(backwards)) if backwards else values
        return out

    @staticmethod
    def slice_fill(tensor: Tensor, ranges: Ranges, value: Scalar, /) -> Tensor:
        out = tensor.clone()
        out[ranges] = element_of(tensor, value)
        return out

    @staticmethod
    def take(tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor:
        return torch.index_select(tensor, dim, indices.reshape(-1)).unflatten(dim, indices.shape)

    @staticmethod
    def mask_fill(tensor: Tensor, mask: Tensor, value: Scalar, /) -> Tensor:
        return tensor.masked_fill(mask, element_of(tensor, value))

    @staticmethod
    def scatter(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        if update == "Add":
            return torch.scatter_add(tensor, dim, indices, values)
        if update == "Assign":
            return torch.scatter(tensor, dim, indices, values)
        if torch.is_grad_enabled() and (tensor.requires_grad or values.requires_grad):
            if values is tensor:
                values = values.view_as(values)  # dynamo refuses one tensor as two arguments
            return _SCATTER(tensor, dim, indices, values, _REDUCTIONS[update])
        return torch.scatter_reduce(tensor, dim, indices, values, _REDUCTIONS[update])

    @staticmethod
    def select_assign(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        if update == "Add":
            return torch.index_add(tensor, dim, indices, values)
        if update == "Assign":
            return torch.index_copy(tensor, dim, indices, values)
        sizes = [1] * tensor.ndim
        sizes[dim] = -1
        return TorchIndexOps.scatter(tensor, dim, indices.view(sizes).expand_as(values), values, update)


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


class TorchNumericIndexOps:
    """Implements `NumericIndexOps`."""

    @staticmethod
    def gather_nd(tensor: Tensor, indices: Tensor, /) -> Tensor:
        # Torch's indexing counts negative indices from the end: an index beyond every size makes it refuse them.
        return tensor[torch.where(indices < 0, 2**62, indices).unbind(-1)]

    @staticmethod
    def scatter_nd(tensor: Tensor, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        depth = indices.shape[-1]
        rest = tensor.shape[depth:]
        rows = tensor.reshape(-1, *rest) if rest.numel() else tensor.reshape(tensor.shape[:depth].numel(), *rest)
        flat = _flat_indices(indices, tensor.shape[:depth]).reshape(-1)
        updates = values.reshape(flat.shape[0], *rest)
        return TorchIndexOps.select_assign(rows, 0, flat, updates, update).reshape(tensor.shape)

    @staticmethod
    def one_hot(tensor: Tensor, classes: int, on: Scalar, off: Scalar, dim: int, /) -> Tensor:
        wide = tensor.double() if tensor.is_floating_point() else tensor.long()
        indices = torch.where(wide < 0, wide + classes, wide).long().unsqueeze(dim)
        shape = [*tensor.shape[:dim], classes, *tensor.shape[dim:]]
        rest = torch.full(shape, element_of(tensor, off), dtype=tensor.dtype, device=tensor.device)
        return rest.scatter(dim, indices, element_of(tensor, on))

    @staticmethod
    def bounds(tensor: Tensor, /) -> tuple[float, float]:
        smallest, largest = torch.stack(torch.aminmax(tensor)).tolist()
        return smallest, largest


def _flat_indices(indices: Tensor, sizes: torch.Size) -> Tensor:
    """`[.., k]` coordinates -> `[..]` positions in row order; -1, which torch refuses, where one is out of range."""
    flat, valid = None, None
    for index, size in zip(indices.unbind(-1), sizes, strict=True):
        inside = (index >= 0) & (index < size)
        flat = index if flat is None else flat * size + index
        valid = inside if valid is None else valid & inside
    assert flat is not None
    assert valid is not None
    return torch.where(valid, flat, -1)


class _Scatter(Function):
    """Scatter by Mul, Min or Max, with Burn's derivatives, which are made of differentiable functions themselves.

    Mul passes g * v to the tensor and g * x to the values, where torch divides by the factors (0 at 0). Of several
    values for one element each gets g * x times the others, which Burn leaves out. Where the two are equal, Min and Max
    pass the whole gradient to both, where torch splits it.
    """

    @staticmethod
    def forward(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, reduction: str) -> Tensor:
        return torch.scatter_reduce(tensor, dim, indices, values, reduction)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensor, ctx.dim, indices, values, ctx.reduction = inputs  # pyright: ignore[reportAttributeAccessIssue]
        ctx.save_for_backward(tensor, indices, values, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        tensor, indices, values, output = ctx.saved_tensors
        to_values = torch.gather(grad, ctx.dim, indices)
        if ctx.reduction == "prod":
            factors = torch.scatter_reduce(torch.ones_like(tensor), ctx.dim, indices, values, "prod")
            to_values = (
                to_values * torch.gather(tensor, ctx.dim, indices) * _other_factors(values, ctx.dim, indices, grad)
            )
            return grad * factors, None, None, to_values, None
        is_result = values == torch.gather(output, ctx.dim, indices)
        return grad * (tensor == output), None, None, to_values * is_result, None


def _other_factors(values: Tensor, dim: int, indices: Tensor, like: Tensor) -> Tensor:
    """For each value the product of the others that are scattered to its element of a tensor; 1 where it is alone."""
    is_zero = (values == 0).to(values.dtype)
    factors = values + is_zero
    products = torch.scatter_reduce(torch.ones_like(like), dim, indices, factors, "prod")
    counts = torch.zeros_like(like).scatter_add(dim, indices, torch.ones_like(values))
    zeros = torch.zeros_like(like).scatter_add(dim, indices, is_zero)
    has_zero, is_alone = (torch.gather(it, dim, indices) for it in (zeros, counts))
    others = torch.where(has_zero - is_zero > 0, 0.0, torch.gather(products, dim, indices) / factors)
    return torch.where(is_alone == 1, 1.0, others)


_SCATTER: Any = _Scatter.apply
