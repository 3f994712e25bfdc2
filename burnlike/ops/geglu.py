"""GEGLU, fused: gelu(gate) * up, with gelu(x) = x * Phi(x) (Shazeer 2020, eq. 5)."""

from torch import Tensor
from torch.nn import functional

from ._arguments import Approximate, check_approximate, check_glu, halves, new_output
from ._function import call, differentiate
from ._library import fake, op

_geglu = op("geglu")


def geglu(gate: Tensor, up: Tensor | None = None, approximate: Approximate = "none") -> Tensor:
    """gelu(gate) * up.

    Differentiable any number of times, from the second derivative on in plain torch.

    Memory: the result, and backward the gradients; gate and up are saved for backward, nothing else. Rows at any one
    distance, as halves of a matrix have, are read where they are; other strides are copied.

    Args:
        gate: `[..., d]`, or `[..., 2 d]` without `up`: the gate's values before those that it gates. float32, float16,
            bfloat16 or float64, on a CPU or CUDA device.
        up: `[..., d]`, of the gate's dtype.
        approximate: "none" for x * Phi(x), exact to the last places; "tanh" for the approximation of Hendrycks &
            Gimpel 2016, section 2.

    Returns:
        `[..., d]`, contiguous, in the gate's dtype, computed in float32 (float64 for float64). The gradient of a gate
        without `up` is one tensor, `[..., 2 d]`.

    Raises:
        ShapeError, DTypeError, DeviceError: a tensor is not as said above.
        ArgumentError: `approximate` is another word.
    """
    return call("geglu", _geglu, geglu_reference, _check, gate, up, approximate)


def geglu_reference(gate: Tensor, up: Tensor | None = None, approximate: Approximate = "none") -> Tensor:
    """The same as `geglu` in plain torch, on any device."""
    gate_values, up_values = halves(gate, up)
    return (functional.gelu(gate_values, approximate=approximate) * up_values).to(gate.dtype)


def _check(gate: Tensor, up: Tensor | None, approximate: str) -> None:
    check_approximate("geglu", approximate)
    check_glu("geglu", gate, up)


@fake("geglu")
def _(gate: Tensor, up: Tensor | None, approximate: str) -> Tensor:
    _check(gate, up, approximate)
    return new_output(gate, up)


differentiate("geglu", "geglu_backward", geglu_reference, 2)
