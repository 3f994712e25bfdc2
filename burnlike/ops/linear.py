"""A linear layer in float32 on a CPU by the faster of torch's two libraries for matrix products.

On a CPU torch multiplies float32 matrices by MKL, which on other makers' processors leaves out AVX-512. oneDNN, by
which torch multiplies 16-bit matrices and convolves, does not: on an AMD EPYC (Zen 5) it takes 0.45 to 0.6 of the time.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from .._torch_compat import onednn
from .._torch_compat.dispatch import below_autograd
from .._torch_compat.transforms import is_batched_by_autograd
from ..errors import ShapeError
from . import half_products
from ._arguments import autocast_dtype, check_same_device, check_storage
from ._divided import all_divided, are_divided
from ._function import is_recorded, is_transformed
from ._library import WITHOUT_NATIVE, autograd, directly, fake, flops, op

# Below, a call takes longer than the product; longer sums oneDNN splits among threads, with other bits for each number.
_FEWEST_PRODUCTS = 2**22
_SMALLEST_SIZE = 16
LONGEST_SUM = 2**14
_LARGEST_PACKED = 2**21
"""Values of the side that `weight_backward` packs, and reads again for each block: more do not stay in the caches."""


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias, as `functional.linear`.

    In 16 bits that an x86-64 CPU can't multiply, which torch does by slow loops, parts are converted and multiplied in
    float32; see `matmul`. In float32 on an x86-64 CPU with AVX-512 that is not Intel's, large products are oneDNN's, in
    both passes; `torch.backends.mkldnn.flags(enabled=False)` keeps them torch's. All else is `functional.linear`.
    Differentiable any number of times. The rounding error in float32 is up to 2.3 times MKL's, 6e-7 of the size of the
    result for sums of 2048.

    Args:
        x: `[..., d_input]`.
        weight: `[d_output, d_input]`, of any strides.
        bias: `[d_output]` or None.

    Returns:
        `[..., d_output]`.
    """
    is_plain = type(x) in _TYPES and type(weight) in _TYPES and (bias is None or type(bias) in _TYPES)
    if not is_plain and are_divided(x, weight, bias):
        return _divided(*all_divided(x, weight, bias))
    if half_products.are_slow(x, weight, bias) and half_products.gains(x, weight):  # in this order, see `is_faster`
        return half_products.linear(x, weight, bias)
    if not is_faster(x, weight) or (bias is not None and bias.dtype != torch.float32):
        return functional.linear(x, weight, bias)
    return _matrix_product(x.flatten(0, -2), weight, bias).unflatten(0, x.shape[:-1])


def _divided(x: Any, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The layer on DTensors by torch's rules, which in torch 2.11 flatten rows only if divided along the first one."""
    middle = [it.dim for it in x.placements if type(it).__name__ == "Shard" and 0 < it.dim < x.dim() - 1]
    if not middle:
        return functional.linear(x, weight, bias)
    return functional.linear(x.movedim(middle[0], 0), weight, bias).movedim(0, middle[0])


def is_faster(x: Tensor, weight: Tensor) -> bool:
    """True if `linear` multiplies these in a faster way than `functional.linear` does."""
    if x.dtype != torch.float32 or weight.dtype != torch.float32 or not _MACHINE_GAINS:
        return False
    if x.device.type != "cpu" or weight.device.type != "cpu" or type(x) not in _TYPES or type(weight) not in _TYPES:
        return False
    # Before sizes are compared, which limits them in what `torch.export` records.
    if is_transformed() or is_recorded() or autocast_dtype(x) is not None:
        return False
    if weight.dim() != 2 or x.dim() == 0 or x.shape[-1] != weight.shape[1] or x.numel() == 0:
        return False
    columns, depth = weight.shape
    rows = x.numel() // depth
    is_large = min(rows, columns, depth) >= _SMALLEST_SIZE and rows * columns * depth >= _FEWEST_PRODUCTS
    return is_large and depth <= LONGEST_SUM and bool(torch.backends.mkldnn.enabled)


_TYPES = (Tensor, torch.nn.Parameter)
_MACHINE_GAINS = onednn.is_faster()


def machine_gains(weight: Tensor | None = None) -> bool:
    """True if `linear` has faster products than torch on this machine: in float32, within autocast, or of a weight."""
    dtypes = {torch.bfloat16} if weight is None else {torch.bfloat16, weight.dtype}
    return _MACHINE_GAINS or not dtypes.isdisjoint(half_products.SLOW)


def multiplies_faster(dtype: torch.dtype) -> bool:
    """True if there may be faster products of weights of this dtype than torch's, in their dtype or within autocast."""
    is_faster = dtype in half_products.SLOW or (dtype == torch.float32 and _MACHINE_GAINS)
    return is_faster or (bool(half_products.SLOW) and torch.is_autocast_enabled("cpu"))


# An op of its own, since compilers take oneDNN's with constant weights only (torch 2.13).
_library = torch.library.Library("burnlike", "FRAGMENT")
_library.define("matrix_product(Tensor x, Tensor y, Tensor? bias) -> Tensor")


def _compute(x: Tensor, y: Tensor, bias: Tensor | None) -> Tensor:
    if x.dim() != 2 or y.dim() != 2:
        raise ShapeError(f"linear: expected two matrices, got {list(x.shape)} and {list(y.shape)}")
    named = {"x": x, "y": y, "bias": bias}
    check_storage("linear", {name: value for name, value in named.items() if value is not None})
    return onednn.product(x, y, bias)


_library.impl("matrix_product", _compute, "CompositeExplicitAutograd")
_matrix_product = directly("matrix_product", torch.ops.burnlike.matrix_product.default)


@torch.library.register_fake("burnlike::matrix_product", lib=_library)
def _(x: Tensor, y: Tensor, bias: Tensor | None) -> Tensor:
    check_same_device("linear", x, (y, bias))
    return x.new_empty((x.shape[0], y.shape[0]))


@flops("matrix_product")
def _(x: Sequence[int], y: Sequence[int], *_: object, **__: object) -> int:
    return 2 * x[0] * x[1] * y[0]


def _product(x: Tensor, y: Tensor) -> Tensor:
    return functional.linear(x, y) if x.shape[1] > LONGEST_SUM else _matrix_product(x, y, None)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, y = ctx.saved_tensors
    x_needed, y_needed, bias_needed = ctx.needs_input_grad
    grad_x, grad_y = _product(grad, y.mT) if x_needed else None, _weight_gradient(grad, x, y) if y_needed else None
    return grad_x, grad_y, grad.sum(0) if bias_needed else None


def _weight_gradient(grad: Tensor, x: Tensor, y: Tensor) -> Tensor:
    is_native = "cpu" not in WITHOUT_NATIVE and not torch.is_grad_enabled() and not is_batched_by_autograd(grad)
    if is_native and (gradient := packed_gradient(grad, x, y)) is not None:
        return gradient
    # oneDNN copies the first matrix to rows: the narrower one.
    return _product(x.mT, grad.mT).mT if x.shape[1] < grad.shape[1] else _product(grad.mT, x.mT)


def packed_gradient(grad: Tensor, x: Tensor, weight: Tensor) -> Tensor | None:
    """grad^T x by the native op, in the weight's order of memory; None for sides that would not stay in the caches."""
    is_swapped = grad.shape[1] < x.shape[1]  # the narrower side is packed
    wide, narrow = (x, grad) if is_swapped else (grad, x)
    if narrow.numel() > _LARGEST_PACKED:
        return None
    with below_autograd():
        gradient = _weight_backward(wide, narrow, (weight.stride(0) < weight.stride(1)) != is_swapped)
    return gradient.mT if is_swapped else gradient


_weight_backward = op("weight_backward")
"""grad^T x of two matrices of as many rows, of which x is packed, by columns or by rows in memory; its sums are of 96
products each."""


@fake("weight_backward")
def _(grad: Tensor, x: Tensor, by_columns: bool) -> Tensor:
    gradient = x.new_empty((x.shape[1], grad.shape[1]) if by_columns else (grad.shape[1], x.shape[1]))
    return gradient.mT if by_columns else gradient


@flops("weight_backward")
def _(grad: Sequence[int], x: Sequence[int], *_: object, **__: object) -> int:
    return 2 * grad[0] * grad[1] * x[1]


autograd("matrix_product", _backward, half_products.save_factors, _library)
