"""GEGLU, fused: gelu(gate) * up, with gelu(x) = x * Phi(x) (Shazeer 2020, eq. 5)."""

from torch import Tensor
from torch.nn import functional

from ._arguments import Approximate, check_approximate, check_glu, halves, new_output
from ._example import Example
from ._function import call, differentiate
from ._library import fake, op

_geglu = op("geglu")


def geglu(gate: Tensor, up: Tensor | None = None, approximate: Approximate = "none") -> Tensor:
    """gelu(gate) * up. Shapes, dtypes, derivatives and memory are those of `swiglu`.

    Args:
        gate, up: as for `swiglu`.
        approximate: "none" for x * Phi(x), exact to the last places; "tanh" for the approximation of Hendrycks &
            Gimpel 2016, section 2.

    Raises:
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

EXAMPLE = Example(geglu, "rows", "rows")
