"""Sums, means, products and extremes, whole, along dimensions and running."""

from collections.abc import Sequence
from typing import Any, overload

from ...errors import TensorValueError
from ..core.arguments import along, axis, each_dim, whole
from ..core.base import B, D, K, Numeric, Tensor, TensorBase, like, wrap
from ..core.kinds import D1, D2, D3, D4, Int
from ..core.operands import computed, fail


class ReductionMethods(TensorBase[B, D, K]):
    """Sums, means, products and extremes, whole and running. NaN is an extreme; of equal ones the first is meant."""

    __slots__ = ()

    def sum(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The sum of all elements. `[..] -> [1]`. Torch: `torch.sum(x)`. Differs: shape `[1]`; Int keeps its dtype."""
        if dim is not None or keepdim is not None:
            raise whole("sum", dim)
        spec = self.spec
        if spec.rank == 1:
            return like(spec.ops.sum_dim(self.inner, 0, True), spec)
        return like(spec.ops.sum(self.inner), spec.ranks[1])

    def sum_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """Sums along `dim`. `[.., n] -> [.., 1]`. Torch: `torch.sum(x, dim, keepdim=True)`.
        Differs: Int keeps its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Sum Dim", dim, spec.rank)
        return like(spec.ops.sum_dim(self.inner, dim, True), spec)

    def sum_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Sums over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.sum(x, dims, keepdim=True)`.
        Differs: none given means none summed; Int keeps its dtype.
        """
        spec = self.spec
        axes = each_dim("Sum Dim", dims, spec.rank)
        return like(spec.ops.sum_dim(self.inner, axes, True), spec) if axes else self  # pyright: ignore[reportReturnType]

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
        axes = each_dim("Squeeze", dims, spec.rank)
        if len(axes) == spec.rank:
            raise TensorValueError("Squeeze", f"dimensions {axes} are all there are; keep one, or use sum()")
        return like(spec.ops.sum_dim(self.inner, axes, False), spec.ranks[spec.rank - len(axes)]) if axes else self

    def mean(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The mean of all elements. `[..] -> [1]`. Torch: `torch.mean(x)`.
        Differs: shape `[1]`; of Int the whole part.
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
        Differs: of Int the whole part, in its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Mean Dim", dim, spec.rank)
        if spec.kind is Int and not self.inner.shape[dim]:
            raise _no_mean("Mean Dim")
        return like(spec.ops.mean_dim(self.inner, dim, True), spec)

    def mean_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Means over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.mean(x, dims, keepdim=True)`.
        Differs: none given means no mean taken; of Int the whole part, one dimension after the other, in its dtype.
        """
        spec = self.spec
        axes = each_dim("Mean Dim", dims, spec.rank)
        if spec.kind is Int and not all(self.inner.shape[dim] for dim in axes):
            raise _no_mean("Mean Dim")
        return like(spec.ops.mean_dim(self.inner, axes, True), spec) if axes else self  # pyright: ignore[reportReturnType]

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
        """Products along `dim`. `[.., n] -> [.., 1]`. Torch: `torch.prod(x, dim, keepdim=True)`.
        Differs: Int keeps its dtype.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Prod Dim", dim, spec.rank)
        return like(spec.ops.prod_dim(self.inner, dim, True), spec)

    def prod_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Products over `dims`. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.prod(x, dim, keepdim=True)`, for one dimension after the other. Differs: Int keeps its dtype.
        """
        spec, inner = self.spec, self.inner
        for dim in each_dim("Prod Dim", dims, spec.rank):
            inner = spec.ops.prod_dim(inner, dim, True)
        return like(inner, spec)

    def cumsum(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """Running sums along `dim`. `[..] -> [..]`. Torch: `torch.cumsum(x, dim)`. Differs: Int keeps its dtype."""
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
        """The smallest so far along `dim`, from NaN on NaN. `[..] -> [..]`. Torch: `torch.cummin(x, dim).values`."""
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumMin", dim, spec.rank)
        return wrap(spec.ops.cummin(self.inner, dim), spec)

    def cummax(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The greatest so far along `dim`, from NaN on NaN. `[..] -> [..]`. Torch: `torch.cummax(x, dim).values`."""
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("CumMax", dim, spec.rank)
        return wrap(spec.ops.cummax(self.inner, dim), spec)

    def argmax(self: "Numeric[B, D]", dim: int, keepdim: None = None) -> "Tensor[B, D, Int]":
        """The index of the greatest along `dim`. `[.., n] -> [.., 1]`. Torch: `torch.argmax(x, dim, keepdim=True)`.
        Differs: the indices are of the backend's int type.
        """
        if keepdim is not None:
            raise along("argmax", dim)
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Argmax", dim, spec.rank)
        try:
            return wrap(spec.ops.argmax(self.inner, dim, spec.int.dtype), spec.int)
        except Exception as error:
            fail("argmax", error, self.inner)

    def argmin(self: "Numeric[B, D]", dim: int, keepdim: None = None) -> "Tensor[B, D, Int]":
        """The index of the smallest along `dim`. `[.., n] -> [.., 1]`. Torch: `torch.argmin(x, dim, keepdim=True)`.
        Differs: the indices are of the backend's int type.
        """
        if keepdim is not None:
            raise along("argmin", dim)
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Argmin", dim, spec.rank)
        return wrap(computed("argmin", spec.ops.argmin, self.inner, dim, spec.int.dtype), spec.int)

    def max(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The greatest of all elements, of which there is at least one. `[..] -> [1]`. Torch: `torch.max(x)`.
        Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
        if dim is not None or keepdim is not None:
            raise whole("max", dim)
        spec = self.spec
        try:
            return wrap(spec.ops.max(self.inner), spec.ranks[1])
        except Exception as error:
            fail("max", error, self.inner)

    def max_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The greatest along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.amax(x, dim, keepdim=True)`.
        Differs: of equal elements the first alone has a gradient.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Max Dim", dim, spec.rank)
        try:
            return wrap(spec.ops.max_dim(self.inner, dim), spec)
        except Exception as error:
            fail("max_dim", error, self.inner)

    def max_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """The greatest over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.amax(x, dims, keepdim=True)`.
        Differs: none given means none reduced; of equal elements the first alone has a gradient.
        """
        spec = self.spec
        axes = each_dim("Max Dim", dims, spec.rank)
        return wrap(computed("max_dims", spec.ops.max_dim, self.inner, axes), spec) if axes else self  # pyright: ignore[reportReturnType]

    def max_dim_with_indices(self: "Numeric[B, D]", dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """The greatest along `dim`, and where it is. `[.., n] -> 2 of [.., 1]`.
        Torch: `torch.max(x, dim, keepdim=True)`. Differs: the indices are of the backend's int type.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Max Dim", dim, spec.rank)
        values, indices = computed(
            "max_dim_with_indices", spec.ops.max_dim_with_indices, self.inner, dim, spec.int.dtype
        )
        return wrap(values, spec), wrap(indices, spec.int)

    def min(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The smallest of all elements, of which there is at least one. `[..] -> [1]`. Torch: `torch.min(x)`.
        Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
        if dim is not None or keepdim is not None:
            raise whole("min", dim)
        spec = self.spec
        try:
            return wrap(spec.ops.min(self.inner), spec.ranks[1])
        except Exception as error:
            fail("min", error, self.inner)

    def min_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The smallest along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.amin(x, dim, keepdim=True)`.
        Differs: of equal elements the first alone has a gradient.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Min Dim", dim, spec.rank)
        try:
            return wrap(spec.ops.min_dim(self.inner, dim), spec)
        except Exception as error:
            fail("min_dim", error, self.inner)

    def min_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """The smallest over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.amin(x, dims, keepdim=True)`.
        Differs: none given means none reduced; of equal elements the first alone has a gradient.
        """
        spec = self.spec
        axes = each_dim("Min Dim", dims, spec.rank)
        return wrap(computed("min_dims", spec.ops.min_dim, self.inner, axes), spec) if axes else self  # pyright: ignore[reportReturnType]

    def min_dim_with_indices(self: "Numeric[B, D]", dim: int) -> "tuple[Tensor[B, D, K], Tensor[B, D, Int]]":
        """The smallest along `dim`, and where it is. `[.., n] -> 2 of [.., 1]`.
        Torch: `torch.min(x, dim, keepdim=True)`. Differs: the indices are of the backend's int type.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Min Dim", dim, spec.rank)
        values, indices = computed(
            "min_dim_with_indices", spec.ops.min_dim_with_indices, self.inner, dim, spec.int.dtype
        )
        return wrap(values, spec), wrap(indices, spec.int)

    def max_abs(self: "Numeric[B, D]", dim: None = None, keepdim: None = None) -> "Tensor[B, D1, K]":
        """The greatest magnitude of all elements, of which there is at least one. `[..] -> [1]`.
        Torch: `x.abs().max()`. Differs: shape `[1]`; of equal elements the first alone has a gradient.
        """
        if dim is not None or keepdim is not None:
            raise whole("max_abs", dim)
        spec = self.spec
        return wrap(computed("max_abs", spec.ops.max_abs, self.inner), spec.ranks[1])

    def max_abs_dim(self: "Numeric[B, D]", dim: int) -> "Tensor[B, D, K]":
        """The greatest magnitude along `dim`. `[.., n, ..] -> [.., 1, ..]`. Torch: `x.abs().amax(dim, keepdim=True)`.
        Differs: of equal elements the first alone has a gradient.
        """
        spec = self.spec
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Max Abs Dim", dim, spec.rank)
        return wrap(computed("max_abs_dim", spec.ops.max_abs_dim, self.inner, dim), spec)

    def max_abs_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """The greatest magnitude over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `x.abs().amax(dims, keepdim=True)`.
        Differs: none given gives the magnitude of each; of equal elements the first alone has a gradient.
        """
        spec = self.spec
        axes = each_dim("Max Abs Dim", dims, spec.rank)
        if not axes:
            return wrap(spec.ops.abs(self.inner), spec)
        return wrap(computed("max_abs_dims", spec.ops.max_abs_dim, self.inner, axes), spec)


def _no_mean(operation: str) -> TensorValueError:
    return TensorValueError(operation, "no integers have no mean: expected at least one element; use float() for NaN")
