"""A linear layer whose products are of numbers in 8 bits, in both passes: int8 mixed-precision training.

Each side of a product is rounded to 8 bits as it is read, each row of the left side and each column of the right side
by a scale of its own; weights and their gradients stay floats. After torchao's `Int8MixedPrecisionTrainingConfig`.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import DTypeError, ShapeError
from ._arguments import autocast_dtype, check_shape, check_tensor
from ._function import call
from ._library import autograd, fake, flops, op

DTYPES = (torch.float32, torch.bfloat16)
LONGEST_SUM = 2**17
"""127 * 127 times as many fit into 32 bits."""

_int8_linear = op("int8_linear")


def int8_linear(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias of rows that are rounded to 8 bits; so are the products of both gradients.

    Of a row, scale = max |value| / 127 and q = round(value / scale), ties to even. A product is the sum of q_x q_weight
    in 32 bits, exact, times both scales in float32, plus bias, rounded once to the result's dtype. The gradient of x
    rounds the rows of the result's gradient and the columns of weight, that of weight the columns of both the result's
    gradient and x; rounding itself has the derivative of doing nothing. Sums longer than 131072 are taken in parts with
    scales of their own. NaN or infinity makes all results of its row NaN.

    Native on a CPU, where processors with VNNI (AVX-512, or AVX-VNNI) multiply in 8 bits; every CPU gives the same
    bits. Elsewhere it is `int8_linear_reference`, which gains nothing. Differentiable any number of times, but not in
    forward mode.

    Memory: both sides in 8 bits during the call. Saves x and weight.

    Args:
        x: `[..., d_input]`, float32 or bfloat16.
        weight: `[d_output, d_input]`, float32 or bfloat16, also another than x's; of any strides.
        bias: `[d_output]` or None.

    Returns:
        `[..., d_output]` in x's dtype, within autocast in bfloat16. Gradients have the dtypes of x and weight.
    """
    dtype = autocast_dtype(x) or x.dtype
    if dtype not in DTYPES:
        raise DTypeError(f"int8_linear: expected float32 or bfloat16, got {str(dtype).removeprefix('torch.')}")
    _check(x, weight, bias, dtype == torch.bfloat16)
    if x.dim() == 1:
        return _product(x[None], weight, bias, dtype)[0]
    return _product(x.flatten(0, -2), weight, bias, dtype).unflatten(0, x.shape[:-1])


def int8_linear_reference(x: Tensor, weight: Tensor, bias: Tensor | None = None, to_bfloat16: bool = False) -> Tensor:
    """The same as `int8_linear` in plain torch, on any device; of matrices, in float32 or bfloat16.

    Its sums are in float64, which holds them exactly.
    """
    return _Reference.apply(x, weight, bias, to_bfloat16)


def _product(x: Tensor, weight: Tensor, bias: Tensor | None, dtype: torch.dtype) -> Tensor:
    depth, to_bfloat16 = x.shape[1], dtype == torch.bfloat16
    if depth <= LONGEST_SUM:
        return _one_product(x, weight, bias, to_bfloat16)
    parts = [slice(first, first + LONGEST_SUM) for first in range(0, depth, LONGEST_SUM)]
    total = torch.stack([_one_product(x[:, part], weight[:, part], None, False) for part in parts]).sum(0)
    return (total if bias is None else total + bias).to(dtype)


def _one_product(x: Tensor, weight: Tensor, bias: Tensor | None, to_bfloat16: bool) -> Tensor:
    if x.device.type not in ("cpu", "meta"):
        return int8_linear_reference(x, weight, bias, to_bfloat16)
    return call("int8_linear", _int8_linear, int8_linear_reference, _check, x, weight, bias, to_bfloat16)


def _check(x: Tensor, weight: Tensor, bias: Tensor | None, to_bfloat16: bool) -> None:
    check_tensor("int8_linear", "x", x, DTYPES)
    check_tensor("int8_linear", "weight", weight, DTYPES, x.device)
    if x.dim() == 0 or weight.dim() != 2:
        raise ShapeError(
            "int8_linear: expected x [..., d_input] and weight [d_output, d_input], got"
            f" {list(x.shape)} and {list(weight.shape)}"
        )
    check_shape("int8_linear", "x", x, (*x.shape[:-1], weight.shape[1]))
    if bias is not None:
        check_tensor("int8_linear", "bias", bias, device=x.device, shape=weight.shape[:1])


@fake("int8_linear")
def _(x: Tensor, weight: Tensor, bias: Tensor | None, to_bfloat16: bool) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0], dtype=torch.bfloat16 if to_bfloat16 else torch.float32)


@flops("int8_linear")
def _(x: Sequence[int], weight: Sequence[int], *_: object, **__: object) -> int:
    return 2 * x[0] * x[1] * weight[0]


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None, bool], output: Tensor) -> None:
    x, weight, bias, _ = inputs
    ctx.save_for_backward(x, weight)
    ctx.bias_dtype = None if bias is None else bias.dtype


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    x, weight = ctx.saved_tensors
    x_needed, weight_needed, bias_needed = ctx.needs_input_grad[:3]
    grad_weight = None
    if weight_needed and weight.stride(0) == 1:  # in its order of memory: of burnlike's layers, transposed
        grad_weight = _product(x.mT, grad.mT, None, weight.dtype).mT
    elif weight_needed:
        grad_weight = _product(grad.mT, x.mT, None, weight.dtype)
    return (
        _product(grad, weight.mT, None, x.dtype) if x_needed else None,
        grad_weight,
        grad.sum(0, dtype=torch.float32).to(ctx.bias_dtype) if bias_needed else None,
        None,
    )


autograd("int8_linear", _backward, _save)


class _Reference(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, weight: Tensor, bias: Tensor | None, to_bfloat16: bool) -> Tensor:
        rows, row_scales = _rounded(x)
        columns, column_scales = _rounded(weight)
        with torch.autocast(x.device.type, enabled=False):
            sums = (rows @ columns.mT).float()
        result = sums * column_scales.mT * row_scales
        result = result if bias is None else result + bias.float()
        return result.bfloat16() if to_bfloat16 else result

    setup_context = staticmethod(_save)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _backward(ctx, *grads)


def _rounded(x: Tensor) -> tuple[Tensor, Tensor]:
    """Rows as whole numbers in float64, and their scales `[rows, 1]`."""
    x = x.float()
    largest = x.abs().amax(1, keepdim=True) if x.shape[1] else x.new_zeros(len(x), 1)
    scale = largest / 127
    # Below 2^-120, 1 / scale would overflow in float32.
    scale = torch.where(largest.isfinite(), torch.where(scale < 2.0**-120, 0.0, scale), torch.nan)
    factor = torch.where(scale > 0, 1 / scale, 0.0)
    return (x * factor).round().nan_to_num(0.0).double(), scale
