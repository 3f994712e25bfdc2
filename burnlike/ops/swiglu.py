"""SwiGLU, fused: silu(gate) * up, with silu(x) = x * sigmoid(x) (Shazeer 2020, eq. 5)."""

from torch import Tensor
from torch.nn import functional

from ._arguments import check_glu, halves, new_output
from ._example import Example
from ._function import call, differentiate
from ._library import fake, op

_swiglu = op("swiglu")


def swiglu(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """silu(gate) * up.

    Differentiable any number of times, from the second derivative on in plain torch.

    Memory: the result, and backward the gradients; gate and up are saved for backward, nothing else. Rows at any one
    distance, as halves of a matrix have, are read where they are; other strides are copied.

    Args:
        gate: `[..., d]`, or `[..., 2 d]` without `up`: the gate's values before those that it gates. float32, float16,
            bfloat16 or float64, on a CPU or CUDA device.
        up: `[..., d]`, of the gate's dtype.

    Returns:
        `[..., d]`, contiguous, in the gate's dtype, computed in float32 (float64 for float64). The gradient of a gate
        without `up` is one tensor, `[..., 2 d]`.
    """
    return call("swiglu", _swiglu, swiglu_reference, _check, gate, up)


def swiglu_reference(gate: Tensor, up: Tensor | None = None) -> Tensor:
    """The same as `swiglu` in plain torch, on any device."""
    gate_values, up_values = halves(gate, up)
    return (functional.silu(gate_values) * up_values).to(gate.dtype)


def _check(gate: Tensor, up: Tensor | None) -> None:
    check_glu("swiglu", gate, up)


@fake("swiglu")
def _(gate: Tensor, up: Tensor | None) -> Tensor:
    _check(gate, up)
    return new_output(gate, up)


differentiate("swiglu", "swiglu_backward", swiglu_reference, 2)

EXAMPLE = Example(swiglu, "rows", "rows")
