"""Bounds: elements kept within limits, and the larger or smaller of two."""

from typing import Any, overload

import torch

from ..core.base import B, D, K, Numeric, Tensor, TensorBase, like, wrap
from ..core.kinds import Float, Int
from ..core.operands import computed, fail, scalar, tensor_operand
from ..core.scalars import with_scalar


class ClampMethods(TensorBase[B, D, K]):
    """Bounds, and the larger or smaller of two."""

    __slots__ = ()

    @overload
    def clamp(self: "ClampMethods[B, D, Float]", min: float, max: float) -> "Tensor[B, D, Float]": ...
    @overload
    def clamp(self: "ClampMethods[B, D, Int]", min: int, max: int) -> "Tensor[B, D, Int]": ...
    def clamp(self: Any, min: Any, max: Any) -> Any:
        """Elements above `max` become `max`, then those below `min` become `min`. `[..] -> [..]`. Torch: `torch.clamp`.

        Differs: both bounds are required; where min > max the minimum wins.
        """
        spec = self.spec
        if type(min) is not float or type(max) is not float or spec.kind is not Float:
            min, max = scalar("clamp", spec, min), scalar("clamp", spec, max)
        try:
            return wrap(spec.ops.clamp(self.inner, min, max), spec)
        except Exception as error:
            fail("clamp", error, self.inner)

    @overload
    def clamp_min(self: "ClampMethods[B, D, Float]", min: float) -> "Tensor[B, D, Float]": ...
    @overload
    def clamp_min(self: "ClampMethods[B, D, Int]", min: int) -> "Tensor[B, D, Int]": ...
    def clamp_min(self: Any, min: Any) -> Any:
        """Elements below `min` become `min`. `[..] -> [..]`. Torch: `torch.clamp_min`."""
        return with_scalar("clamp_min", self, min)

    @overload
    def clamp_max(self: "ClampMethods[B, D, Float]", max: float) -> "Tensor[B, D, Float]": ...
    @overload
    def clamp_max(self: "ClampMethods[B, D, Int]", max: int) -> "Tensor[B, D, Int]": ...
    def clamp_max(self: Any, max: Any) -> Any:
        """Elements above `max` become `max`. `[..] -> [..]`. Torch: `torch.clamp_max`."""
        return with_scalar("clamp_max", self, max)

    def max_pair(self: "Numeric[B, D]", other: "Tensor[B, D, K] | torch.Tensor") -> "Tensor[B, D, K]":
        """The larger of two, element by element. `[..] -> [..]`, sizes equal or 1. Torch: `torch.maximum`.

        Differs: a NaN in `other` is ignored, one in the receiver stays; of equal ones the receiver gets the gradient.
        """
        spec = self.spec
        value = tensor_operand("max_pair", spec, other)
        return like(computed("max_pair", spec.ops.max_pair, self.inner, value), spec)

    def min_pair(self: "Numeric[B, D]", other: "Tensor[B, D, K] | torch.Tensor") -> "Tensor[B, D, K]":
        """The smaller of two, element by element. `[..] -> [..]`, sizes equal or 1. Torch: `torch.minimum`.

        Differs: a NaN in `other` is ignored, one in the receiver stays; of equal ones the receiver gets the gradient.
        """
        spec = self.spec
        value = tensor_operand("min_pair", spec, other)
        return like(computed("min_pair", spec.ops.min_pair, self.inner, value), spec)
