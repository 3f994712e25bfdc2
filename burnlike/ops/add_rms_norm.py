"""The sum of two tensors and its RMS normalization, in one pass: x + residual, which a block's next sum needs, and
rms_norm(x + residual)."""

from torch import Tensor

from ._example import Example
from ._function import call
from ._library import op
from .add_layer_norm import differentiate_sum_and_norm
from .layer_norm import check_norm
from .rms_norm import rms_norm_reference

_add_rms_norm = op("add_rms_norm")


def add_rms_norm(x: Tensor, residual: Tensor, gamma: Tensor, epsilon: float = 1e-5) -> tuple[Tensor, Tensor]:
    """`rms_norm` of x + residual, and the sum itself.

    The bits are those of the sum and of `rms_norm` of it. Differentiable any number of times, from the
    second derivative on in plain torch; the gradients of both results come into one pass, and what `x` and `residual`
    get is the same tensor.

    Memory: allocates the two results; keeps nothing for backward but the sum and `gamma` themselves. Backward allocates
    one gradient for `x` and `residual`, and what that of `rms_norm` does.

    Args:
        x: `[..., d]`, float32, float16, bfloat16 or float64, on a CPU or CUDA device.
        residual: as x.
        gamma: `[d]`, of x's dtype or float32.
        epsilon: added to the mean square.

    Returns:
        The normalized sum and the sum, each `[..., d]`, contiguous, in x's dtype.
    """
    return call("add_rms_norm", _add_rms_norm, add_rms_norm_reference, _check, x, residual, gamma, epsilon)


def add_rms_norm_reference(x: Tensor, residual: Tensor, gamma: Tensor, epsilon: float = 1e-5) -> tuple[Tensor, Tensor]:
    """The same as `add_rms_norm` in plain torch, on any device."""
    total = x + residual
    return rms_norm_reference(total, gamma, epsilon), total


def _check(x: Tensor, residual: Tensor, gamma: Tensor, epsilon: float) -> None:
    check_norm("add_rms_norm", x, gamma, residual=residual)


differentiate_sum_and_norm("add_rms_norm", "add_rms_norm_backward", _check, rms_norm_reference, has_beta=False)

EXAMPLE = Example(lambda *tensors: add_rms_norm(*tensors)[0], "rows", "rows", "row")
