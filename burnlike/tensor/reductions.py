"""Sums, means, products and their running forms."""

from typing import TYPE_CHECKING, Any, overload

from .base import B, D, K, TensorBase, derive
from .kinds import D1, Float, Int

if TYPE_CHECKING:
    from .tensor import Tensor


class ReductionMethods(TensorBase[B, D, K]):
    """Sums, means, products and their running forms."""

    __slots__ = ()

    @overload
    def sum(self: "ReductionMethods[B, D, Float]") -> "Tensor[B, D1, Float]": ...
    @overload
    def sum(self: "ReductionMethods[B, D, Int]") -> "Tensor[B, D1, Int]": ...
    def sum(self: Any) -> Any:
        """The sum of all elements. `[..] -> [1]`.

        Torch: `torch.sum(x)`.
        Differs: shape `[1]`; Int keeps its dtype.
        """
        return derive(self.spec.ops.sum(self.inner), self.spec)
