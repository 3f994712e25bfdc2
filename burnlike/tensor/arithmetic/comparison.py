"""Comparisons of tensors, and reductions to Bool."""

import math
import numbers
from typing import Any

import torch

from ..core.arguments import axis, whole
from ..core.base import B, D, K, Numbers, Tensor, TensorBase, wrap
from ..core.kinds import D1, Bool, Float, Kind, X
from ..core.operands import fail, operand, scalar, unboxed


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


class ComparisonMethods(TensorBase[B, D, K]):
    """Comparisons, of equality and by order, and reductions to Bool."""

    __slots__ = ()

    def equal(self, other: "Tensor[B, D, K] | torch.Tensor | float") -> "Tensor[B, D, Bool]":
        """`x == y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.eq` (`torch.equal` gives one bool). Differs: equal ranks, no promotion.
        """
        spec = self.spec
        right: Any = other
        if type(right) is not spec.tensor or right.spec is not spec:
            return compare_mixed("equal", self, right)
        try:
            return wrap(spec.ops.equal(self.inner, right.inner), spec.bool)
        except Exception as error:
            fail("equal", error, self.inner, right.inner)

    def not_equal(self, other: "Tensor[B, D, K] | torch.Tensor | float") -> "Tensor[B, D, Bool]":
        """`x != y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.ne`. Differs: equal ranks, no promotion."""
        spec = self.spec
        right: Any = other
        if type(right) is not spec.tensor or right.spec is not spec:
            return compare_mixed("not_equal", self, right)
        try:
            return wrap(spec.ops.not_equal(self.inner, right.inner), spec.bool)
        except Exception as error:
            fail("not_equal", error, self.inner, right.inner)

    def equal_scalar(self, value: float) -> "Tensor[B, D, Bool]":
        """True where elements are equal to a number. `[..] -> [..]`. Torch: `torch.eq`."""
        return compare_scalar("equal", self, value)

    def not_equal_scalar(self, value: float) -> "Tensor[B, D, Bool]":
        """True where elements differ from a number. `[..] -> [..]`. Torch: `torch.ne`."""
        return compare_scalar("not_equal", self, value)

    equal_elem = equal_scalar
    not_equal_elem = not_equal_scalar

    def __eq__(  # type: ignore[override]
        self, other: "Tensor[B, D, K] | torch.Tensor | float"
    ) -> "Tensor[B, D, Bool]":
        """As `equal`; anything but a tensor or a number is not equal as a whole."""
        return self.equal(other) if type(other) is type(self) or _comparable(other) else NotImplemented

    def __ne__(  # type: ignore[override]
        self, other: "Tensor[B, D, K] | torch.Tensor | float"
    ) -> "Tensor[B, D, Bool]":
        """As `not_equal`; anything but a tensor or a number is not equal as a whole."""
        return self.not_equal(other) if type(other) is type(self) or _comparable(other) else NotImplemented

    __hash__ = object.__hash__

    def any(self, dim: None = None, keepdim: None = None) -> "Tensor[B, D1, Bool]":
        """True if an element is not zero (NaN is not). `[..] -> [1]`. Torch: `torch.any(x)`. Differs: shape `[1]`."""
        if dim is not None or keepdim is not None:
            raise whole("any", dim)
        return wrap(self.spec.ops.any(self.inner), self.spec.bool.ranks[1])

    def any_dim(self, dim: int) -> "Tensor[B, D, Bool]":
        """True where any along `dim` is not zero. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.any(x, dim, keepdim=True)`.
        """
        spec = self.spec
        return wrap(spec.ops.any_dim(self.inner, axis("Any Dim", dim, spec.rank)), spec.bool)

    def all(self, dim: None = None, keepdim: None = None) -> "Tensor[B, D1, Bool]":
        """True if no element is zero. `[..] -> [1]`. Torch: `torch.all(x)`. Differs: shape `[1]`."""
        if dim is not None or keepdim is not None:
            raise whole("all", dim)
        return wrap(self.spec.ops.all(self.inner), self.spec.bool.ranks[1])

    def all_dim(self, dim: int) -> "Tensor[B, D, Bool]":
        """True where none along `dim` is zero. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.all(x, dim, keepdim=True)`.
        """
        spec = self.spec
        return wrap(spec.ops.all_dim(self.inner, axis("All Dim", dim, spec.rank)), spec.bool)

    def greater(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, Bool]":
        """`x > y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.gt`. Differs: equal ranks, no promotion."""
        spec = self.spec
        right: Any = other
        if type(right) is not spec.tensor or right.spec is not spec:
            return compare_mixed("greater", self, right)
        try:
            return wrap(spec.ops.greater(self.inner, right.inner), spec.bool)
        except Exception as error:
            fail("greater", error, self.inner, right.inner)

    def greater_equal(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, Bool]":
        """`x >= y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.ge`. Differs: equal ranks, no promotion."""
        spec = self.spec
        right: Any = other
        if type(right) is not spec.tensor or right.spec is not spec:
            return compare_mixed("greater_equal", self, right)
        try:
            return wrap(spec.ops.greater_equal(self.inner, right.inner), spec.bool)
        except Exception as error:
            fail("greater_equal", error, self.inner, right.inner)

    def lower(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, Bool]":
        """`x < y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.lt`. Differs: equal ranks, no promotion."""
        spec = self.spec
        right: Any = other
        if type(right) is not spec.tensor or right.spec is not spec:
            return compare_mixed("lower", self, right)
        try:
            return wrap(spec.ops.lower(self.inner, right.inner), spec.bool)
        except Exception as error:
            fail("lower", error, self.inner, right.inner)

    def lower_equal(self: "Numbers[X]", other: "Tensor[B, D, K] | torch.Tensor | X") -> "Tensor[B, D, Bool]":
        """`x <= y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.le`. Differs: equal ranks, no promotion."""
        spec = self.spec
        right: Any = other
        if type(right) is not spec.tensor or right.spec is not spec:
            return compare_mixed("lower_equal", self, right)
        try:
            return wrap(spec.ops.lower_equal(self.inner, right.inner), spec.bool)
        except Exception as error:
            fail("lower_equal", error, self.inner, right.inner)

    def greater_scalar(self: "Numbers[X]", value: X) -> "Tensor[B, D, Bool]":
        """True where elements are greater than a number. `[..] -> [..]`. Torch: `torch.gt`."""
        return compare_scalar("greater", self, value)

    def greater_equal_scalar(self: "Numbers[X]", value: X) -> "Tensor[B, D, Bool]":
        """True where elements are at least a number. `[..] -> [..]`. Torch: `torch.ge`."""
        return compare_scalar("greater_equal", self, value)

    def lower_scalar(self: "Numbers[X]", value: X) -> "Tensor[B, D, Bool]":
        """True where elements are lower than a number. `[..] -> [..]`. Torch: `torch.lt`."""
        return compare_scalar("lower", self, value)

    def lower_equal_scalar(self: "Numbers[X]", value: X) -> "Tensor[B, D, Bool]":
        """True where elements are at most a number. `[..] -> [..]`. Torch: `torch.le`."""
        return compare_scalar("lower_equal", self, value)

    greater_elem = greater_scalar
    greater_equal_elem = greater_equal_scalar
    lower_elem = lower_scalar
    lower_equal_elem = lower_equal_scalar

    __gt__ = greater
    __ge__ = greater_equal
    __lt__ = lower
    __le__ = lower_equal


def _comparable(other: Any) -> bool:
    # NumPy's bool is no Number.
    return isinstance(other, torch.Tensor | int | float | numbers.Number) or getattr(other, "ndim", 1) == 0
