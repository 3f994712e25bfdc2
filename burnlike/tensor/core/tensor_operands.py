"""Operands that must be tensors, not numbers."""

from typing import Any

import torch
from torch.nn import Parameter

from ...errors import TensorTypeError
from .operands import operand, operand_of
from .spec import Spec, title


def tensor_operand(name: str, wanted: Spec, other: Any) -> torch.Tensor:
    """The torch tensor of an operand of the backend, kind, rank and element type of `wanted`.

    Raises:
        TensorTypeError: not a tensor, or one that does not fit.
    """
    kind = type(other)
    if kind is wanted.tensor:
        if other.spec is wanted:
            return other.inner
    elif kind is Parameter and other.dtype is wanted.dtype and other.ndim == wanted.rank and wanted.tracks:
        return other
    elif not isinstance(other, torch.Tensor):
        raise TensorTypeError(
            title(name), f"expected a {wanted.kind.name} tensor of rank {wanted.rank}, got {type(other).__name__}"
        )
    return operand(name, wanted, other)


def inner_of(name: str, other: Any, wanted: Spec) -> torch.Tensor:
    """The torch tensor of an operand of the backend, kind and rank of `wanted`, such as a mask, indices or a weight.

    Raises:
        TensorTypeError: not a tensor, or another backend, kind or rank.
    """
    if type(other) is wanted.tensor and other.spec is wanted:
        return other.inner
    return operand_of(name, other, wanted)


def index_of(name: str, other: Any, wanted: Spec, *, any_rank: bool = False) -> torch.Tensor:
    """The torch tensor of indices, as int64: the backend, kind and rank of `wanted`, which is an `index` Spec.

    Args:
        name: the operation.
        other: a Tensor or a torch tensor.
        wanted: what the indices are, whatever Int element type they come in.
        any_rank: whether their rank may be another one.

    Raises:
        TensorTypeError: not a tensor, or another backend, kind or rank.
    """
    inner = operand_of(name, other, wanted, any_rank=any_rank) if any_rank else inner_of(name, other, wanted)
    return inner if inner.dtype is wanted.dtype else wanted.ops.cast(inner, wanted.dtype)


def inner_as(name: str, other: Any, wanted: Spec) -> torch.Tensor:
    """`inner_of` for values that mix with others of `wanted`: of its element type too, except in autocast.

    Raises:
        TensorTypeError: as `inner_of`, or another element type.
    """
    inner = inner_of(name, other, wanted)
    if inner.dtype is not wanted.dtype and not torch.is_autocast_enabled(wanted.backend.device.type):
        raise TensorTypeError(
            title(name),
            f"expected an operand of {wanted.dtype}, got one of {inner.dtype}; nothing is promoted, use cast(dtype)",
        )
    return inner
