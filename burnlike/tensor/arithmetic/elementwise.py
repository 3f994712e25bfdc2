"""Functions of each element: arithmetic, comparisons, logic and bits, and functions of Float tensors."""

import numbers
from typing import Any

import torch

from ..._torch_compat.compiler import new
from ..core import templates
from ..core.base import B, Bools, D, FloatLike, Floats, K, Numbers, Tensor, TensorBase, like, wrap
from ..core.kinds import D1, D2, Bool, Float, Int, X
from ..core.operands import computed, fail, operand, scalar, tensor_operand
from ..core.table import Family, methods

BINARY = Family(
    templates.binary,
    "(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, K]",
    {
        "add": "`x + y`. Torch: `torch.add`.",
        "sub": "`x - y`. Torch: `torch.sub`.",
        "mul": "`x * y`. Torch: `torch.mul`.",
        "div": "`x / y`; Int truncates toward zero."
        ' Torch: `torch.div`, for Int with `rounding_mode="trunc"`.'
        " Differs: equal ranks, no promotion: Int stays Int; `scalar / x` is for Float, as `x.recip() * scalar`.",
        "remainder": "`x % y`, floor modulo, with the sign of the divisor. Torch: `torch.remainder`.",
    },
    shapes="`[..], [..] -> [..]`, sizes equal or 1",
    differs="equal ranks, no promotion",
    aliases={
        "add": "__add__ __radd__",
        "sub": "__sub__",
        "mul": "__mul__ __rmul__",
        "div": "__truediv__",
        "remainder": "__mod__",
    },
)
POWER = Family(
    templates.binary_in_autocast,
    BINARY.signature,
    {
        "powi": "Power, element by element; on Float the same as `powf`. `[..] ** [..] -> [..]`, sizes equal or 1."
        " Torch: `torch.pow`."
        " Differs: equal ranks, no promotion; an Int power with a negative exponent is truncated toward zero.",
    },
    aliases={"powi": "__pow__"},
)
UNARY = Family(
    templates.unary,
    "(self: Numeric[B, D]) -> Tensor[B, D, K]",
    {
        "neg": "The negative. Torch: `torch.neg`.",
        "abs": "The absolute value; that of the smallest Int is itself. Torch: `torch.abs`.",
        "sign": "-1, 0 or 1, and 0 for NaN. Torch: `torch.sign`.",
    },
    shapes="`[..] -> [..]`",
    aliases={"neg": "__neg__", "abs": "__abs__"},
)
SQUARE = Family(
    templates.unary_in_autocast, UNARY.signature, {"square": "The square. Torch: `torch.square`."}, UNARY.shapes
)
WITH_SCALAR = Family(
    templates.with_scalar,
    "(self: Numbers[X], scalar: X) -> Tensor[B, D, K]",
    {
        "add_scalar": "The sum with a scalar. Torch: `torch.add(x, scalar)`.",
        "sub_scalar": "The difference from a scalar. Torch: `torch.sub(x, scalar)`.",
        "mul_scalar": "The product with a scalar. Torch: `torch.mul(x, scalar)`.",
        "div_scalar": "The quotient by a scalar; Int truncates toward zero."
        ' Torch: `torch.div(x, scalar)`, for Int with `rounding_mode="trunc"`. Differs: no promotion: Int stays Int.',
        "remainder_scalar": "Floor modulo, with the scalar's sign. Torch: `torch.remainder(x, scalar)`.",
        "powi_scalar": "The power with a whole number. Torch: `torch.pow(x, scalar)`."
        " Differs: Int takes negative exponents, and truncates toward zero.",
    },
    shapes="`[..] -> [..]`",
    differs="no promotion",
    suffix="_scalar",
)
CLAMP_MIN = Family(
    templates.with_scalar,
    "(self: Numbers[X], min: X) -> Tensor[B, D, K]",
    {"clamp_min": "Elements below `min` become `min`. Torch: `torch.clamp_min`."},
    shapes="`[..] -> [..]`",
)
CLAMP_MAX = Family(
    templates.with_scalar,
    "(self: Numbers[X], max: X) -> Tensor[B, D, K]",
    {"clamp_max": "Elements above `max` become `max`. Torch: `torch.clamp_max`."},
    shapes="`[..] -> [..]`",
)
PAIRS = Family(
    templates.pair,
    "(self: Numeric[B, D], other: Tensor[B, D, K] | torch.Tensor) -> Tensor[B, D, K]",
    {
        "max_pair": "The larger of two, element by element. Torch: `torch.maximum`.",
        "min_pair": "The smaller of two, element by element. Torch: `torch.minimum`.",
    },
    shapes="`[..] -> [..]`, sizes equal or 1",
    differs="a NaN in `other` is ignored, one in the receiver stays; of equal ones the receiver gets the gradient",
)


@methods(BINARY, POWER, UNARY, SQUARE, WITH_SCALAR, CLAMP_MIN, CLAMP_MAX, PAIRS)
class NumericMethods(TensorBase[B, D, K]):
    """Arithmetic, its operators, and bounds. A scalar is converted to the dtype of the tensor."""

    __slots__ = ()

    # NumPy leaves operators to the tensor, so that its scalars work on either side.
    __array_ufunc__: None = None

    def __rsub__(self: "Numbers[X]", other: "torch.Tensor | X") -> "Tensor[B, D, K]":
        return _reflected("sub", self, other)

    def __rtruediv__(self: "Floats[B, D]", other: "torch.Tensor | float") -> "Tensor[B, D, Float]":
        return _reflected("div", self, other)

    def __rmod__(self: "Numbers[X]", other: "torch.Tensor | X") -> "Tensor[B, D, K]":
        return _reflected("remainder", self, other)

    def __rpow__(self: "Numbers[X]", other: "torch.Tensor | X") -> "Tensor[B, D, K]":
        return _reflected("powi", self, other)

    def clamp(self: "Numbers[X]", min: X, max: X) -> "Tensor[B, D, K]":
        """Elements above `max` become `max`, then those below `min` become `min`. `[..] -> [..]`. Torch: `torch.clamp`.
        Differs: both bounds are required; where min > max the minimum wins; a bound beyond the type is infinite.
        """
        spec = self.spec
        if type(min) is not float or type(max) is not float or spec.kind is not Float:
            min, max = scalar("clamp", spec, min), scalar("clamp", spec, max)
        out = new(spec.tensor)
        try:
            out.inner = spec.ops.clamp(self.inner, min, max)
        except Exception as error:
            fail("clamp", error, self.inner)
        out.spec = spec
        return out


def _reflected(name: str, tensor: Any, other: Any) -> Any:
    """`other` op `tensor`, where `other` is a torch tensor, a scalar, or does not fit."""
    spec = tensor.spec
    value = operand(name, spec, other)
    try:
        if isinstance(value, torch.Tensor):
            return like(getattr(spec.ops, name)(value, tensor.inner), spec)
        return like(getattr(spec.ops, f"r{name}")(tensor.inner, value), spec)
    except Exception as error:
        fail(name, error, value, tensor.inner)


EQUALITY = Family(
    templates.comparison,
    "(self, other: Tensor[B, D, K] | torch.Tensor | float) -> Tensor[B, D, Bool]",
    {
        "equal": "`x == y`. Torch: `torch.eq` (`torch.equal` gives one bool).",
        "not_equal": "`x != y`. Torch: `torch.ne`.",
    },
    BINARY.shapes,
    BINARY.differs,
)
EQUALITY_WITH_SCALAR = Family(
    templates.comparison_with_scalar,
    "(self, value: float) -> Tensor[B, D, Bool]",
    {
        "equal_scalar": "True where elements are equal to a number. Torch: `torch.eq`.",
        "not_equal_scalar": "True where elements differ from a number. Torch: `torch.ne`.",
    },
    shapes="`[..] -> [..]`",
    suffix="_scalar",
    aliases={"equal_scalar": "equal_elem", "not_equal_scalar": "not_equal_elem"},
)
ORDER = Family(
    templates.comparison,
    "(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, Bool]",
    {
        "greater": "`x > y`. Torch: `torch.gt`.",
        "greater_equal": "`x >= y`. Torch: `torch.ge`.",
        "lower": "`x < y`. Torch: `torch.lt`.",
        "lower_equal": "`x <= y`. Torch: `torch.le`.",
    },
    BINARY.shapes,
    BINARY.differs,
    aliases={"greater": "__gt__", "greater_equal": "__ge__", "lower": "__lt__", "lower_equal": "__le__"},
)
ORDER_WITH_SCALAR = Family(
    templates.comparison_with_scalar,
    "(self: Numbers[X], value: X) -> Tensor[B, D, Bool]",
    {
        "greater_scalar": "True where elements are greater than a number. Torch: `torch.gt`.",
        "greater_equal_scalar": "True where elements are at least a number. Torch: `torch.ge`.",
        "lower_scalar": "True where elements are lower than a number. Torch: `torch.lt`.",
        "lower_equal_scalar": "True where elements are at most a number. Torch: `torch.le`.",
    },
    shapes="`[..] -> [..]`",
    suffix="_scalar",
    aliases={f"{name}_scalar": f"{name}_elem" for name in ORDER.rows},
)
ANY_OR_ALL = Family(
    templates.any_or_all,
    "(self, dim: None = None, keepdim: None = None) -> Tensor[B, D1, Bool]",
    {
        "any": "True if an element is not zero (NaN is not). Torch: `torch.any(x)`.",
        "all": "True if no element is zero. Torch: `torch.all(x)`.",
    },
    shapes="`[..] -> [1]`",
    differs="shape `[1]`",
)
ANY_OR_ALL_DIM = Family(
    templates.any_or_all_dim,
    "(self, dim: int) -> Tensor[B, D, Bool]",
    {
        "any_dim": "True where any along `dim` is not zero. Torch: `torch.any(x, dim, keepdim=True)`.",
        "all_dim": "True where none along `dim` is zero. Torch: `torch.all(x, dim, keepdim=True)`.",
    },
    shapes="`[.., n, ..] -> [.., 1, ..]`",
)


@methods(EQUALITY, EQUALITY_WITH_SCALAR, ORDER, ORDER_WITH_SCALAR, ANY_OR_ALL, ANY_OR_ALL_DIM)
class ComparisonMethods(TensorBase[B, D, K]):
    """Comparisons, of equality and by order, and reductions to Bool."""

    __slots__ = ()

    def __eq__(  # type: ignore[override]
        self, other: "Tensor[B, D, K] | torch.Tensor | float"
    ) -> "Tensor[B, D, Bool]":
        """As `equal`; anything but a tensor or a number is not equal as a whole."""
        tensor: Any = self  # its methods are the table's
        return tensor.equal(other) if type(other) is type(self) or _comparable(other) else NotImplemented

    def __ne__(  # type: ignore[override]
        self, other: "Tensor[B, D, K] | torch.Tensor | float"
    ) -> "Tensor[B, D, Bool]":
        """As `not_equal`; anything but a tensor or a number is not equal as a whole."""
        tensor: Any = self  # its methods are the table's
        return tensor.not_equal(other) if type(other) is type(self) or _comparable(other) else NotImplemented

    __hash__ = object.__hash__


def _comparable(other: Any) -> bool:
    # NumPy's bool is no Number.
    return isinstance(other, torch.Tensor | int | float | numbers.Number) or getattr(other, "ndim", 1) == 0


BOOL_BINARY = Family(
    templates.binary,
    "(self: Bools[B, D], other: BoolOperand[B, D]) -> Tensor[B, D, Bool]",
    {
        "bool_and": "`x & y`. Torch: `torch.logical_and`.",
        "bool_or": "`x | y`. Torch: `torch.logical_or`.",
        "bool_xor": "`x ^ y`. Torch: `torch.logical_xor`.",
    },
    BINARY.shapes,
    differs="equal ranks, Bool only",
    aliases={"bool_and": "__and__ __rand__", "bool_or": "__or__ __ror__", "bool_xor": "__xor__ __rxor__"},
)
BOOL_UNARY = Family(
    templates.unary,
    "(self: Bools[B, D]) -> Tensor[B, D, Bool]",
    {"bool_not": "Not, element by element; `~x`. Torch: `torch.logical_not`."},
    aliases={"bool_not": "__invert__"},
)
INT_BINARY = Family(
    templates.binary,
    "(self: Ints[B, D], other: IntOperand[B, D]) -> Tensor[B, D, Int]",
    {
        "bitwise_and": "x & y by bits. Torch: `torch.bitwise_and`.",
        "bitwise_or": "x | y by bits. Torch: `torch.bitwise_or`.",
        "bitwise_xor": "x ^ y by bits. Torch: `torch.bitwise_xor`.",
        "bitwise_left_shift": "x << y. Torch: `torch.bitwise_left_shift`."
        " Differs: equal ranks, no promotion; amounts are modulo the bits of the element type.",
        "bitwise_right_shift": "x >> y, with its sign. Torch: `torch.bitwise_right_shift`."
        " Differs: equal ranks, no promotion; amounts are modulo the bits of the element type.",
    },
    shapes="`[..] -> [..]`, sizes equal or 1",
    differs="equal ranks, no promotion",
)
INT_WITH_SCALAR = Family(
    templates.with_scalar,
    "(self: Ints[B, D], scalar: int) -> Tensor[B, D, Int]",
    {
        "bitwise_and_scalar": "x & scalar, bit by bit. Torch: `torch.bitwise_and(x, scalar)`.",
        "bitwise_or_scalar": "x | scalar, bit by bit. Torch: `torch.bitwise_or(x, scalar)`.",
        "bitwise_xor_scalar": "x ^ scalar, bit by bit. Torch: `torch.bitwise_xor(x, scalar)`.",
        "bitwise_left_shift_scalar": "x shifted left by a number of bits."
        " Torch: `torch.bitwise_left_shift(x, scalar)`."
        " Differs: the amount is modulo the bits of the element type.",
        "bitwise_right_shift_scalar": "x shifted right by a number of bits, with its sign."
        " Torch: `torch.bitwise_right_shift(x, scalar)`."
        " Differs: the amount is modulo the bits of the element type.",
    },
    shapes="`[..] -> [..]`",
    suffix="_scalar",
)
INT_UNARY = Family(
    templates.unary,
    "(self: Ints[B, D]) -> Tensor[B, D, Int]",
    {"bitwise_not": "All bits inverted. Torch: `torch.bitwise_not`."},
    shapes="`[..] -> [..]`",
)


@methods(BOOL_UNARY, BOOL_BINARY, INT_BINARY, INT_WITH_SCALAR, INT_UNARY)
class LogicMethods(TensorBase[B, D, K]):
    """Logic of Bool tensors, bitwise functions of Int tensors."""

    __slots__ = ()

    def nonzero(self: "Bools[B, D]") -> "list[Tensor[B, D1, Int]]":
        """`[n]` for each dimension: the coordinates of what is set, in row order. Waits for the device.
        Torch: `torch.nonzero(x, as_tuple=True)`. Differs: an empty list where nothing is set.
        """
        result_spec = self.spec.int.ranks[1]
        return [wrap(indices, result_spec) for indices in self.spec.ops.nonzero(self.inner, result_spec.dtype)]

    async def nonzero_async(self: "LogicMethods[B, D, Bool]") -> "list[Tensor[B, D1, Int]]":
        """As `nonzero`. Torch: `torch.nonzero(x, as_tuple=True)`."""
        return self.nonzero()

    def argwhere(self: "Bools[B, D]") -> "Tensor[B, D2, Int]":
        """`[n, D]`: the coordinates of what is set, in row order. Waits for the device. Torch: `torch.argwhere`."""
        result_spec = self.spec.int.ranks[2]
        return wrap(self.spec.ops.argwhere(self.inner, result_spec.dtype), result_spec)

    async def argwhere_async(self: "LogicMethods[B, D, Bool]") -> "Tensor[B, D2, Int]":
        """As `argwhere`. Torch: `torch.argwhere`."""
        return self.argwhere()


FLOAT_UNARY = Family(
    templates.unary,
    "(self: Floats[B, D]) -> Tensor[B, D, Float]",
    {
        "sqrt": "The square root; NaN of negative numbers. Torch: `torch.sqrt`.",
        "erf": "The error function. Torch: `torch.erf`.",
        "round": "The nearest whole number; of two the even one. Torch: `torch.round`.",
        "floor": "The largest whole number that is not above x. Torch: `torch.floor`.",
        "ceil": "The smallest whole number that is not below x. Torch: `torch.ceil`.",
        "trunc": "The whole part: rounded toward zero. Torch: `torch.trunc`.",
        "cos": "The cosine. Torch: `torch.cos`.",
        "sin": "The sine. Torch: `torch.sin`.",
        "tanh": "The hyperbolic tangent. Torch: `torch.tanh`.",
        "atan": "The inverse of the tangent. Torch: `torch.atan`.",
        "acosh": "The inverse of the hyperbolic cosine; NaN below 1. Torch: `torch.acosh`.",
        "asinh": "The inverse of the hyperbolic sine. Torch: `torch.asinh`.",
        "atanh": "The inverse of the hyperbolic tangent; NaN outside of -1 .. 1. Torch: `torch.atanh`.",
        "deg2rad": "Degrees as radians. Torch: `torch.deg2rad`.",
        "rad2deg": "Radians as degrees. Torch: `torch.rad2deg`.",
    },
    shapes="`[..] -> [..]`",
)
FLOAT_UNARY_IN_AUTOCAST = Family(
    templates.unary_in_autocast,
    FLOAT_UNARY.signature,
    {
        "exp": "e to the power of each element. Torch: `torch.exp`.",
        "log": "The natural logarithm. Torch: `torch.log`.",
        "log1p": "log(1 + x), exact near 0. Torch: `torch.log1p`.",
        "recip": "1 / x. Torch: `torch.reciprocal`.",
        "tan": "The tangent. Torch: `torch.tan`.",
        "cosh": "The hyperbolic cosine. Torch: `torch.cosh`.",
        "sinh": "The hyperbolic sine. Torch: `torch.sinh`.",
        "acos": "The inverse of the cosine; NaN outside of -1 .. 1. Torch: `torch.acos`.",
        "asin": "The inverse of the sine; NaN outside of -1 .. 1. Torch: `torch.asin`.",
    },
    shapes="`[..] -> [..]`",
)
FLOAT_BINARY = Family(
    templates.binary_in_autocast,
    "(self: Floats[B, D], other: FloatOperand[B, D]) -> Tensor[B, D, Float]",
    {
        "powf": "`x ** y`. `[..], [..] -> [..]`, sizes equal or 1. Torch: `torch.pow`.",
        "fmod": "x - y * trunc(x / y), with the sign of x; x where y is infinite. `[..] -> [..]`, sizes equal or 1."
        " Torch: `torch.fmod`.",
    },
    differs="equal ranks, no promotion",
)
FLOAT_WITH_SCALAR = Family(
    templates.with_scalar,
    "(self: Floats[B, D], scalar: float) -> Tensor[B, D, Float]",
    {
        "powf_scalar": "The power with a number. Torch: `torch.pow(x, scalar)`.",
        "fmod_scalar": "The remainder by a number, with the sign of x. Torch: `torch.fmod(x, scalar)`.",
    },
    shapes="`[..] -> [..]`",
    suffix="_scalar",
)
FLOAT_PAIRS = Family(
    templates.pair,
    "(self: Floats[B, D], other: FloatLike[B, D]) -> Tensor[B, D, Float]",
    {
        "hypot": "sqrt(x^2 + y^2), no overflow. Torch: `torch.hypot`.",
        "atan2": "The angle of the point (other, self), in -pi .. pi. Torch: `torch.atan2`.",
    },
    shapes="`[..] -> [..]`, sizes equal or 1",
    differs="equal ranks, no promotion",
)
PREDICATES = Family(
    templates.predicate,
    "(self: Floats[B, D]) -> Tensor[B, D, Bool]",
    {
        "is_nan": "True for each element that is NaN. Torch: `torch.isnan`.",
        "is_inf": "True for each element that is infinite. Torch: `torch.isinf`.",
        "is_finite": "True for each element that is neither infinite nor NaN. Torch: `torch.isfinite`.",
    },
    shapes="`[..] -> [..]`, Bool",
)


@methods(FLOAT_UNARY, FLOAT_UNARY_IN_AUTOCAST, FLOAT_BINARY, FLOAT_WITH_SCALAR, FLOAT_PAIRS, PREDICATES)
class FloatMethods(TensorBase[B, D, K]):
    """Exponents, roots, rounding, functions of two tensors, angles (in radians), NaN, infinities and closeness."""

    __slots__ = ()

    def contains_nan(self: "Floats[B, D]") -> "Tensor[B, D1, Bool]":
        """True if any element is NaN. `[..] -> [1]`, Bool. Torch: `torch.isnan(x).any()`. Differs: shape `[1]`."""
        return wrap(self.spec.ops.contains_nan(self.inner), self.spec.bool.ranks[1])

    def is_close(
        self: "Floats[B, D]", other: "FloatLike[B, D]", rtol: float | None = None, atol: float | None = None
    ) -> "Tensor[B, D, Bool]":
        """True where |x - y| <= atol + rtol * |y|, or both are the same infinity; false for NaN. `[..] -> [..]`.
        Sizes are equal or 1; rtol is 1e-5 and atol 1e-8 by default. Torch: `torch.isclose`.
        Differs: no `equal_nan`; equal ranks.
        """
        return wrap(_close("is_close", self, other, rtol, atol), self.spec.bool)

    def all_close(
        self: "Floats[B, D]", other: "FloatLike[B, D]", rtol: float | None = None, atol: float | None = None
    ) -> bool:
        """True if all elements are close, as `is_close` says, read to the host. Torch: `torch.allclose`.
        Differs: no `equal_nan`; equal ranks.
        """
        return _close("all_close", self, other, rtol, atol)


def _close(name: str, tensor: Any, other: Any, rtol: float | None, atol: float | None) -> Any:
    spec = tensor.spec
    value = tensor_operand(name, spec, other)
    tolerances = 1e-5 if rtol is None else rtol, 1e-8 if atol is None else atol
    return computed(name, getattr(spec.ops, name), tensor.inner, value, *tolerances)
