"""gelu(x + bias), fused, with gelu(x) = x * Phi(x) (Hendrycks & Gimpel 2016, section 2)."""

import torch
from torch import Tensor
from torch.nn import functional

from ..errors import ShapeError
from ._arguments import Approximate, check_approximate, check_tensor
from ._example import Example
from ._function import call, differentiate
from ._library import fake, op

_bias_gelu = op("bias_gelu")


def bias_gelu(x: Tensor, bias: Tensor, approximate: Approximate = "none") -> Tensor:
    """gelu(x + bias), with a bias for each place of the last dimension.

    Differentiable any number of times, from the second derivative on in plain torch.

    Memory: the result, and backward the gradients, and sums over runs of rows: on a CPU at most 64 of `[d]`, on CUDA
    one for 8 rows and at most 4 MB, or one. x and bias are saved for backward, nothing else. Rows at any one distance
    are read where they are; other strides are copied.

    Args:
        x: `[..., d]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        bias: `[d]`, of x's dtype or float32.
        approximate: "none" for x * Phi(x), exact to the last places; "tanh" for the approximation of Hendrycks &
            Gimpel 2016, section 2.

    Returns:
        `[..., d]`, contiguous, in x's dtype. The sum x + bias and the gradient of the bias are computed in float32
        (float64 for float64) and rounded once; the bits of that gradient are the same for any number of threads.

    Raises:
        ArgumentError: `approximate` is another word.
    """
    return call("bias_gelu", _bias_gelu, bias_gelu_reference, _check, x, bias, approximate)


def bias_gelu_reference(x: Tensor, bias: Tensor, approximate: Approximate = "none") -> Tensor:
    """The same as `bias_gelu` in plain torch, on any device."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    return functional.gelu(x.to(dtype) + bias.to(dtype), approximate=approximate).to(x.dtype)


def _check(x: Tensor, bias: Tensor, approximate: str) -> None:
    check_approximate("bias_gelu", approximate)
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
