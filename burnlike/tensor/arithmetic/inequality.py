"""Comparisons by order, of Float and Int tensors."""

from typing import Any, overload

from ..core.base import B, D, FloatOperand, IntOperand, K, Tensor, TensorBase, wrap
from ..core.kinds import Bool, Float, Int
from ..core.operands import fail
from .comparison import compare_mixed, compare_scalar


class InequalityMethods(TensorBase[B, D, K]):
    """Comparisons by order."""

    __slots__ = ()

    @overload
    def greater(self: "InequalityMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Bool]": ...
    @overload
    def greater(self: "InequalityMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Bool]": ...
    def greater(self: Any, other: Any) -> Any:
        """Whether elements are greater than those of `other`; `x > y`. `[..], [..] -> [..]`, sizes equal or 1.

        Torch: `torch.gt`.
        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        if type(other) is not spec.tensor or other.spec is not spec:
            return compare_mixed("greater", self, other)
        try:
            return wrap(spec.ops.greater(self.inner, other.inner), spec.bool)
        except Exception as error:
            fail("greater", error, self.inner, other.inner)

    @overload
    def greater_equal(self: "InequalityMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Bool]": ...
    @overload
    def greater_equal(self: "InequalityMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Bool]": ...
    def greater_equal(self: Any, other: Any) -> Any:
        """Whether elements are at least those of `other`: `x >= y`. `[..], [..] -> [..]`, sizes equal or 1.

        Torch: `torch.ge`.
        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        if type(other) is not spec.tensor or other.spec is not spec:
            return compare_mixed("greater_equal", self, other)
        try:
            return wrap(spec.ops.greater_equal(self.inner, other.inner), spec.bool)
        except Exception as error:
            fail("greater_equal", error, self.inner, other.inner)

    @overload
    def lower(self: "InequalityMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Bool]": ...
    @overload
    def lower(self: "InequalityMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Bool]": ...
    def lower(self: Any, other: Any) -> Any:
        """Whether elements are lower than those of `other`; `x < y`. `[..], [..] -> [..]`, sizes equal or 1.

        Torch: `torch.lt`.
        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        if type(other) is not spec.tensor or other.spec is not spec:
            return compare_mixed("lower", self, other)
        try:
            return wrap(spec.ops.lower(self.inner, other.inner), spec.bool)
        except Exception as error:
            fail("lower", error, self.inner, other.inner)

    @overload
    def lower_equal(self: "InequalityMethods[B, D, Float]", other: "FloatOperand[B, D]") -> "Tensor[B, D, Bool]": ...
    @overload
    def lower_equal(self: "InequalityMethods[B, D, Int]", other: "IntOperand[B, D]") -> "Tensor[B, D, Bool]": ...
    def lower_equal(self: Any, other: Any) -> Any:
        """Whether elements are at most those of `other`; `x <= y`. `[..], [..] -> [..]`, sizes equal or 1.

        Torch: `torch.le`.
        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        if type(other) is not spec.tensor or other.spec is not spec:
            return compare_mixed("lower_equal", self, other)
        try:
            return wrap(spec.ops.lower_equal(self.inner, other.inner), spec.bool)
        except Exception as error:
            fail("lower_equal", error, self.inner, other.inner)

    @overload
    def greater_scalar(self: "InequalityMethods[B, D, Float]", value: float) -> "Tensor[B, D, Bool]": ...
    @overload
    def greater_scalar(self: "InequalityMethods[B, D, Int]", value: int) -> "Tensor[B, D, Bool]": ...
    def greater_scalar(self: Any, value: Any) -> Any:
        """Whether elements are greater than a number. `[..] -> [..]`. Torch: `torch.gt`."""
        return compare_scalar("greater", self, value)

    @overload
    def greater_equal_scalar(self: "InequalityMethods[B, D, Float]", value: float) -> "Tensor[B, D, Bool]": ...
    @overload
    def greater_equal_scalar(self: "InequalityMethods[B, D, Int]", value: int) -> "Tensor[B, D, Bool]": ...
    def greater_equal_scalar(self: Any, value: Any) -> Any:
        """Whether elements are at least a number. `[..] -> [..]`. Torch: `torch.ge`."""
        return compare_scalar("greater_equal", self, value)

    @overload
    def lower_scalar(self: "InequalityMethods[B, D, Float]", value: float) -> "Tensor[B, D, Bool]": ...
    @overload
    def lower_scalar(self: "InequalityMethods[B, D, Int]", value: int) -> "Tensor[B, D, Bool]": ...
    def lower_scalar(self: Any, value: Any) -> Any:
        """Whether elements are lower than a number. `[..] -> [..]`. Torch: `torch.lt`."""
        return compare_scalar("lower", self, value)

    @overload
    def lower_equal_scalar(self: "InequalityMethods[B, D, Float]", value: float) -> "Tensor[B, D, Bool]": ...
    @overload
    def lower_equal_scalar(self: "InequalityMethods[B, D, Int]", value: int) -> "Tensor[B, D, Bool]": ...
    def lower_equal_scalar(self: Any, value: Any) -> Any:
        """Whether elements are at most a number. `[..] -> [..]`. Torch: `torch.le`."""
        return compare_scalar("lower_equal", self, value)

    greater_elem = greater_scalar
    greater_equal_elem = greater_equal_scalar
    lower_elem = lower_scalar
    lower_equal_elem = lower_equal_scalar

    __gt__ = greater
    __ge__ = greater_equal
    __lt__ = lower
    __le__ = lower_equal
