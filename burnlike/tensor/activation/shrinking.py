"""Activation functions that bring small elements to 0."""

from typing import TYPE_CHECKING

from ..core.base import B2, E, wrap
from ..core.kinds import Float
from ..core.receiver import float_spec

if TYPE_CHECKING:
    from ..tensor import Tensor


def tanhshrink(x: "Tensor[B2, E, Float]") -> "Tensor[B2, E, Float]":
    """x - tanh(x). `[..] -> [..]`.

    Torch: `F.tanhshrink`.
    """
    spec = float_spec("tanhshrink", x)
    return wrap(spec.activation.tanhshrink(x.inner), spec)


def hard_shrink(x: "Tensor[B2, E, Float]", lambd: float) -> "Tensor[B2, E, Float]":
    """x where |x| > lambd, 0 elsewhere. `[..] -> [..]`.

    Torch: `F.hardshrink`.
    Differs: lambd has no default.
    """
    spec = float_spec("hard_shrink", x)
    return wrap(spec.activation.hard_shrink(x.inner, lambd), spec)


def soft_shrink(x: "Tensor[B2, E, Float]", lambd: float) -> "Tensor[B2, E, Float]":
    """x moved by lambd towards 0 where |x| > lambd, 0 elsewhere. `[..] -> [..]`.

    Torch: `F.softshrink`.
    Differs: lambd has no default.
    """
    spec = float_spec("soft_shrink", x)
    return wrap(spec.activation.soft_shrink(x.inner, lambd), spec)


def shrink(x: "Tensor[B2, E, Float]", lambd: float, bias: float) -> "Tensor[B2, E, Float]":
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere. `[..] -> [..]`.

    Torch: none.
    """
    spec = float_spec("shrink", x)
    return wrap(spec.activation.shrink(x.inner, lambd, bias), spec)
