"""Checks the other operand of an operation against the first, or converts it, before torch sees it."""

from typing import Any, NoReturn

import torch

from ...errors import TensorTypeError, TensorValueError
from .base import like
from .kinds import Bool, Float, Int
from .spec import Spec, find_spec, title


def match(name: str, spec: Spec, other: Any) -> tuple[Any, Spec]:
    """The other operand of an element-wise operation, and the Spec of the result.

    Returns:
        `other` as the backend's function takes it: a torch tensor, or a scalar in the kind of `spec`. The Spec is
        `spec`, in autocast that of the element type which torch promotes to.

    Raises:
        TensorTypeError: another backend, kind, rank, dtype or device, or nothing that can be an operand.
    """
    kind = type(other)
    if (kind is float and spec.kind is Float) or (kind is int and spec.kind is not Bool):
        return other, spec
    if kind is spec.tensor:
        found, value = other.spec, other.inner
    elif isinstance(other, torch.Tensor):
        found = find_spec(other, spec.family)
        value = other if spec.tracks or not other.requires_grad else spec.float.ops.detach(other)
    else:
        return scalar(name, spec, other), spec
    if found is spec:
        return value, spec
    check_same(name, spec, found)
    return value, spec.family[torch.promote_types(spec.dtype, found.dtype)][spec.rank]


def operand(name: str, spec: Spec, other: Any) -> Any:
    """`other` as the backend's function takes it: a torch tensor, or a scalar in the kind of `spec`.

    Raises:
        TensorTypeError: another backend, kind, rank, dtype or device, or nothing that can be an operand.
    """
    return match(name, spec, other)[0]


def mixed(name: str, tensor: Any, other: Any) -> Any:
    """A binary operation whose other operand is a scalar, a torch tensor, or does not fit."""
    value, spec = match(name, tensor.spec, other)
    try:
        return like(getattr(spec.ops, name)(tensor.inner, value), spec)
    except Exception as error:
        fail(name, error, tensor.inner, value)


def different_backends(spec: Spec, other: Spec) -> str:
    """The message for two tensors whose backends differ, which says how to move one."""
    tracks = spec.tracks != other.tracks and spec.backend.device == other.backend.device
    how = "autodiff() or without_autodiff() goes to the other" if tracks else "use to_device(backend)"
    return f"on different backends: {spec.backend!r} and {other.backend!r}; {how}"


def check_same(name: str, spec: Spec, other: Spec) -> None:
    """Refuse an operand of another backend, kind, rank or element type; in autocast torch promotes element types."""
    reasons: list[str] = []
    if other.backend != spec.backend:
        reasons.append(f"The tensors are {different_backends(spec, other)}")
    if other.kind is not spec.kind:
        reasons.append(
            f"The tensors have different kinds: {spec.kind.name} and {other.kind.name}; convert one"
            " (float(), int(), bool())"
        )
    elif other.dtype is not spec.dtype and not torch.is_autocast_enabled(spec.backend.device.type):
        reasons.append(
            f"The tensors have different element types: {spec.dtype} and {other.dtype}, and nothing is promoted;"
            " use cast(dtype)"
        )
    if other.rank != spec.rank:
        reasons.append(
            f"The tensors have different ranks: {spec.rank} and {other.rank};"
            f" use unsqueeze(rank={max(spec.rank, other.rank)}) or reshape"
        )
    if reasons:
        raise TensorTypeError(title(name), *reasons)


def scalar(name: str, spec: Spec, value: Any) -> Any:
    """A Python number in the kind of `spec`: an Int tensor takes the whole part, a Float tensor any number.

    Raises:
        TensorTypeError: not a number.
        TensorValueError: NaN or infinite for an Int tensor.
    """
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return value
    if not isinstance(value, int | float):
        item = getattr(value, "item", None)  # NumPy's scalars
        if item is None or getattr(value, "ndim", 1) != 0:
            raise TensorTypeError(
                title(name),
                f"expected {_a(spec)} of rank {spec.rank} or a number, got {type(value).__name__}"
                + (
                    "; Tensor.from_data(it, backend) makes one of it"
                    if hasattr(value, "__len__") and not isinstance(value, str)
                    else ""
                ),
            )
        value = item()
    if spec.kind is Float:
        return float(value)
    if spec.kind is Bool:
        return bool(value)
    try:
        return int(value)
    except (ValueError, OverflowError) as error:
        raise TensorValueError(title(name), f"{value} can't be a number of an Int tensor") from error


# What torch raises for wrong operands. Nothing derived from them: out of memory, a failed kernel, and the exceptions by
# which torch.utils.checkpoint steers are no mistakes of the caller.
_COMPLAINTS = (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError)


def fail(name: str, error: Exception, *operands: Any) -> NoReturn:
    """Raise torch's complaint about shapes, indices or devices as a TensorError that shows the operands.

    Anything else is raised as it came.
    """
    if type(error) not in _COMPLAINTS:
        raise error
    shown = [f"shape {list(it.shape)}" for it in operands if hasattr(it, "shape")]
    said = str(error).splitlines() or ["torch refuses the operands"]
    if said[0] == "ZeroDivisionError":
        said = ["an Int can't be divided by zero"]
    reasons = [said[0], *([f"Operands: {', '.join(shown)}"] if shown else [])]
    raise (TensorTypeError if type(error) is TypeError else TensorValueError)(title(name), *reasons) from error


def operand_of(name: str, other: Any, wanted: Spec, *, any_rank: bool = False) -> torch.Tensor:
    """The torch tensor of an operand of another kind than the receiver's, such as a mask or indices.

    Args:
        name: the operation.
        other: a Tensor or a torch tensor.
        wanted: its backend, kind and rank are required, its element type is not.
        any_rank: whether its rank may be another one.

    Raises:
        TensorTypeError: not a tensor, or another backend, kind or rank.
    """
    if isinstance(other, torch.Tensor):
        spec, inner = find_spec(other, wanted.family), other
        inner = wanted.float.ops.detach(inner) if inner.requires_grad and not wanted.tracks else inner
    elif type(other) is wanted.tensor:
        spec, inner = other.spec, other.inner
    else:
        raise TensorTypeError(title(name), f"expected {_a(wanted)}, got {type(other).__name__}")
    if spec.kind is not wanted.kind:
        raise TensorTypeError(title(name), f"expected {_a(wanted)}, got one of kind {spec.kind.name}")
    if not any_rank and spec.rank != wanted.rank:
        raise TensorTypeError(title(name), f"expected {_a(wanted)} of rank {wanted.rank}, got rank {spec.rank}")
    if spec.backend != wanted.backend:
        raise TensorTypeError(title(name), different_backends(wanted, spec))
    return inner


def _a(spec: Spec) -> str:
    return f"an {spec.kind.name} tensor" if spec.kind is Int else f"a {spec.kind.name} tensor"
