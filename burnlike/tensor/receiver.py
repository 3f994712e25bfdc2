"""The operands of free functions: typed tensors of the kind and rank that the function takes."""

from typing import Any

import torch

from ..errors import TensorTypeError
from .kinds import Float
from .operands import operand_of
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


def inner_of(name: str, other: Any, wanted: Spec) -> torch.Tensor:
    """The torch tensor of an operand: of the backend, kind and rank of `wanted`, as Tensor or as torch tensor.

    Raises:
        TensorTypeError: not a tensor, or another backend, kind or rank.
    """
    if type(other) is wanted.tensor and other.spec is wanted:
        return other.inner
    return operand_of(name, other, wanted)
