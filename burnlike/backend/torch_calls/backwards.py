"""Backward operators of which torch has no decomposition."""

from typing import Any

import torch
from torch import Tensor

from .pointwise import binary, masked_fill, mul, where
from .tables import TRANSLATIONS, WRITES, Tables, at_least_1, translates


@translates("hardshrink_backward", "softshrink_backward")
def shrink_backward(t: Tables, grad: Tensor, tensor: Tensor, lambd: float) -> Tensor:
    x = at_least_1(tensor)
    inside = binary(t, "lower_equal", t.float.abs(x), lambd)
    return t.reshape(masked_fill(t, at_least_1(grad), inside, 0.0), grad.shape)


@translates("embedding_dense_backward")
def embedding_dense_backward(
    t: Tables, grad: Tensor, indices: Tensor, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> Tensor:
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


@translates("diagonal_backward")
def diagonal_backward(t: Tables, grad: Tensor, sizes: Any, offset: int, dim1: int, dim2: int) -> Tensor:
    dim1, dim2 = dim1 % len(sizes), dim2 % len(sizes)
    order = [*(it for it in range(len(sizes)) if it not in (dim1, dim2)), dim1, dim2]
    moved = [sizes[it] for it in order]
    rows, columns = moved[-2:]
    flat = t.full([*moved[:-2], rows * columns], 0, grad.dtype, grad.device)
    places = t.int.arange(0, grad.shape[-1], 1, torch.int64, grad.device)
    places = t.int.add(t.int.mul(places, columns + 1), max(offset, 0) + max(-offset, 0) * columns)
    filled = t.reshape(t.of(flat).select_assign(flat, flat.ndim - 1, places, grad, "Assign"), moved)
    return t.of(filled).permute(filled, sorted(range(len(sizes)), key=order.__getitem__))


def rrelu_with_noise(
    t: Tables,
    write: Any,
    tensor: Tensor,
    noise: Tensor,
    lower: float = 0.125,
    upper: float = 1 / 3,
    training: bool = False,
    generator: Any = None,
) -> Tensor:
    if not training:
        return TRANSLATIONS["leaky_relu"](t, tensor, (lower + upper) / 2)
    x = at_least_1(tensor)
    slopes = t.float.uniform(list(x.shape), lower, upper, x.dtype, x.device)
    factors = where(t, t.float.lower_equal(x, 0.0), slopes, t.full((), 1, x.dtype, x.device))
    write(noise, t.reshape(factors, noise.shape))
    return t.reshape(t.float.mul(x, factors), tensor.shape)


WRITES["rrelu_with_noise"] = rrelu_with_noise


@translates("rrelu_with_noise_backward")
def rrelu_with_noise_backward(
    t: Tables, grad: Tensor, tensor: Tensor, noise: Tensor, lower: float, upper: float, training: bool, *_: bool
) -> Tensor:
    if training:
        return mul(t, grad, noise)
    slope = t.full((), (lower + upper) / 2, grad.dtype, grad.device)
    ones = t.full((), 1, grad.dtype, grad.device)
    return mul(t, grad, where(t, TRANSLATIONS["gt"](t, tensor, 0), ones, slope))
