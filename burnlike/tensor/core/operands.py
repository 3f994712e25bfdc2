"""Checks the operands of an operation, or converts them, before torch sees them. No number is cut or wrapped."""

import math
from typing import Any, NoReturn

import torch
from torch.nn import Parameter

from ...errors import TensorTypeError, TensorValueError
from .base import wrap
from .dtypes import KINDS
from .kinds import Bool, Float, Int, Kind
from .spec import Spec, find_spec, title

SMALL = 127
"""Any Int element type holds the numbers from 0 to this, and torch takes them beside any Float."""


def scalar(name: str, spec: Spec, value: Any) -> Any:
    """A Python number in the kind of `spec`. Raises TensorTypeError: not a number.

    A Float tensor takes any number, an Int tensor a whole one that its element type holds; for a Bool tensor all but 0
    is True, as in torch.

    Raises TensorValueError: a number that the tensor's elements can't be.
    """
    if not isinstance(value, int | float):
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return value
        value = _python_number(name, spec, value)
    if spec.kind is Float:
        return float(value) if abs(value) < _FLOAT_LIMIT else _large(name, value)
    if spec.kind is Bool:
        return bool(value)
    if isinstance(value, float) and not value.is_integer():  # nor are NaN and infinities
        raise TensorValueError(
            title(name), f"an Int tensor takes whole numbers, got {value}; float() gives a Float tensor"
        )
    number = int(value)
    low, high = _RANGES[spec.dtype]
    if not low <= number <= high:
        raise TensorValueError(
            title(name), f"{value} is outside of {low}..{high}, those of {spec.dtype}; cast() to a wider element type"
        )
    return number


# Below, float() of an integer does not overflow: the usual number needs no `try`.
_FLOAT_LIMIT = 2**1023
_RANGES = {dtype: (torch.iinfo(dtype).min, torch.iinfo(dtype).max) for dtype, kind in KINDS.items() if kind is Int}


def unboxed(value: Any) -> Any:
    """The number in one of NumPy's scalars; anything else as it is."""
    if isinstance(value, int | float | torch.Tensor) or getattr(value, "ndim", 1) != 0:
        return value
    return value.item()


def _large(name: str, value: float) -> float:
    try:
        return float(value)
    except OverflowError as error:
        raise TensorValueError(title(name), "the integer is larger than any floating point number") from error


def _python_number(name: str, spec: Spec, value: Any) -> Any:
    """The number in one of NumPy's scalars; all else is refused."""
    item = getattr(value, "item", None)
    if item is not None and getattr(value, "ndim", 1) == 0 and isinstance(number := item(), int | float):
        return number
    can_be_one = hasattr(value, "__len__") and not isinstance(value, str)
    raise TensorTypeError(
        title(name),
        f"expected {with_article(spec)} of rank {spec.rank} or a number, got {type(value).__name__}"
        + ("; Tensor.from_data(it, backend) makes one of it" if can_be_one else ""),
    )


def with_article(spec: Spec) -> str:
    """Such as `an Int tensor`, for messages."""
    return f"an {spec.kind.name} tensor" if spec.kind is Int else f"a {spec.kind.name} tensor"


def match(name: str, spec: Spec, other: Any) -> tuple[Any, Spec]:
    """The other operand of an element-wise operation, and the Spec of the result.

    Returns:
        `other` as the backend's function takes it: a torch tensor, or a scalar that `spec` can hold. The Spec is
        `spec`, in autocast that of the element type which torch promotes to.

    Raises TensorTypeError: another backend, kind, rank, dtype or device, or nothing that can be an operand.
    """
    kind = type(other)
    if (kind is float and spec.kind is Float) or (kind is int and 0 <= other <= SMALL and spec.kind is not Bool):
        return other, spec
    if kind is spec.tensor:
        other_spec, value = other.spec, other.inner
    elif isinstance(other, torch.Tensor):
        other_spec = find_spec(other, spec.family)
        # On a backend that does not track, a parameter begins no graph.
        value = other if spec.tracks or not other.requires_grad else spec.float.ops.detach(other)
    else:
        return scalar(name, spec, other), spec
    if other_spec is spec:
        return value, spec
    check_same(name, spec, other_spec)
    return value, spec.family[torch.promote_types(spec.dtype, other_spec.dtype)][spec.rank]


def operand(name: str, spec: Spec, other: Any) -> Any:
    """`other` as `match` gives it: a torch tensor, or a scalar in the kind of `spec`."""
    return match(name, spec, other)[0]


def compare_mixed(name: str, tensor: Any, other: Any) -> Any:
    """A comparison whose other operand is a scalar, a torch tensor, or does not fit."""
    spec, other = tensor.spec, unboxed(other)
    if isinstance(other, int | float) and spec.kind is not Float and _is_no_element(spec.kind, other):
        return _with_no_element(name, tensor, other)
    value = operand(name, spec, other)
    try:
        return wrap(getattr(spec.ops, name)(tensor.inner, value), spec.bool)
    except Exception as error:
        fail(name, error, tensor.inner, value)


def compare_scalar(name: str, tensor: Any, value: Any) -> Any:
    """A comparison with a number, never with a tensor."""
    spec, value = tensor.spec, unboxed(value)
    return compare_mixed(name, tensor, value if isinstance(value, int | float) else scalar(name, spec, value))


_ABOVE = ("greater_equal", "lower")


def _is_no_element(kind: type[Kind], number: float) -> bool:
    """True if no tensor of `kind`, Int or Bool, can hold `number`: fractions, NaN, infinities."""
    return number not in (0, 1) if kind is Bool else isinstance(number, float) and not number.is_integer()


def _with_no_element(name: str, tensor: Any, number: float) -> Any:
    """A comparison with what no element is; by order it is one with the whole number next to it."""
    spec, inner = tensor.spec, tensor.inner
    if math.isfinite(number) and name not in ("equal", "not_equal"):
        return compare_mixed(name, tensor, math.ceil(number) if name in _ABOVE else math.floor(number))
    beyond = "greater" if number < 0 else "lower"  # what all elements are beside an infinity
    always = name == "not_equal" or (math.isinf(number) and name.startswith(beyond))
    return wrap((spec.ops.equal if always else spec.ops.not_equal)(inner, inner), spec.bool)


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
    lines = str(error).splitlines() or ["torch refuses the operands"]
    if lines[0] == "ZeroDivisionError":
        lines = ["an Int can't be divided by zero"]
    if "Expected reduction dim" in lines[0]:  # of `amax` and others, whose arguments are torch's
        lines = ["an extreme is of at least one element, and here is none"]
    reasons = [lines[0], *([f"Operands: {', '.join(shown)}"] if shown else [])]
    raise (TensorTypeError if type(error) is TypeError else TensorValueError)(title(name), *reasons) from error


def computed(name: str, function: Any, *args: Any) -> Any:
    """`function(*args)`, of a backend's table; methods that are called most have the `try` themselves."""
    try:
        return function(*args)
    except Exception as error:
        fail(name, error, *args)


def operand_of(name: str, other: Any, wanted: Spec, *, any_rank: bool = False) -> torch.Tensor:
    """The torch tensor of an operand of another kind than the receiver's, such as a mask or indices.

    It must have the backend, kind and (unless `any_rank`) rank of `wanted`; the element type may be another one.
    """
    if isinstance(other, torch.Tensor):
        spec, inner = find_spec(other, wanted.family), other
        inner = wanted.float.ops.detach(inner) if inner.requires_grad and not wanted.tracks else inner
    elif type(other) is wanted.tensor:
        spec, inner = other.spec, other.inner
    else:
        raise TensorTypeError(title(name), f"expected {with_article(wanted)}, got {type(other).__name__}")
    if spec.kind is not wanted.kind:
        raise TensorTypeError(title(name), f"expected {with_article(wanted)}, got one of kind {spec.kind.name}")
    if not any_rank and spec.rank != wanted.rank:
        raise TensorTypeError(
            title(name), f"expected {with_article(wanted)} of rank {wanted.rank}, got rank {spec.rank}"
        )
    if spec.backend != wanted.backend:
        raise TensorTypeError(title(name), different_backends(wanted, spec))
    return inner


def tensor_operand(name: str, wanted: Spec, other: Any) -> torch.Tensor:
    """The torch tensor of an operand, which must have the backend, kind, rank and element type of `wanted`."""
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
    """The torch tensor of a mask, indices or a weight, which must have the backend, kind and rank of `wanted`."""
    if type(other) is wanted.tensor and other.spec is wanted:
        return other.inner
    return operand_of(name, other, wanted)


def index_of(name: str, other: Any, wanted: Spec, *, any_rank: bool = False) -> torch.Tensor:
    """The torch tensor of indices of any Int type, as int64; `wanted` is an `index` Spec, else as `operand_of`."""
    inner = operand_of(name, other, wanted, any_rank=any_rank) if any_rank else inner_of(name, other, wanted)
    return inner if inner.dtype is wanted.dtype else wanted.ops.cast(inner, wanted.dtype)


def inner_as(name: str, other: Any, wanted: Spec) -> torch.Tensor:
    """`inner_of` for values that mix with others of `wanted`: of its element type too, except in autocast."""
    inner = inner_of(name, other, wanted)
    if inner.dtype is not wanted.dtype and not torch.is_autocast_enabled(wanted.backend.device.type):
        raise TensorTypeError(
            title(name),
            f"expected an operand of {wanted.dtype}, got one of {inner.dtype}; nothing is promoted, use cast(dtype)",
        )
    return inner


def any_spec(name: str, x: Any) -> Spec:
    """The Spec of a Tensor of any kind."""
    try:
        return x.spec
    except AttributeError:
        type_name = f"{type(x).__module__}.{type(x).__qualname__}"
        raise TensorTypeError(
            title(name), f"expected a burnlike Tensor, got {type_name}; use Tensor(x, backend)"
        ) from None


def numeric_spec(name: str, x: Any) -> Spec:
    """The Spec of a Float or Int tensor of any rank; others are refused."""
    spec = any_spec(name, x)
    if spec.kind is Bool:
        raise TensorTypeError(title(name), "expected a Float or Int tensor, got one of kind Bool; use float() or int()")
    return spec


def float_spec(name: str, x: Any) -> Spec:
    """The Spec of a Float tensor of any rank; others are refused."""
    try:
        spec = x.spec
    except AttributeError:
        spec = any_spec(name, x)
    if spec.kind is not Float:
        raise TensorTypeError(title(name), f"expected a Float tensor, got one of kind {spec.kind.name}; use float()")
    return spec


def ranked_spec(name: str, x: Any, rank: int) -> Spec:
    """The Spec of a Float tensor of one rank; others are refused."""
    spec = float_spec(name, x)
    if spec.rank != rank:
        raise TensorTypeError(title(name), f"expected a tensor of rank {rank}, got one of rank {spec.rank}")
    return spec


def matrix_spec(operation: str, spec: Spec) -> Spec:
    """The Spec, whose last two dimensions must be those of matrices."""
    if spec.rank < 2:
        raise TensorValueError(operation, f"expected a tensor with at least 2 dimensions, [.., R, C], got {spec.rank}")
    return spec
