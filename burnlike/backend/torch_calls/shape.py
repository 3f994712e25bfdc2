"""Operators that give the same elements in another shape, joined, padded, or in part."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .tables import Sizes, Tables, at_least_1, like_rank, scalar, translate, translates


@translates("view", "reshape", "_unsafe_view", "_reshape_copy")
def reshape(t: Tables, tensor: Tensor, shape: Any) -> Tensor:
    if isinstance(shape, torch.dtype):
        return tensor.view(shape)
    return t.reshape(tensor, shape)


@translates("permute")
def permute(t: Tables, tensor: Tensor, dims: Sizes) -> Tensor:
    return tensor.detach() if tensor.ndim == 0 else t.of(tensor).permute(tensor, list(dims))


@translates("transpose")
def transpose(t: Tables, tensor: Tensor, dim0: int, dim1: int) -> Tensor:
    return tensor.detach() if tensor.ndim == 0 else t.of(tensor).swap_dims(tensor, dim0, dim1)


@translates("unsqueeze")
def unsqueeze(t: Tables, tensor: Tensor, dim: int) -> Tensor:
    return tensor.reshape(1) if tensor.ndim == 0 else t.of(tensor).unsqueeze_dim(tensor, dim)


@translates("squeeze")
def squeeze(t: Tables, tensor: Tensor, dim: int | Sizes | None = None) -> Tensor:
    rank = max(tensor.ndim, 1)
    dims = range(rank) if dim is None else [it % rank for it in ([dim] if isinstance(dim, int) else dim)]
    return t.reshape(tensor, [n for place, n in enumerate(tensor.shape) if place not in dims or n != 1])


@translates("expand")
def expand(t: Tables, tensor: Tensor, size: Sizes, implicit: bool = False) -> Tensor:
    if not size:
        return tensor.detach()
    return t.of(tensor).expand(at_least_1(tensor), list(size))


def region(tensor: Tensor, dim: int, start: int | None, end: int | None, step: int) -> tuple[slice, ...]:
    """The argument of the tables for a slice of one dimension."""
    dim = dim % tensor.ndim
    return (*[slice(None)] * dim, slice(*slice(start, end, step).indices(tensor.shape[dim])))


@translates("slice")
def slice_(t: Tables, tensor: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    return t.of(tensor).slice(tensor, region(tensor, dim, start, end, step), ())


@translates("select")
def select(t: Tables, tensor: Tensor, dim: int, index: int) -> Tensor:
    dim = dim % tensor.ndim
    index = index % tensor.shape[dim]
    if tensor.ndim == 1:
        return scalar(t.of(tensor).narrow(tensor, 0, index, 1))
    return t.of(tensor).select_dim(tensor, dim, index)


@translates("narrow")
def narrow(t: Tables, tensor: Tensor, dim: int, start: int, length: int) -> Tensor:
    return t.of(tensor).narrow(tensor, dim, start % max(tensor.shape[dim], 1), length)


def _split(t: Tables, tensor: Tensor, sizes: Sizes, dim: int = 0) -> list[Tensor]:
    return list(t.of(tensor).split(tensor, list(sizes), dim))


@translates("split")
def split(t: Tables, tensor: Tensor, size: int, dim: int = 0) -> list[Tensor]:
    length = tensor.shape[dim]
    sizes = [min(size, length - start) for start in range(0, length, size)] if length else [0]
    return _split(t, tensor, sizes, dim)


@translates("cat")
def cat(t: Tables, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    # torch leaves out the tensors of shape [0].
    tensors = [tensor for tensor in tensors if tensor.shape != (0,)] or list(tensors[:1])
    dtype = tensors[0].dtype
    for tensor in tensors[1:]:
        dtype = torch.promote_types(dtype, tensor.dtype)
    return t.of(dtype).cat([t.cast(tensor, dtype) for tensor in tensors], dim)


@translates("roll")
def roll(t: Tables, tensor: Tensor, shifts: Sizes, dims: Sizes = ()) -> Tensor:
    if not dims:
        flat = t.reshape(tensor, [tensor.numel()])
        return t.reshape(t.of(tensor).roll(flat, list(shifts), [0]), tensor.shape)
    return t.of(tensor).roll(tensor, list(shifts), list(dims))


@translates("repeat")
def repeat(t: Tables, tensor: Tensor, times: Sizes) -> Tensor:
    if not times:
        return tensor.clone()
    wide = t.reshape(tensor, [1] * (len(times) - tensor.ndim) + list(tensor.shape))
    return t.of(tensor).repeat(wide, list(times))


@translates("diagonal")
def diagonal(t: Tables, tensor: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    dim1, dim2 = dim1 % tensor.ndim, dim2 % tensor.ndim
    kept = [it for it in range(tensor.ndim) if it not in (dim1, dim2)]
    matrices = permute(t, tensor, [*kept, dim1, dim2])
    if offset:
        rows, columns = max(-offset, 0), max(offset, 0)
        matrices = slice_(t, slice_(t, matrices, -2, rows), -1, columns)
    return t.module.diagonal(matrices)


@translates("constant_pad_nd")
def constant_pad_nd(t: Tables, tensor: Tensor, pad: Sizes, value: Any = 0) -> Tensor:
    if tensor.dtype.is_floating_point:
        return t.module.constant_pad(tensor, list(pad), float(value))
    x = t.cast(tensor, torch.int64) if tensor.dtype is torch.bool else tensor
    pairs = [(pad[place], pad[place + 1]) for place in range(0, len(pad), 2)]
    for place, (before, after) in enumerate(pairs, 1):
        x = slice_(t, x, -place, max(-before, 0), x.shape[-place] - max(-after, 0))
    added = [(max(before, 0), max(after, 0)) for before, after in reversed(pairs)]
    return t.cast(t.of(x).pad_constant(x, added, int(value)), tensor.dtype)


def _triangle(t: Tables, function: str, tensor: Tensor, diagonal: int) -> Tensor:
    x = t.cast(tensor, torch.int64) if tensor.dtype is torch.bool else tensor
    return t.cast(getattr(t.of(x), function)(x, diagonal), tensor.dtype)


@translates("_to_copy")
def to_copy(
    t: Tables, tensor: Tensor, *, dtype: torch.dtype | None = None, device: torch.device | None = None, **_: Any
) -> Tensor:
    x = at_least_1(tensor)
    result = x if dtype is None else t.cast(x, dtype)
    if device is not None and device != tensor.device:
        result = t.of(result).to_device(result, device)
    return like_rank(result.clone() if result is x else result, tensor)


translate(
    _reshape_alias=lambda t, x, shape, stride: t.reshape(x, shape),
    t=lambda t, x: x.detach() if x.ndim < 2 else t.of(x).swap_dims(x, 0, 1),
    split_with_sizes=_split,
    unbind=lambda t, x, dim=0: [select(t, x, dim, index) for index in range(x.shape[dim])],
    flip=lambda t, x, dims: t.of(x).flip(x, list(dims)) if dims and x.ndim else x.clone(),
    unfold=lambda t, x, dimension, size, step: t.of(x).unfold(x, dimension, size, step),
    tril=lambda t, x, diagonal=0: _triangle(t, "tril", x, diagonal),
    triu=lambda t, x, diagonal=0: _triangle(t, "triu", x, diagonal),
    _local_scalar_dense=lambda t, x: t.of(x).read_item(x.reshape(1)),
    item=lambda t, x: t.of(x).read_item(x.reshape(1)),
)
