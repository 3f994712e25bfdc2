"""Running sums, products and extremes."""

from typing import TYPE_CHECKING

from ..core.axes import axis
from ..core.base import B, D, K, Numeric, TensorBase, like, wrap

if TYPE_CHECKING:
    from ..tensor import Tensor


class CumulativeMethods(TensorBase[B, D, K]):
    """Running sums, products and extremes: each element of the result depends on those up to its place."""

    __slots__ = ()

    def cumsum(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """Running sums along `dim`. `[..] -> [..]`.

        Torch: `torch.cumsum(x, dim)`.
        Differs: Int keeps its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumSum", dim, spec.rank)
        return like(spec.ops.cumsum(self.inner, dim), spec)

    def cumprod(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """Running products along `dim`. `[..] -> [..]`.

        Torch: `torch.cumprod(x, dim)`.
        Differs: Int keeps its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumProd", dim, spec.rank)
        return like(spec.ops.cumprod(self.inner, dim), spec)

    def cummin(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The smallest so far along `dim`; NaN from the first NaN on. `[..] -> [..]`.

        Torch: `torch.cummin(x, dim).values`.
        Differs: values only.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumMin", dim, spec.rank)
        return wrap(spec.ops.cummin(self.inner, dim), spec)

    def cummax(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The greatest so far along `dim`; NaN from the first NaN on. `[..] -> [..]`.

        Torch: `torch.cummax(x, dim).values`.
        Differs: values only.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumMax", dim, spec.rank)
        return wrap(spec.ops.cummax(self.inner, dim), spec)
