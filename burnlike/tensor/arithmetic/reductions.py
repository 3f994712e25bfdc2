"""Sums, means and products, whole and running."""

from collections.abc import Iterable, Sequence
from typing import Any, overload

from ...errors import TensorTypeError, TensorValueError
from ..core.axes import axes_of, axis, whole
from ..core.base import B, D, K, Numeric, Tensor, TensorBase, like, wrap
from ..core.kinds import D1, D2, D3, D4, Int


class ReductionMethods(TensorBase[B, D, K]):
    """Sums, means and products."""

    __slots__ = ()

    def sum(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The sum of all elements. `[..] -> [1]`. Torch: `torch.sum(x)`.

        Differs: shape `[1]`; Int keeps its dtype.
        """
        if dim is not None or keepdim is not None:
            raise whole("sum", dim)
        spec = self.spec
        if spec.rank == 1:
            return like(spec.ops.sum_dim(self.inner, 0, True), spec)
        return like(spec.ops.sum(self.inner), spec.ranks[1])

    def sum_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """Sums along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.sum(x, dim, keepdim=True)`.

        Differs: `dim` stays, with size 1; Int keeps its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Sum Dim", dim, spec.rank)
        return like(spec.ops.sum_dim(self.inner, dim, True), spec)

    def sum_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Sums over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.sum(x, dims, keepdim=True)`.

        Differs: the dimensions stay, with size 1; none given means none summed; Int keeps its dtype.
        """
        spec = self.spec
        found = each_dim("Sum Dim", dims, spec.rank)
        return like(spec.ops.sum_dim(self.inner, found, True), spec) if found else self  # pyright: ignore[reportReturnType]

    @overload
    def sum_dims_squeeze(self: "Numeric[B, D2]", dims: tuple[int]) -> "Tensor[B, D1, K]": ...
    @overload
    def sum_dims_squeeze(self: "Numeric[B, D3]", dims: tuple[int]) -> "Tensor[B, D2, K]": ...
    @overload
    def sum_dims_squeeze(self: "Numeric[B, D3]", dims: tuple[int, int]) -> "Tensor[B, D1, K]": ...
    @overload
    def sum_dims_squeeze(self: "Numeric[B, D4]", dims: tuple[int]) -> "Tensor[B, D3, K]": ...
    @overload
    def sum_dims_squeeze(self: "Numeric[B, D4]", dims: tuple[int, int]) -> "Tensor[B, D2, K]": ...
    @overload
    def sum_dims_squeeze(self: "Numeric[B, D4]", dims: tuple[int, int, int]) -> "Tensor[B, D1, K]": ...
    @overload
    def sum_dims_squeeze(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, Any, K]": ...
    def sum_dims_squeeze(self: Any, dims: Any) -> Any:
        """Sums over `dims`, which are dropped. `[a, n, b] -> [a, b]`. Torch: `torch.sum(x, dims)`.

        Differs: at least one dimension stays; none given means none summed; Int keeps its dtype.
        """
        spec = self.spec
        found = axes_of("Squeeze", _listed("Squeeze", dims), spec.rank)
        if len(found) == spec.rank:
            raise TensorValueError("Squeeze", f"dimensions {found} are all there are; keep one, or use sum()")
        return like(spec.ops.sum_dim(self.inner, found, False), spec.ranks[spec.rank - len(found)]) if found else self

    def mean(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The mean of all elements. `[..] -> [1]`. Torch: `torch.mean(x)`.

        Differs: shape `[1]`; of Int the whole part, in its dtype.
        """
        if dim is not None or keepdim is not None:
            raise whole("mean", dim)
        spec = self.spec
        if spec.kind is Int and not self.inner.numel():
            raise _no_mean("Mean")
        if spec.rank == 1:
            return like(spec.ops.mean_dim(self.inner, 0, True), spec)
        return like(spec.ops.mean(self.inner), spec.ranks[1])

    def mean_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """Means along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.mean(x, dim, keepdim=True)`.

        Differs: `dim` stays, with size 1; of Int the whole part, in its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Mean Dim", dim, spec.rank)
        if spec.kind is Int and not self.inner.shape[dim]:
            raise _no_mean("Mean Dim")
        return like(spec.ops.mean_dim(self.inner, dim, True), spec)

    def mean_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Means over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.mean(x, dims, keepdim=True)`.

        Differs: the dimensions stay, with size 1; none given means no mean taken; of Int the whole part, one
        dimension after the other, in its dtype.
        """
        spec = self.spec
        found = each_dim("Mean Dim", dims, spec.rank)
        if spec.kind is Int and not all(self.inner.shape[dim] for dim in found):
            raise _no_mean("Mean Dim")
        return like(spec.ops.mean_dim(self.inner, found, True), spec) if found else self  # pyright: ignore[reportReturnType]

    def prod(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The product of all elements. `[..] -> [1]`. Torch: `torch.prod(x)`.

        Differs: shape `[1]`; Int keeps its dtype.
        """
        if dim is not None or keepdim is not None:
            raise whole("prod", dim)
        spec = self.spec
        if spec.rank == 1:
            return like(spec.ops.prod_dim(self.inner, 0, True), spec)
        return like(spec.ops.prod(self.inner), spec.ranks[1])

    def prod_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """Products along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.prod(x, dim, keepdim=True)`.

        Differs: `dim` stays, with size 1; Int keeps its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Prod Dim", dim, spec.rank)
        return like(spec.ops.prod_dim(self.inner, dim, True), spec)

    def prod_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Products over `dims`. `[.., n, ..] -> [.., 1, ..]`.

        Torch: `torch.prod(x, dim, keepdim=True)`, for one dimension after the other.
        Differs: the dimensions stay, with size 1; Int keeps its dtype.
        """
        spec, inner = self.spec, self.inner
        for dim in each_dim("Prod Dim", dims, spec.rank):
            inner = spec.ops.prod_dim(inner, dim, True)
        return like(inner, spec)


def each_dim(operation: str, dims: Iterable[Any], rank: int) -> list[int]:
    """Each of `dims` as 0 .. rank-1, once: what is reduced has size 1, so that a second time changes nothing."""
    found = [axis(operation, dim, rank) for dim in _listed(operation, dims)]
    return found if len(set(found)) == len(found) else list(dict.fromkeys(found))


def _listed(operation: str, dims: Any) -> Iterable[Any]:
    if isinstance(dims, int):
        raise TensorTypeError(operation, f"expected a sequence of dimensions, got {dims}; use [{dims}]")
    return dims


def _no_mean(operation: str) -> TensorValueError:
    return TensorValueError(operation, "no integers have no mean: expected at least one element; use float() for NaN")


class CumulativeMethods(TensorBase[B, D, K]):
    """Running sums, products and extremes: each element of the result depends on those up to its place."""

    __slots__ = ()

    def cumsum(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """Running sums along `dim`. `[..] -> [..]`. Torch: `torch.cumsum(x, dim)`.

        Differs: Int keeps its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumSum", dim, spec.rank)
        return like(spec.ops.cumsum(self.inner, dim), spec)

    def cumprod(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """Running products along `dim`. `[..] -> [..]`. Torch: `torch.cumprod(x, dim)`.

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
