"""Trigonometric and hyperbolic functions of Float tensors."""

from typing import TYPE_CHECKING

import torch

from ..core.base import B, D, K, TensorBase, like, wrap
from ..core.kinds import Float
from ..core.operands import fail
from ..core.tensor_operands import tensor_operand

if TYPE_CHECKING:
    from ..tensor import Tensor


class TrigonometryMethods(TensorBase[B, D, K]):
    """Trigonometric and hyperbolic functions; angles are in radians."""

    __slots__ = ()

    def cos(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The cosine. `[..] -> [..]`.

        Torch: `torch.cos`.
        """
        spec = self.spec
        return wrap(spec.ops.cos(self.inner), spec)

    def sin(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The sine. `[..] -> [..]`.

        Torch: `torch.sin`.
        """
        spec = self.spec
        return wrap(spec.ops.sin(self.inner), spec)

    def tan(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The tangent. `[..] -> [..]`.

        Torch: `torch.tan`.
        """
        spec = self.spec
        return like(spec.ops.tan(self.inner), spec)

    def cosh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The hyperbolic cosine. `[..] -> [..]`.

        Torch: `torch.cosh`.
        """
        spec = self.spec
        return like(spec.ops.cosh(self.inner), spec)

    def sinh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The hyperbolic sine. `[..] -> [..]`.

        Torch: `torch.sinh`.
        """
        spec = self.spec
        return like(spec.ops.sinh(self.inner), spec)

    def tanh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The hyperbolic tangent. `[..] -> [..]`.

        Torch: `torch.tanh`.
        """
        spec = self.spec
        return wrap(spec.ops.tanh(self.inner), spec)

    def acos(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the cosine; NaN outside of -1 .. 1. `[..] -> [..]`.

        Torch: `torch.acos`.
        """
        spec = self.spec
        return like(spec.ops.acos(self.inner), spec)

    def asin(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the sine; NaN outside of -1 .. 1. `[..] -> [..]`.

        Torch: `torch.asin`.
        """
        spec = self.spec
        return like(spec.ops.asin(self.inner), spec)

    def atan(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the tangent. `[..] -> [..]`.

        Torch: `torch.atan`.
        """
        spec = self.spec
        return wrap(spec.ops.atan(self.inner), spec)

    def acosh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the hyperbolic cosine; NaN below 1. `[..] -> [..]`.

        Torch: `torch.acosh`.
        """
        spec = self.spec
        return wrap(spec.ops.acosh(self.inner), spec)

    def asinh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the hyperbolic sine. `[..] -> [..]`.

        Torch: `torch.asinh`.
        """
        spec = self.spec
        return wrap(spec.ops.asinh(self.inner), spec)

    def atanh(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """The inverse of the hyperbolic tangent; NaN outside of -1 .. 1. `[..] -> [..]`.

        Torch: `torch.atanh`.
        """
        spec = self.spec
        return wrap(spec.ops.atanh(self.inner), spec)

    def deg2rad(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """Degrees as radians. `[..] -> [..]`.

        Torch: `torch.deg2rad`.
        """
        spec = self.spec
        return wrap(spec.ops.deg2rad(self.inner), spec)

    def rad2deg(self: "TrigonometryMethods[B, D, Float]") -> "Tensor[B, D, Float]":
        """Radians as degrees. `[..] -> [..]`.

        Torch: `torch.rad2deg`.
        """
        spec = self.spec
        return wrap(spec.ops.rad2deg(self.inner), spec)

    def atan2(
        self: "TrigonometryMethods[B, D, Float]", other: "Tensor[B, D, Float] | torch.Tensor"
    ) -> "Tensor[B, D, Float]":
        """The angle of the point (other, self), in -pi .. pi. `[..] -> [..]`, sizes equal or 1.

        Torch: `torch.atan2`.
        Differs: equal ranks, no promotion.
        """
        spec = self.spec
        value = tensor_operand("atan2", spec, other)
        try:
            return like(spec.ops.atan2(self.inner, value), spec)
        except Exception as error:
            fail("atan2", error, self.inner, value)
