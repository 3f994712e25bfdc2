"""Shapes, joining, padding, triangles; slices, selections, masks, and scatter in its five update modes, in torch.

Derivatives of Mul, Min and Max are Burn's: Mul passes g * v to the tensor and g * x to the values, and where the two
are equal Min and Max pass the whole gradient to both. Torch divides by the factors (0 at 0), and splits ties.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx

from ..tables.arithmetic import Scalar
from ..tables.shape import Ranges
from .creation import element


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


class TorchPaddingOps:
    """Implements `PaddingOps`."""

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
        return F.pad(tensor, [size for pair in reversed(pairs) for size in pair], value=element(value, tensor.dtype))

    @staticmethod
    def pad_reflect(tensor: Tensor, pairs: Pairs, /) -> Tensor:
        return _surround(tensor, pairs, _mirrored)

    @staticmethod
    def pad_edge(tensor: Tensor, pairs: Pairs, /) -> Tensor:
        return _surround(tensor, pairs, _repeated)


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


class TorchIndexOps:
    """Implements `IndexOps`."""

    narrow: Any = staticmethod(Tensor.narrow)
    gather: Any = staticmethod(Tensor.gather)
    select: Any = staticmethod(Tensor.index_select)
    select_dim: Any = staticmethod(Tensor.select)
    mask_select: Any = staticmethod(Tensor.masked_select)

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
        out[ranges] = element(value, tensor.dtype)
        return out

    @staticmethod
    def take(tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor:
        return torch.index_select(tensor, dim, indices.reshape(-1)).unflatten(dim, indices.shape)

    @staticmethod
    def mask_where(tensor: Tensor, mask: Tensor, values: Tensor, /) -> Tensor:
        return torch.where(mask, values, tensor)

    @staticmethod
    def mask_fill(tensor: Tensor, mask: Tensor, value: Scalar, /) -> Tensor:
        return torch.where(mask, element(value, tensor.dtype), tensor)

    @staticmethod
    def scatter(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, update: str, /) -> Tensor:
        if update == "Add":
            return torch.scatter_add(tensor, dim, indices, values)
        if update == "Assign":
            return torch.scatter(tensor, dim, indices, values)
        if torch.is_grad_enabled() and (tensor.requires_grad or values.requires_grad):
            reduce: Any = _ScatterMul if update == "Mul" else _ScatterExtreme
            if values is tensor:
                values = values.view_as(values)  # dynamo refuses one tensor as two arguments
            return reduce.apply(tensor, dim, indices, values, _REDUCTIONS[update])
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
        rest = torch.full(shape, element(off, tensor.dtype), dtype=tensor.dtype, device=tensor.device)
        return rest.scatter(dim, indices, element(on, tensor.dtype))

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


class _ScatterMul(Function):
    """The backward is made of differentiable functions, so it can be differentiated again."""

    @staticmethod
    def forward(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, reduction: str) -> Tensor:
        return torch.scatter_reduce(tensor, dim, indices, values, reduction)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensor, ctx.dim, indices, values, _ = inputs  # pyright: ignore[reportAttributeAccessIssue]
        ctx.save_for_backward(tensor, indices, values)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        tensor, indices, values = ctx.saved_tensors
        factors = torch.scatter_reduce(torch.ones_like(tensor), ctx.dim, indices, values, "prod")
        to_values = torch.gather(grad, ctx.dim, indices) * torch.gather(tensor, ctx.dim, indices)
        return grad * factors, None, None, to_values, None


class _ScatterExtreme(Function):
    """Min or Max. Where an element is the result, the whole gradient flows to it."""

    @staticmethod
    def forward(tensor: Tensor, dim: int, indices: Tensor, values: Tensor, reduction: str) -> Tensor:
        return torch.scatter_reduce(tensor, dim, indices, values, reduction)

    @staticmethod
    def setup_context(ctx: FunctionCtx, inputs: tuple[Any, ...], output: Tensor) -> None:
        tensor, ctx.dim, indices, values, _ = inputs  # pyright: ignore[reportAttributeAccessIssue]
        ctx.save_for_backward(tensor, indices, values, output)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        tensor, indices, values, output = ctx.saved_tensors
        to_tensor = grad * (tensor == output)
        to_values = torch.gather(grad, ctx.dim, indices) * (values == torch.gather(output, ctx.dim, indices))
        return to_tensor, None, None, to_values, None
