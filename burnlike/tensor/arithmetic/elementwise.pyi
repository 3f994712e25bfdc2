# Written by `make docs` from elementwise.py (tools/tensor_stubs.py): do not edit.
# pyright: reportIncompatibleMethodOverride=false
"""Functions of each element: arithmetic, comparisons, logic and bits, and functions of Float tensors."""

import torch

from ..core.base import (
    B,
    BoolOperand,
    Bools,
    D,
    FloatLike,
    FloatOperand,
    Floats,
    IntOperand,
    Ints,
    K,
    Numbers,
    Numeric,
    TensorBase,
)
from ..core.kinds import D1, D2, Bool, Float, Int, X
from ..tensor import Tensor

class NumericMethods(TensorBase[B, D, K]):
    """Arithmetic, its operators, and bounds. A scalar is converted to the dtype of the tensor."""
    def add(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, K]:
        """`x + y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.add`. Differs: equal ranks, no promotion.
        """
    __add__ = add
    __radd__ = add
    def sub(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, K]:
        """`x - y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.sub`. Differs: equal ranks, no promotion.
        """
    __sub__ = sub
    def mul(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, K]:
        """`x * y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.mul`. Differs: equal ranks, no promotion.
        """
    __mul__ = mul
    __rmul__ = mul
    def div(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, K]:
        """`x / y`; Int truncates toward zero. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.div`, for Int with `rounding_mode="trunc"`. Differs: equal ranks, no promotion: Int stays Int;
        `scalar / x` is for Float, as `x.recip() * scalar`.
        """
    __truediv__ = div
    def remainder(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, K]:
        """`x % y`, floor modulo, with the sign of the divisor. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.remainder`. Differs: equal ranks, no promotion.
        """
    __mod__ = remainder
    def powi(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, K]:
        """Power, element by element; on Float the same as `powf`. `[..] ** [..] -> [..]`, sizes equal or 1.
        Torch: `torch.pow`. Differs: equal ranks, no promotion; an Int power with a negative exponent is truncated
        toward zero.
        """
    __pow__ = powi
    def neg(self: Numeric[B, D]) -> Tensor[B, D, K]:
        """The negative. `[..] -> [..]`. Torch: `torch.neg`."""
    __neg__ = neg
    def abs(self: Numeric[B, D]) -> Tensor[B, D, K]:
        """The absolute value; that of the smallest Int is itself. `[..] -> [..]`. Torch: `torch.abs`."""
    __abs__ = abs
    def sign(self: Numeric[B, D]) -> Tensor[B, D, K]:
        """-1, 0 or 1, and 0 for NaN. `[..] -> [..]`. Torch: `torch.sign`."""
    def square(self: Numeric[B, D]) -> Tensor[B, D, K]:
        """The square. `[..] -> [..]`. Torch: `torch.square`."""
    def add_scalar(self: Numbers[X], scalar: X) -> Tensor[B, D, K]:
        """The sum with a scalar. `[..] -> [..]`. Torch: `torch.add(x, scalar)`. Differs: no promotion."""
    def sub_scalar(self: Numbers[X], scalar: X) -> Tensor[B, D, K]:
        """The difference from a scalar. `[..] -> [..]`. Torch: `torch.sub(x, scalar)`. Differs: no promotion."""
    def mul_scalar(self: Numbers[X], scalar: X) -> Tensor[B, D, K]:
        """The product with a scalar. `[..] -> [..]`. Torch: `torch.mul(x, scalar)`. Differs: no promotion."""
    def div_scalar(self: Numbers[X], scalar: X) -> Tensor[B, D, K]:
        """The quotient by a scalar; Int truncates toward zero. `[..] -> [..]`.
        Torch: `torch.div(x, scalar)`, for Int with `rounding_mode="trunc"`. Differs: no promotion: Int stays Int.
        """
    def remainder_scalar(self: Numbers[X], scalar: X) -> Tensor[B, D, K]:
        """Floor modulo, with the scalar's sign. `[..] -> [..]`.
        Torch: `torch.remainder(x, scalar)`. Differs: no promotion.
        """
    def powi_scalar(self: Numbers[X], scalar: X) -> Tensor[B, D, K]:
        """The power with a whole number. `[..] -> [..]`.
        Torch: `torch.pow(x, scalar)`. Differs: Int takes negative exponents, and truncates toward zero.
        """
    def clamp_min(self: Numbers[X], min: X) -> Tensor[B, D, K]:
        """Elements below `min` become `min`. `[..] -> [..]`. Torch: `torch.clamp_min`."""
    def clamp_max(self: Numbers[X], max: X) -> Tensor[B, D, K]:
        """Elements above `max` become `max`. `[..] -> [..]`. Torch: `torch.clamp_max`."""
    def max_pair(self: Numeric[B, D], other: Tensor[B, D, K] | torch.Tensor) -> Tensor[B, D, K]:
        """The larger of two, element by element. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.maximum`. Differs: a NaN in `other` is ignored, one in the receiver stays; of equal ones the
        receiver gets the gradient.
        """
    def min_pair(self: Numeric[B, D], other: Tensor[B, D, K] | torch.Tensor) -> Tensor[B, D, K]:
        """The smaller of two, element by element. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.minimum`. Differs: a NaN in `other` is ignored, one in the receiver stays; of equal ones the
        receiver gets the gradient.
        """
    __array_ufunc__: None = None
    def __rsub__(self: Numbers[X], other: torch.Tensor | X) -> Tensor[B, D, K]: ...
    def __rtruediv__(self: Floats[B, D], other: torch.Tensor | float) -> Tensor[B, D, Float]: ...
    def __rmod__(self: Numbers[X], other: torch.Tensor | X) -> Tensor[B, D, K]: ...
    def __rpow__(self: Numbers[X], other: torch.Tensor | X) -> Tensor[B, D, K]: ...
    def clamp(self: Numbers[X], min: X, max: X) -> Tensor[B, D, K]:
        """Elements above `max` become `max`, then those below `min` become `min`. `[..] -> [..]`. Torch: `torch.clamp`.
        Differs: both bounds are required; where min > max the minimum wins; a bound beyond the type is infinite.
        """

class ComparisonMethods(TensorBase[B, D, K]):
    """Comparisons, of equality and by order, and reductions to Bool."""
    def equal(self, other: Tensor[B, D, K] | torch.Tensor | float) -> Tensor[B, D, Bool]:
        """`x == y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.eq` (`torch.equal` gives one bool). Differs: equal ranks, no promotion.
        """
    def not_equal(self, other: Tensor[B, D, K] | torch.Tensor | float) -> Tensor[B, D, Bool]:
        """`x != y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.ne`. Differs: equal ranks, no promotion.
        """
    def equal_scalar(self, value: float) -> Tensor[B, D, Bool]:
        """True where elements are equal to a number. `[..] -> [..]`. Torch: `torch.eq`."""
    equal_elem = equal_scalar
    def not_equal_scalar(self, value: float) -> Tensor[B, D, Bool]:
        """True where elements differ from a number. `[..] -> [..]`. Torch: `torch.ne`."""
    not_equal_elem = not_equal_scalar
    def greater(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, Bool]:
        """`x > y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.gt`. Differs: equal ranks, no promotion.
        """
    __gt__ = greater
    def greater_equal(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, Bool]:
        """`x >= y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.ge`. Differs: equal ranks, no promotion.
        """
    __ge__ = greater_equal
    def lower(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, Bool]:
        """`x < y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.lt`. Differs: equal ranks, no promotion.
        """
    __lt__ = lower
    def lower_equal(self: Numbers[X], other: Tensor[B, D, K] | torch.Tensor | X) -> Tensor[B, D, Bool]:
        """`x <= y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.le`. Differs: equal ranks, no promotion.
        """
    __le__ = lower_equal
    def greater_scalar(self: Numbers[X], value: X) -> Tensor[B, D, Bool]:
        """True where elements are greater than a number. `[..] -> [..]`. Torch: `torch.gt`."""
    greater_elem = greater_scalar
    def greater_equal_scalar(self: Numbers[X], value: X) -> Tensor[B, D, Bool]:
        """True where elements are at least a number. `[..] -> [..]`. Torch: `torch.ge`."""
    greater_equal_elem = greater_equal_scalar
    def lower_scalar(self: Numbers[X], value: X) -> Tensor[B, D, Bool]:
        """True where elements are lower than a number. `[..] -> [..]`. Torch: `torch.lt`."""
    lower_elem = lower_scalar
    def lower_equal_scalar(self: Numbers[X], value: X) -> Tensor[B, D, Bool]:
        """True where elements are at most a number. `[..] -> [..]`. Torch: `torch.le`."""
    lower_equal_elem = lower_equal_scalar
    def any(self, dim: None = None, keepdim: None = None) -> Tensor[B, D1, Bool]:
        """True if an element is not zero (NaN is not). `[..] -> [1]`.
        Torch: `torch.any(x)`. Differs: shape `[1]`.
        """
    def all(self, dim: None = None, keepdim: None = None) -> Tensor[B, D1, Bool]:
        """True if no element is zero. `[..] -> [1]`. Torch: `torch.all(x)`. Differs: shape `[1]`."""
    def any_dim(self, dim: int) -> Tensor[B, D, Bool]:
        """True where any along `dim` is not zero. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.any(x, dim, keepdim=True)`.
        """
    def all_dim(self, dim: int) -> Tensor[B, D, Bool]:
        """True where none along `dim` is zero. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.all(x, dim, keepdim=True)`.
        """
    def __eq__(self, other: Tensor[B, D, K] | torch.Tensor | float) -> Tensor[B, D, Bool]:
        """As `equal`; anything but a tensor or a number is not equal as a whole."""
    def __ne__(self, other: Tensor[B, D, K] | torch.Tensor | float) -> Tensor[B, D, Bool]:
        """As `not_equal`; anything but a tensor or a number is not equal as a whole."""
    __hash__ = object.__hash__

class LogicMethods(TensorBase[B, D, K]):
    """Logic of Bool tensors, bitwise functions of Int tensors."""
    def bool_not(self: Bools[B, D]) -> Tensor[B, D, Bool]:
        """Not, element by element; `~x`. Torch: `torch.logical_not`."""
    __invert__ = bool_not
    def bool_and(self: Bools[B, D], other: BoolOperand[B, D]) -> Tensor[B, D, Bool]:
        """`x & y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.logical_and`. Differs: equal ranks, Bool only.
        """
    __and__ = bool_and
    __rand__ = bool_and
    def bool_or(self: Bools[B, D], other: BoolOperand[B, D]) -> Tensor[B, D, Bool]:
        """`x | y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.logical_or`. Differs: equal ranks, Bool only.
        """
    __or__ = bool_or
    __ror__ = bool_or
    def bool_xor(self: Bools[B, D], other: BoolOperand[B, D]) -> Tensor[B, D, Bool]:
        """`x ^ y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.logical_xor`. Differs: equal ranks, Bool only.
        """
    __xor__ = bool_xor
    __rxor__ = bool_xor
    def bitwise_and(self: Ints[B, D], other: IntOperand[B, D]) -> Tensor[B, D, Int]:
        """x & y by bits. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.bitwise_and`. Differs: equal ranks, no promotion.
        """
    def bitwise_or(self: Ints[B, D], other: IntOperand[B, D]) -> Tensor[B, D, Int]:
        """x | y by bits. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.bitwise_or`. Differs: equal ranks, no promotion.
        """
    def bitwise_xor(self: Ints[B, D], other: IntOperand[B, D]) -> Tensor[B, D, Int]:
        """x ^ y by bits. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.bitwise_xor`. Differs: equal ranks, no promotion.
        """
    def bitwise_left_shift(self: Ints[B, D], other: IntOperand[B, D]) -> Tensor[B, D, Int]:
        """x << y. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.bitwise_left_shift`. Differs: equal ranks, no promotion; amounts are modulo the bits of the
        element type.
        """
    def bitwise_right_shift(self: Ints[B, D], other: IntOperand[B, D]) -> Tensor[B, D, Int]:
        """x >> y, with its sign. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.bitwise_right_shift`. Differs: equal ranks, no promotion; amounts are modulo the bits of the
        element type.
        """
    def bitwise_and_scalar(self: Ints[B, D], scalar: int) -> Tensor[B, D, Int]:
        """x & scalar, bit by bit. `[..] -> [..]`. Torch: `torch.bitwise_and(x, scalar)`."""
    def bitwise_or_scalar(self: Ints[B, D], scalar: int) -> Tensor[B, D, Int]:
        """x | scalar, bit by bit. `[..] -> [..]`. Torch: `torch.bitwise_or(x, scalar)`."""
    def bitwise_xor_scalar(self: Ints[B, D], scalar: int) -> Tensor[B, D, Int]:
        """x ^ scalar, bit by bit. `[..] -> [..]`. Torch: `torch.bitwise_xor(x, scalar)`."""
    def bitwise_left_shift_scalar(self: Ints[B, D], scalar: int) -> Tensor[B, D, Int]:
        """x shifted left by a number of bits. `[..] -> [..]`.
        Torch: `torch.bitwise_left_shift(x, scalar)`. Differs: the amount is modulo the bits of the element type.
        """
    def bitwise_right_shift_scalar(self: Ints[B, D], scalar: int) -> Tensor[B, D, Int]:
        """x shifted right by a number of bits, with its sign. `[..] -> [..]`.
        Torch: `torch.bitwise_right_shift(x, scalar)`. Differs: the amount is modulo the bits of the element type.
        """
    def bitwise_not(self: Ints[B, D]) -> Tensor[B, D, Int]:
        """All bits inverted. `[..] -> [..]`. Torch: `torch.bitwise_not`."""
    def nonzero(self: Bools[B, D]) -> list[Tensor[B, D1, Int]]:
        """`[n]` for each dimension: the coordinates of what is set, in row order. Waits for the device.
        Torch: `torch.nonzero(x, as_tuple=True)`. Differs: an empty list where nothing is set.
        """
    async def nonzero_async(self: LogicMethods[B, D, Bool]) -> list[Tensor[B, D1, Int]]:
        """As `nonzero`. Torch: `torch.nonzero(x, as_tuple=True)`."""
    def argwhere(self: Bools[B, D]) -> Tensor[B, D2, Int]:
        """`[n, D]`: the coordinates of what is set, in row order. Waits for the device. Torch: `torch.argwhere`."""
    async def argwhere_async(self: LogicMethods[B, D, Bool]) -> Tensor[B, D2, Int]:
        """As `argwhere`. Torch: `torch.argwhere`."""

class FloatMethods(TensorBase[B, D, K]):
    """Exponents, roots, rounding, functions of two tensors, angles (in radians), NaN, infinities and closeness."""
    def sqrt(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The square root; NaN of negative numbers. `[..] -> [..]`. Torch: `torch.sqrt`."""
    def erf(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The error function. `[..] -> [..]`. Torch: `torch.erf`."""
    def round(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The nearest whole number; of two the even one. `[..] -> [..]`. Torch: `torch.round`."""
    def floor(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The largest whole number that is not above x. `[..] -> [..]`. Torch: `torch.floor`."""
    def ceil(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The smallest whole number that is not below x. `[..] -> [..]`. Torch: `torch.ceil`."""
    def trunc(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The whole part: rounded toward zero. `[..] -> [..]`. Torch: `torch.trunc`."""
    def cos(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The cosine. `[..] -> [..]`. Torch: `torch.cos`."""
    def sin(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The sine. `[..] -> [..]`. Torch: `torch.sin`."""
    def tanh(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The hyperbolic tangent. `[..] -> [..]`. Torch: `torch.tanh`."""
    def atan(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The inverse of the tangent. `[..] -> [..]`. Torch: `torch.atan`."""
    def acosh(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The inverse of the hyperbolic cosine; NaN below 1. `[..] -> [..]`. Torch: `torch.acosh`."""
    def asinh(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The inverse of the hyperbolic sine. `[..] -> [..]`. Torch: `torch.asinh`."""
    def atanh(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The inverse of the hyperbolic tangent; NaN outside of -1 .. 1. `[..] -> [..]`.
        Torch: `torch.atanh`.
        """
    def deg2rad(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """Degrees as radians. `[..] -> [..]`. Torch: `torch.deg2rad`."""
    def rad2deg(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """Radians as degrees. `[..] -> [..]`. Torch: `torch.rad2deg`."""
    def exp(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """e to the power of each element. `[..] -> [..]`. Torch: `torch.exp`."""
    def log(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The natural logarithm. `[..] -> [..]`. Torch: `torch.log`."""
    def log1p(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """log(1 + x), exact near 0. `[..] -> [..]`. Torch: `torch.log1p`."""
    def recip(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """1 / x. `[..] -> [..]`. Torch: `torch.reciprocal`."""
    def tan(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The tangent. `[..] -> [..]`. Torch: `torch.tan`."""
    def cosh(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The hyperbolic cosine. `[..] -> [..]`. Torch: `torch.cosh`."""
    def sinh(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The hyperbolic sine. `[..] -> [..]`. Torch: `torch.sinh`."""
    def acos(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The inverse of the cosine; NaN outside of -1 .. 1. `[..] -> [..]`. Torch: `torch.acos`."""
    def asin(self: Floats[B, D]) -> Tensor[B, D, Float]:
        """The inverse of the sine; NaN outside of -1 .. 1. `[..] -> [..]`. Torch: `torch.asin`."""
    def powf(self: Floats[B, D], other: FloatOperand[B, D]) -> Tensor[B, D, Float]:
        """`x ** y`. `[..], [..] -> [..]`, sizes equal or 1.
        Torch: `torch.pow`. Differs: equal ranks, no promotion.
        """
    def fmod(self: Floats[B, D], other: FloatOperand[B, D]) -> Tensor[B, D, Float]:
        """x - y * trunc(x / y), with the sign of x; x where y is infinite. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.fmod`. Differs: equal ranks, no promotion.
        """
    def powf_scalar(self: Floats[B, D], scalar: float) -> Tensor[B, D, Float]:
        """The power with a number. `[..] -> [..]`. Torch: `torch.pow(x, scalar)`."""
    def fmod_scalar(self: Floats[B, D], scalar: float) -> Tensor[B, D, Float]:
        """The remainder by a number, with the sign of x. `[..] -> [..]`. Torch: `torch.fmod(x, scalar)`."""
    def hypot(self: Floats[B, D], other: FloatLike[B, D]) -> Tensor[B, D, Float]:
        """sqrt(x^2 + y^2), no overflow. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.hypot`. Differs: equal ranks, no promotion.
        """
    def atan2(self: Floats[B, D], other: FloatLike[B, D]) -> Tensor[B, D, Float]:
        """The angle of the point (other, self), in -pi .. pi. `[..] -> [..]`, sizes equal or 1.
        Torch: `torch.atan2`. Differs: equal ranks, no promotion.
        """
    def is_nan(self: Floats[B, D]) -> Tensor[B, D, Bool]:
        """True for each element that is NaN. `[..] -> [..]`, Bool. Torch: `torch.isnan`."""
    def is_inf(self: Floats[B, D]) -> Tensor[B, D, Bool]:
        """True for each element that is infinite. `[..] -> [..]`, Bool. Torch: `torch.isinf`."""
    def is_finite(self: Floats[B, D]) -> Tensor[B, D, Bool]:
        """True for each element that is neither infinite nor NaN. `[..] -> [..]`, Bool.
        Torch: `torch.isfinite`.
        """
    def contains_nan(self: Floats[B, D]) -> Tensor[B, D1, Bool]:
        """True if any element is NaN. `[..] -> [1]`, Bool. Torch: `torch.isnan(x).any()`. Differs: shape `[1]`."""
    def is_close(
        self: Floats[B, D], other: FloatLike[B, D], rtol: float | None = None, atol: float | None = None
    ) -> Tensor[B, D, Bool]:
        """True where |x - y| <= atol + rtol * |y|, or both are the same infinity; false for NaN. `[..] -> [..]`.
        Sizes are equal or 1; rtol is 1e-5 and atol 1e-8 by default. Torch: `torch.isclose`.
        Differs: no `equal_nan`; equal ranks.
        """
    def all_close(
        self: Floats[B, D], other: FloatLike[B, D], rtol: float | None = None, atol: float | None = None
    ) -> bool:
        """True if all elements are close, as `is_close` says, read to the host. Torch: `torch.allclose`.
        Differs: no `equal_nan`; equal ranks.
        """
