"""The first operand of a free function: a typed tensor of the kind and rank that the function takes."""

from typing import Any

from ..errors import TensorTypeError
from .kinds import Float
from .spec import Spec, title


def float_spec(name: str, x: Any) -> Spec:
    """The Spec of a Float tensor of any rank.

    Raises:
        TensorTypeError: no Tensor, or one of another kind.
    """
    try:
        spec = x.spec
        kind = spec.kind
    except AttributeError:
        found = f"{type(x).__module__}.{type(x).__qualname__}"
        raise TensorTypeError(title(name), f"expected a burnlike Tensor, got {found}; use Tensor(x, backend)") from None
    if kind is not Float:
        raise TensorTypeError(title(name), f"expected a Float tensor, got one of kind {kind.name}; use float()")
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
