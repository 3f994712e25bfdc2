"""gelu(x + bias), fused, with gelu(x) = x * Phi(x) (Hendrycks & Gimpel 2016, section 2)."""

from math import gcd
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import ShapeError
from ._arguments import FLOATS, Approximate, check_approximate, check_tensor
from ._example import Example
from ._function import call, differentiate, is_recorded, is_transformed
from ._library import WITHOUT_NATIVE, fake, op

_bias_gelu = op("bias_gelu")

Form = Approximate | Literal["sigmoid"]


def bias_gelu(x: Tensor, bias: Tensor, approximate: Form = "none") -> Tensor:
    """gelu(x + bias), with a bias for each place of the last dimension.

    Differentiable any number of times, from the second derivative on in plain torch.

    Memory: the result, and backward the gradients, and sums over runs of rows: on a CPU at most 64 of `[d]`, on CUDA
    one for 8 rows and at most 4 MB, or one. x and bias are saved for backward, nothing else. Rows at any one distance
    are read where they are; other strides are copied.

    Args:
        x: `[..., d]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        bias: `[d]`, of x's dtype or float32.
        approximate: "none" for x * Phi(x), exact to the last places; "tanh" for the approximation of Hendrycks &
            Gimpel 2016, section 2, "sigmoid" for x * sigmoid(1.702 x) of the same place (CLIP's "quick GELU").

    Returns:
        `[..., d]`, contiguous, in x's dtype. The sum x + bias and the gradient of the bias are computed in float32
        (float64 for float64) and rounded once; the bits of that gradient are the same for any number of threads.

    Raises:
        ArgumentError: `approximate` is another word.
    """
    return call("bias_gelu", _bias_gelu, bias_gelu_reference, _check, x, bias, approximate)


def bias_gelu_reference(x: Tensor, bias: Tensor, approximate: Form = "none") -> Tensor:
    """The same as `bias_gelu` in plain torch, on any device."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    y = x.to(dtype) + bias.to(dtype)
    if approximate == "sigmoid":
        return (y * torch.sigmoid(1.702 * y)).to(x.dtype)
    return functional.gelu(y, approximate=approximate).to(x.dtype)


def approximate_gelu(x: Tensor, approximate: Literal["tanh", "sigmoid"]) -> Tensor:
    """The activation alone: by the op with a bias of 0 for many values on a CPU, else by torch's functions."""
    is_here = type(x) in (Tensor, torch.nn.Parameter) and x.is_cpu and x.is_contiguous() and x.dtype in FLOATS
    is_kept = torch.compiler.is_compiling() or is_recorded() or is_transformed() or "cpu" in WITHOUT_NATIVE
    # Of fewer values the call takes longer than the kernel saves; in short rows it does, too, as images have them.
    if is_here and not is_kept and x.numel() >= 2**14 and (width := gcd(x.numel(), 2**10)) >= 64:
        return bias_gelu(x.view(-1, width), x.new_zeros(width), approximate).view_as(x)
    return x * torch.sigmoid(1.702 * x) if approximate == "sigmoid" else functional.gelu(x, approximate=approximate)


def _check(x: Tensor, bias: Tensor, approximate: str) -> None:
    check_approximate("bias_gelu", approximate, ("none", "tanh", "sigmoid"))
    check_tensor("bias_gelu", "x", x)
    if x.dim() == 0:
        raise ShapeError("bias_gelu: expected x of at least one dimension, got a scalar")
    check_tensor("bias_gelu", "bias", bias, (x.dtype, torch.float32), x.device, x.shape[-1:])


@fake("bias_gelu")
def _(x: Tensor, bias: Tensor, approximate: str) -> Tensor:
    _check(x, bias, approximate)
    return x.new_empty(x.shape)


differentiate("bias_gelu", "bias_gelu_backward", bias_gelu_reference, 2)

EXAMPLE = Example(bias_gelu, "rows", "row")
