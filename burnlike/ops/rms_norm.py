"""Root mean square layer normalization, fused.

y = x / sqrt(mean(x^2) + epsilon) * gamma, over the last dimension (Zhang & Sennrich 2019, eq. 4).
"""

import torch
from torch import Tensor

from ._example import Example
from ._function import call, differentiate
from ._library import fake, op
from .layer_norm import check_norm

_rms_norm = op("rms_norm")


def rms_norm(x: Tensor, gamma: Tensor, epsilon: float = 1e-5) -> Tensor:
    """Normalize the last dimension of `x` by its root mean square and scale it.

    Differentiable any number of times in `x` and `gamma`, from the second derivative on in plain torch.

    Args:
        x: `[..., d]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        gamma: `[d]`, of x's dtype or float32.
        epsilon: added to the mean square.

    Returns:
        `[..., d]`, contiguous, in x's dtype; sums are accumulated in float32 (float64 for float64).
    """
    return call("rms_norm", _rms_norm, rms_norm_reference, _check, x, gamma, epsilon)


def rms_norm_reference(x: Tensor, gamma: Tensor, epsilon: float = 1e-5) -> Tensor:
    """The same as `rms_norm` in plain torch, on any device."""
    dtype = torch.promote_types(x.dtype, torch.float32)
    values = x.to(dtype)
    scale = torch.rsqrt(values.square().mean(-1, keepdim=True) + epsilon)
    return (values * scale * gamma.to(dtype)).to(x.dtype)


def _check(x: Tensor, gamma: Tensor, epsilon: float) -> None:
    check_norm("rms_norm", x, gamma)


@fake("rms_norm")
def _(x: Tensor, gamma: Tensor, epsilon: float) -> Tensor:
    _check(x, gamma, epsilon)
    return x.new_empty(x.shape)


differentiate("rms_norm", "rms_norm_backward", rms_norm_reference, 2)

EXAMPLE = Example(rms_norm, "rows", "row")
