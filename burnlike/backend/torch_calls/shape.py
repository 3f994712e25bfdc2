"""Operators that give the same elements in another shape, joined, padded, or in part."""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from .pointwise import add, div, masked_fill, where
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


_UPDATES = {"sum": "Add", "prod": "Mul", "amin": "Min", "amax": "Max", "add": "Add", "multiply": "Mul"}


@translates("index_select")
def index_select(t: Tables, tensor: Tensor, dim: int, index: Tensor) -> Tensor:
    x = at_least_1(tensor)
    return like_rank(t.of(x).select(x, dim, t.cast(at_least_1(index), torch.int64)), tensor)


@translates("gather")
def gather(t: Tables, tensor: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False) -> Tensor:
    return like_rank(t.of(tensor).gather(at_least_1(tensor), dim, at_least_1(index)), index)


@translates("scatter")
def scatter(t: Tables, tensor: Tensor, dim: int, index: Tensor, src: Any, reduce: str | None = None) -> Tensor:
    if not isinstance(src, Tensor):
        src = t.full(index.shape, src, tensor.dtype, tensor.device)
    return _scatter(t, tensor, dim, index, src, "Assign" if reduce is None else _UPDATES[reduce])


@translates("scatter_reduce")
def scatter_reduce(
    t: Tables, tensor: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    if reduce == "mean":
        ones = t.full(src.shape, 1, tensor.dtype, tensor.device)
        start = t.full(tensor.shape, 1, tensor.dtype, tensor.device)
        total, count = (
            scatter_reduce(t, first, dim, index, it, "sum", include_self=include_self)
            for first, it in ((tensor, src), (start, ones))
        )
        return div(t, total, count, None if tensor.dtype.is_floating_point else "floor")
    if not include_self:
        tensor = scatter(t, tensor, dim, index, _nothing(reduce, tensor.dtype))
    return _scatter(t, tensor, dim, index, src, _UPDATES[reduce])


def _nothing(reduce: str, dtype: torch.dtype) -> Any:
    """The neutral element of a reduction."""
    if reduce in ("sum", "prod"):
        return int(reduce == "prod")
    if dtype is torch.bool:
        return reduce == "amin"
    low, high = (-math.inf, math.inf) if dtype.is_floating_point else (torch.iinfo(dtype).min, torch.iinfo(dtype).max)
    return high if reduce == "amin" else low


def _scatter(t: Tables, tensor: Tensor, dim: int, index: Tensor, src: Tensor, update: str) -> Tensor:
    x, places, values = at_least_1(tensor), at_least_1(index), at_least_1(src)
    if values.shape != places.shape:  # torch takes the corner of the source that the indices cover
        values = t.of(values).slice(values, tuple(slice(0, size) for size in places.shape), ())
    return like_rank(t.of(x).scatter(x, dim, places, values, update), tensor)


@translates("index_add")
def index_add(t: Tables, tensor: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
    values = source if alpha == 1 else t.of(source).mul(source, alpha)
    return t.of(tensor).select_assign(tensor, dim, at_least_1(index), values, "Add")


@translates("masked_select")
def masked_select(t: Tables, tensor: Tensor, mask: Tensor) -> Tensor:
    shape = list(torch.broadcast_shapes(at_least_1(tensor).shape, at_least_1(mask).shape))
    return t.of(tensor).mask_select(expand(t, tensor, shape), expand(t, mask, shape))


@translates("masked_scatter")
def masked_scatter(t: Tables, tensor: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    tensor = expand(t, tensor, torch.broadcast_shapes(tensor.shape, mask.shape))
    flat = t.reshape(expand(t, mask, tensor.shape), [tensor.numel()])
    places = t.int.select_dim(t.bool.argwhere(flat, torch.int64), 1, 0)
    values = t.of(source).narrow(t.reshape(source, [source.numel()]), 0, 0, places.numel())
    rows = t.reshape(tensor, [tensor.numel()])
    return t.reshape(t.of(rows).select_assign(rows, 0, places, values, "Assign"), tensor.shape)


@translates("nonzero")
def nonzero(t: Tables, tensor: Tensor) -> Tensor:
    return t.bool.argwhere(t.cast(at_least_1(tensor), torch.bool), torch.int64)


@translates("slice_scatter")
def slice_scatter(
    t: Tables, tensor: Tensor, src: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    return t.of(tensor).slice_assign(tensor, region(tensor, dim, start, end, step), (), src)


@translates("select_scatter")
def select_scatter(t: Tables, tensor: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    index = index % tensor.shape[dim]
    return slice_scatter(t, tensor, unsqueeze(t, src, dim % tensor.ndim), dim, index, index + 1)


def _zeros(t: Tables, sizes: Sizes, like: Tensor) -> Tensor:
    return t.full(sizes, 0, like.dtype, like.device)


translate(
    scatter_add=lambda t, x, dim, index, src: _scatter(t, x, dim, index, src, "Add"),
    index_copy=lambda t, x, dim, index, src: t.of(x).select_assign(x, dim, at_least_1(index), src, "Assign"),
    # These two by hand: with torch's decompositions, and that of `unbind`, a step of a small LSTM took a third longer.
    slice_backward=lambda t, grad, sizes, *place: slice_scatter(t, _zeros(t, sizes, grad), grad, *place),
    select_backward=lambda t, grad, sizes, *place: select_scatter(t, _zeros(t, sizes, grad), grad, *place),
)


class _Indices:
    """The meaning of `x[indices]`: the dimensions that are named, moved to the front, and coordinates in them."""

    def __init__(self, t: Tables, tensor: Tensor, indices: Sequence[Tensor | None]) -> None:
        named: list[tuple[int, Tensor]] = []
        dim = 0
        for index in indices:
            if index is None:
                dim += 1
            elif index.dtype in (torch.bool, torch.uint8):
                coordinates = nonzero(t, index)
                named += [(dim + place, t.int.select_dim(coordinates, 1, place)) for place in range(index.ndim)]
                dim += index.ndim
            else:
                named.append((dim, t.cast(index, torch.int64)))
                dim += 1
        dims = [place for place, _ in named]
        self.order = [*dims, *(it for it in range(tensor.ndim) if it not in dims)]
        self.shape = list(torch.broadcast_shapes(*(index.shape for _, index in named)))
        # The indexed dimensions come first in the result, unless they stand side by side.
        self.first = dims[0] if dims == list(range(dims[0], dims[0] + len(dims))) else 0
        self.rest = [tensor.shape[it] for it in self.order[len(dims) :]]
        rows = [
            unsqueeze(t, expand(t, _counted(t, index, tensor.shape[place]), self.shape or [1]), -1)
            for place, index in named
        ]
        self.coordinates = cat(t, rows, -1)

    def to_front(self, result_rank: int) -> list[int]:
        """The dimensions of a result with those of the indices first."""
        count = len(self.shape)
        indexed = list(range(self.first, self.first + count))
        return [*indexed, *(it for it in range(result_rank) if it not in indexed)]


def _counted(t: Tables, index: Tensor, size: int) -> Tensor:
    """Indices from the front, of rank 1 or more."""
    index = at_least_1(index)
    return where(t, t.int.lower(index, 0), add(t, index, size), index)


@translates("index", "_unsafe_index")
def index(t: Tables, tensor: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    numbers = t.cast(tensor, torch.uint8) if tensor.dtype is torch.bool else tensor
    where = _Indices(t, numbers, indices)
    moved = permute(t, numbers, where.order)
    rows = t.of(moved).gather_nd(moved, where.coordinates)
    result = t.cast(t.reshape(rows, [*where.shape, *where.rest]), tensor.dtype)
    if where.first == 0 or not where.shape:
        return result
    back = sorted(range(result.ndim), key=where.to_front(result.ndim).__getitem__)
    return permute(t, result, back)


@translates("index_put", "_index_put_impl")
def index_put(
    t: Tables,
    tensor: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
    unsafe: bool = False,
) -> Tensor:
    dtype = torch.uint8 if tensor.dtype is torch.bool else tensor.dtype
    numbers, new = t.cast(tensor, dtype), t.cast(values, dtype)
    where = _Indices(t, numbers, indices)
    shape = [*where.rest[: where.first], *where.shape, *where.rest[where.first :]]
    new = expand(t, new, shape) if shape else new
    if where.first and where.shape:
        new = permute(t, new, where.to_front(new.ndim))
    moved = permute(t, numbers, where.order)
    new = t.reshape(new, [*(where.shape or [1]), *where.rest])
    result = t.of(moved).scatter_nd(moved, where.coordinates, new, "Add" if accumulate else "Assign")
    back = sorted(range(result.ndim), key=where.order.__getitem__)
    return t.cast(permute(t, result, back), tensor.dtype)


@translates("embedding")
def embedding(
    t: Tables,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    places = t.cast(t.reshape(indices, [1, indices.numel()]), torch.int64)
    return t.reshape(t.module.embedding(weight, places), [*indices.shape, weight.shape[1]])


@translates("embedding_dense_backward")
def embedding_dense_backward(
    t: Tables, grad: Tensor, indices: Tensor, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
    # By hand: with torch's decomposition, of some sixteen operators, a step of a small embedding took twice as long.
    places = t.cast(t.reshape(indices, [indices.numel()]), torch.int64)
    values = t.reshape(grad, [indices.numel(), grad.shape[-1]])
    zeros = t.full([rows, grad.shape[-1]], 0, grad.dtype, grad.device)
    if padding_idx >= 0:
        padded = t.reshape(t.int.equal(places, padding_idx), [places.numel(), 1])
        values = masked_fill(t, values, padded, 0.0)
    if scale_grad_by_freq:
        ones = t.full([places.numel()], 1, grad.dtype, grad.device)
        counts = t.float.select_assign(t.full([rows], 0, grad.dtype, grad.device), 0, places, ones, "Add")
        values = t.float.div(values, t.reshape(t.float.select(counts, 0, places), [places.numel(), 1]))
    return t.float.select_assign(zeros, 0, places, values, "Add")


@translates("repeat_interleave")
def repeat_interleave(
    t: Tables, tensor: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    if repeats is None:  # the overload that gives the places
        return _repeated(t, t.int.read_list(tensor), tensor.device)
    if dim is None:
        tensor, dim = t.reshape(tensor, [tensor.numel()]), 0
    counts = t.int.read_list(at_least_1(repeats)) if isinstance(repeats, Tensor) else [repeats]
    counts = counts * tensor.shape[dim] if len(counts) == 1 else counts
    return t.of(tensor).select(tensor, dim, _repeated(t, counts, tensor.device))


def _repeated(t: Tables, counts: Sizes, device: torch.device) -> Tensor:
    rows = [place for place, count in enumerate(counts) for _ in range(count)]
    return t.int.from_data(rows, [len(rows)], torch.int64, device)


@translates("bincount")
def bincount(t: Tables, tensor: Tensor, weights: Tensor | None = None, minlength: int = 0) -> Tensor:
    size = max(minlength, int(t.int.bounds(tensor)[1]) + 1 if tensor.numel() else 0)
    values = t.full(tensor.shape, 1, torch.int64, tensor.device) if weights is None else weights
    if weights is not None and weights.dtype is not torch.float32:
        values = t.cast(weights, torch.float64)  # as torch
    zeros = t.full([size], 0, values.dtype, tensor.device)
    return t.of(zeros).select_assign(zeros, 0, t.cast(tensor, torch.int64), values, "Add") if tensor.numel() else zeros
