"""Python's numbers as operands: none is cut or wrapped."""

from typing import Any

import torch

from ...errors import TensorTypeError, TensorValueError
from .dtypes import KINDS
from .kinds import Bool, Float, Int
from .spec import Spec, title

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
