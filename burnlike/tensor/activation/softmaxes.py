"""Softmax and its relatives, and the gated linear unit: activation functions along a dimension."""

from typing import TYPE_CHECKING

from ...errors import TensorValueError
from ..core.axes import axis
from ..core.base import B2, E, like, wrap
from ..core.kinds import Float
from ..core.operands import float_spec

if TYPE_CHECKING:
    from ..tensor import Tensor


def softmax(x: "Tensor[B2, E, Float]", dim: int) -> "Tensor[B2, E, Float]":
    """e^x / sum(e^x) along a dimension. `[..] -> [..]`.

    Torch: `F.softmax`.
    Differs: the dimension has no default.
    """
    spec = float_spec("softmax", x)
    if type(dim) is not int or not 0 <= dim < spec.rank:
        dim = axis("Softmax", dim, spec.rank)
    return like(spec.activation.softmax(x.inner, dim), spec)


def softmin(x: "Tensor[B2, E, Float]", dim: int) -> "Tensor[B2, E, Float]":
    """softmax(-x) along a dimension. `[..] -> [..]`.

    Torch: `F.softmin`.
    Differs: the dimension has no default.
    """
    spec = float_spec("softmin", x)
    return like(spec.activation.softmin(x.inner, axis("Softmin", dim, spec.rank)), spec)


def log_softmax(x: "Tensor[B2, E, Float]", dim: int) -> "Tensor[B2, E, Float]":
    """Logarithm of the softmax along a dimension. `[..] -> [..]`.

    Torch: `F.log_softmax`.
    Differs: the dimension has no default.
    """
    spec = float_spec("log_softmax", x)
    return like(spec.activation.log_softmax(x.inner, axis("Log Softmax", dim, spec.rank)), spec)


def quiet_softmax(x: "Tensor[B2, E, Float]", dim: int) -> "Tensor[B2, E, Float]":
    """e^x / (1 + sum(e^x)) along a dimension: all weights can be near 0. `[..] -> [..]`. Torch: none."""
    spec = float_spec("quiet_softmax", x)
    return like(spec.activation.quiet_softmax(x.inner, axis("Quiet Softmax", dim, spec.rank)), spec)


def glu(x: "Tensor[B2, E, Float]", dim: int) -> "Tensor[B2, E, Float]":
    """The first half along a dimension times the sigmoid of the second. `[.., 2n, ..] -> [.., n, ..]`.

    Torch: `F.glu`.
    Differs: the dimension has no default.

    Raises:
        TensorValueError: the size of the dimension is odd.
    """
    spec = float_spec("glu", x)
    dim = axis("Glu", dim, spec.rank)
    size = x.inner.shape[dim]
    if size % 2:
        raise TensorValueError("Glu", f"expected an even size of dimension {dim}, got {size}: it is cut in halves")
    return wrap(spec.activation.glu(x.inner, dim), spec)
