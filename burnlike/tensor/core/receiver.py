"""The first operand of a free function: a typed tensor, of a kind and rank that the function takes."""

from typing import Any

from ...errors import TensorTypeError
from .kinds import Bool, Float
from .spec import Spec, title


def any_spec(name: str, x: Any) -> Spec:
    """The Spec of a Tensor of any kind.

    Raises:
        TensorTypeError: no Tensor.
    """
    try:
        return x.spec
    except AttributeError:
        found = f"{type(x).__module__}.{type(x).__qualname__}"
        raise TensorTypeError(title(name), f"expected a burnlike Tensor, got {found}; use Tensor(x, backend)") from None


def numeric_spec(name: str, x: Any) -> Spec:
    """The Spec of a Float or Int tensor of any rank.

    Raises:
        TensorTypeError: no Tensor, or one of Bool.
    """
    spec = any_spec(name, x)
    if spec.kind is Bool:
        raise TensorTypeError(title(name), "expected a Float or Int tensor, got one of kind Bool; use float() or int()")
    return spec


def float_spec(name: str, x: Any) -> Spec:
    """The Spec of a Float tensor of any rank.

    Raises:
        TensorTypeError: no Tensor, or one of another kind.
    """
    try:
        spec = x.spec
    except AttributeError:
        spec = any_spec(name, x)
    if spec.kind is not Float:
        raise TensorTypeError(title(name), f"expected a Float tensor, got one of kind {spec.kind.name}; use float()")
    return spec


def ranked_spec(name: str, x: Any, rank: int) -> Spec:
    """The Spec of a Float tensor of one rank.

    Raises:
        TensorTypeError: no Tensor, or one of another kind or rank.
    """
    spec = float_spec(name, x)
    if spec.rank != rank:
        raise TensorTypeError(title(name), f"expected a tensor of rank {rank}, got one of rank {spec.rank}")
    return spec
