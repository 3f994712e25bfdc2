"""Running sums, products and extremes."""

from typing import TYPE_CHECKING, Any, overload

from ..core.axes import axis
from ..core.base import B, D, K, TensorBase, like, wrap
from ..core.kinds import Float, Int

if TYPE_CHECKING:
    from ..tensor import Tensor


class CumulativeMethods(TensorBase[B, D, K]):
    """Running sums, products and extremes: each element of the result depends on those up to its place."""

    __slots__ = ()

    @overload
    def cumsum(self: "CumulativeMethods[B, D, Float]", dim: int) -> "Tensor[B, D, Float]": ...
    @overload
    def cumsum(self: "CumulativeMethods[B, D, Int]", dim: int) -> "Tensor[B, D, Int]": ...
    def cumsum(self: Any, dim: Any) -> Any:
        """Running sums along `dim`. `[..] -> [..]`.

        Torch: `torch.cumsum(x, dim)`.
        Differs: Int keeps its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumSum", dim, spec.rank)
        return like(spec.ops.cumsum(self.inner, dim), spec)

    @overload
    def cumprod(self: "CumulativeMethods[B, D, Float]", dim: int) -> "Tensor[B, D, Float]": ...
    @overload
    def cumprod(self: "CumulativeMethods[B, D, Int]", dim: int) -> "Tensor[B, D, Int]": ...
    def cumprod(self: Any, dim: Any) -> Any:
        """Running products along `dim`. `[..] -> [..]`.

        Torch: `torch.cumprod(x, dim)`.
        Differs: Int keeps its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumProd", dim, spec.rank)
        return like(spec.ops.cumprod(self.inner, dim), spec)

    @overload
    def cummin(self: "CumulativeMethods[B, D, Float]", dim: int) -> "Tensor[B, D, Float]": ...
    @overload
    def cummin(self: "CumulativeMethods[B, D, Int]", dim: int) -> "Tensor[B, D, Int]": ...
    def cummin(self: Any, dim: Any) -> Any:
        """The smallest so far along `dim`; NaN from the first NaN on. `[..] -> [..]`.

        Torch: `torch.cummin(x, dim).values`.
        Differs: values only.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumMin", dim, spec.rank)
        return wrap(spec.ops.cummin(self.inner, dim), spec)

    @overload
    def cummax(self: "CumulativeMethods[B, D, Float]", dim: int) -> "Tensor[B, D, Float]": ...
    @overload
    def cummax(self: "CumulativeMethods[B, D, Int]", dim: int) -> "Tensor[B, D, Int]": ...
    def cummax(self: Any, dim: Any) -> Any:
        """The greatest so far along `dim`; NaN from the first NaN on. `[..] -> [..]`.

        Torch: `torch.cummax(x, dim).values`.
        Differs: values only.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumMax", dim, spec.rank)
        return wrap(spec.ops.cummax(self.inner, dim), spec)
