"""Arithmetic of Float and Int tensors."""

from typing import TYPE_CHECKING, Any, overload

import torch

from .base import B, D, K, TensorBase, wrap
from .kinds import Float, Int
from .operands import fail, mixed

if TYPE_CHECKING:
    from .tensor import Tensor


class NumericMethods(TensorBase[B, D, K]):
    """Methods of numbers."""

    __slots__ = ()

    @overload
    def add(
        self: "NumericMethods[B, D, Float]", other: "Tensor[B, D, Float] | torch.Tensor | float"
    ) -> "Tensor[B, D, Float]": ...
    @overload
    def add(
        self: "NumericMethods[B, D, Int]", other: "Tensor[B, D, Int] | torch.Tensor | int"
    ) -> "Tensor[B, D, Int]": ...
    def add(self: Any, other: Any) -> Any:
        """Sum, element by element. `[..] + [..] -> [..]`, sizes equal or 1.

        Torch: `torch.add`.
        Differs: equal ranks, no promotion; a scalar is converted to the tensor's dtype.
        """
        spec = self.spec
        if type(other) is not spec.tensor or other.spec is not spec:
            return mixed("add", self, other)
        try:
            return wrap(spec.ops.add(self.inner, other.inner), spec)
        except Exception as error:
            fail("add", error, self.inner, other.inner)

    __add__ = add
    __radd__ = add
