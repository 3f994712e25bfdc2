"""NaN, infinities and closeness of Float tensors."""

from typing import TYPE_CHECKING

import torch

from ..core.base import B, D, K, TensorBase, wrap
from ..core.kinds import D1, Bool, Float
from ..core.operands import fail
from ..core.tensor_operands import tensor_operand

if TYPE_CHECKING:
    from ..tensor import Tensor


class FloatCheckMethods(TensorBase[B, D, K]):
    """NaN, infinities and closeness."""

    __slots__ = ()

    def is_nan(self: "FloatCheckMethods[B, D, Float]") -> "Tensor[B, D, Bool]":
        """True for each element that is NaN. `[..] -> [..]`, Bool.

        Torch: `torch.isnan`.
        """
        spec = self.spec
        return wrap(spec.ops.is_nan(self.inner), spec.bool)

    def contains_nan(self: "FloatCheckMethods[B, D, Float]") -> "Tensor[B, D1, Bool]":
        """Whether any element is NaN. `[..] -> [1]`, Bool.

        Torch: `torch.isnan(x).any()`.
        Differs: shape `[1]`.
        """
        spec = self.spec
        return wrap(spec.ops.contains_nan(self.inner), spec.bool.ranks[1])

    def is_inf(self: "FloatCheckMethods[B, D, Float]") -> "Tensor[B, D, Bool]":
        """True for each element that is infinite. `[..] -> [..]`, Bool.

        Torch: `torch.isinf`.
        """
        spec = self.spec
        return wrap(spec.ops.is_inf(self.inner), spec.bool)

    def is_finite(self: "FloatCheckMethods[B, D, Float]") -> "Tensor[B, D, Bool]":
        """True for each element that is neither infinite nor NaN. `[..] -> [..]`, Bool.

        Torch: `torch.isfinite`.
        """
        spec = self.spec
        return wrap(spec.ops.is_finite(self.inner), spec.bool)

    def is_close(
        self: "FloatCheckMethods[B, D, Float]",
        other: "Tensor[B, D, Float] | torch.Tensor",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> "Tensor[B, D, Bool]":
        """True where |x - y| <= atol + rtol * |y|, or both are the same infinity; false for NaN. `[..] -> [..]`.

        Args:
            other: sizes equal or 1.
            rtol: relative tolerance; 1e-5 by default.
            atol: absolute tolerance; 1e-8 by default.

        Torch: `torch.isclose`.
        Differs: no `equal_nan`; equal ranks.
        """
        spec = self.spec
        value = tensor_operand("is_close", spec, other)
        try:
            return wrap(
                spec.ops.is_close(self.inner, value, 1e-5 if rtol is None else rtol, 1e-8 if atol is None else atol),
                spec.bool,
            )
        except Exception as error:
            fail("is_close", error, self.inner, value)

    def all_close(
        self: "FloatCheckMethods[B, D, Float]",
        other: "Tensor[B, D, Float] | torch.Tensor",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> bool:
        """Whether all elements are close, as `is_close` says, read to the host.

        Args:
            other: sizes equal or 1.
            rtol: relative tolerance; 1e-5 by default.
            atol: absolute tolerance; 1e-8 by default.

        Torch: `torch.allclose`.
        Differs: no `equal_nan`; equal ranks.
        """
        spec = self.spec
        value = tensor_operand("all_close", spec, other)
        try:
            return spec.ops.all_close(self.inner, value, 1e-5 if rtol is None else rtol, 1e-8 if atol is None else atol)
        except Exception as error:
            fail("all_close", error, self.inner, value)
