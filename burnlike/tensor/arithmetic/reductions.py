"""Sums, means, products and extremes, whole, along dimensions and running."""

from collections.abc import Sequence
from typing import Any

from ..._torch_compat.compiler import new
from ...errors import TensorValueError
from ..core import templates
from ..core.arguments import axis, each_dim, whole
from ..core.base import B, D, K, Numeric, Tensor, TensorBase, like, wrap
from ..core.kinds import D1, Int
from ..core.operands import computed
from ..core.table import Family, methods, overloads

TOTAL = Family(
    templates.total,
    "(self: Numeric[B, D], dim: None = None, keepdim: None = None) -> Tensor[B, D1, K]",
    {
        "sum": "The sum of all elements. Torch: `torch.sum(x)`.",
        "prod": "The product of all elements. Torch: `torch.prod(x)`.",
    },
    shapes="`[..] -> [1]`",
    differs="shape `[1]`; Int keeps its dtype",
)
TOTAL_DIM = Family(
    templates.total_dim,
    "(self: Numeric[B, D], dim: int) -> Tensor[B, D, K]",
    {
        "sum_dim": "Sums along `dim`. Torch: `torch.sum(x, dim, keepdim=True)`.",
        "prod_dim": "Products along `dim`. Torch: `torch.prod(x, dim, keepdim=True)`.",
    },
    shapes="`[.., n] -> [.., 1]`",
    differs="Int keeps its dtype",
)
RUNNING = Family(
    templates.running,
    TOTAL_DIM.signature,
    {
        "cumsum": "Running sums along `dim`. Torch: `torch.cumsum(x, dim)`. Differs: Int keeps its dtype.",
        "cumprod": "Running products along `dim`. Torch: `torch.cumprod(x, dim)`. Differs: Int keeps its dtype.",
        "cummin": "The smallest so far along `dim`, from NaN on NaN. Torch: `torch.cummin(x, dim).values`.",
        "cummax": "The greatest so far along `dim`, from NaN on NaN. Torch: `torch.cummax(x, dim).values`.",
    },
    shapes="`[..] -> [..]`",
    titles={"cumsum": "CumSum", "cumprod": "CumProd", "cummin": "CumMin", "cummax": "CumMax"},
)
INDEX_OF_EXTREME = Family(
    templates.index_of_extreme,
    "(self: Numeric[B, D], dim: int, keepdim: None = None) -> Tensor[B, D, Int]",
    {
        "argmax": "The index of the greatest along `dim`. Torch: `torch.argmax(x, dim, keepdim=True)`.",
        "argmin": "The index of the smallest along `dim`. Torch: `torch.argmin(x, dim, keepdim=True)`.",
    },
    shapes="`[.., n] -> [.., 1]`",
    differs="the indices are of the backend's int type",
)
EXTREME = Family(
    templates.extreme,
    TOTAL.signature,
    {
        "max": "The greatest of all elements, of which there is at least one. Torch: `torch.max(x)`.",
        "min": "The smallest of all elements, of which there is at least one. Torch: `torch.min(x)`.",
        "max_abs": "The greatest magnitude of all elements, of which there is at least one. Torch: `x.abs().max()`.",
    },
    shapes="`[..] -> [1]`",
    differs="shape `[1]`; of equal elements the first alone has a gradient",
)
EXTREME_DIM = Family(
    templates.extreme_dim,
    TOTAL_DIM.signature,
    {
        "max_dim": "The greatest along `dim`. Torch: `torch.amax(x, dim, keepdim=True)`.",
        "min_dim": "The smallest along `dim`. Torch: `torch.amin(x, dim, keepdim=True)`.",
        "max_abs_dim": "The greatest magnitude along `dim`. Torch: `x.abs().amax(dim, keepdim=True)`.",
    },
    shapes="`[.., n, ..] -> [.., 1, ..]`",
    differs="of equal elements the first alone has a gradient",
)
EXTREME_DIMS = Family(
    templates.extreme_dims,
    "(self: Numeric[B, D], dims: Sequence[int]) -> Tensor[B, D, K]",
    {
        "max_dims": "The greatest over `dims`. Torch: `torch.amax(x, dims, keepdim=True)`.",
        "min_dims": "The smallest over `dims`. Torch: `torch.amin(x, dims, keepdim=True)`.",
    },
    shapes="`[.., n, ..] -> [.., 1, ..]`",
    differs="none given means none reduced; of equal elements the first alone has a gradient",
    operations={"max_dims": "max_dim", "min_dims": "min_dim"},
    titles={"max_dims": "Max Dim", "min_dims": "Min Dim"},
)
EXTREME_WITH_INDICES = Family(
    templates.extreme_with_indices,
    "(self: Numeric[B, D], dim: int) -> tuple[Tensor[B, D, K], Tensor[B, D, Int]]",
    {
        "max_dim_with_indices": "The greatest along `dim`, and where it is. Torch: `torch.max(x, dim, keepdim=True)`.",
        "min_dim_with_indices": "The smallest along `dim`, and where it is. Torch: `torch.min(x, dim, keepdim=True)`.",
    },
    shapes="`[.., n] -> 2 of [.., 1]`",
    differs="the indices are of the backend's int type",
    titles={"max_dim_with_indices": "Max Dim", "min_dim_with_indices": "Min Dim"},
)


@methods(TOTAL, TOTAL_DIM, RUNNING, INDEX_OF_EXTREME, EXTREME, EXTREME_DIM, EXTREME_DIMS, EXTREME_WITH_INDICES)
class ReductionMethods(TensorBase[B, D, K]):
    """Sums, means, products and extremes, whole and running. NaN is an extreme; of equal ones the first is meant."""

    __slots__ = ()

    def sum_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Sums over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.sum(x, dims, keepdim=True)`.
        Differs: none given means none summed; Int keeps its dtype.
        """
        spec = self.spec
        axes = each_dim("Sum Dim", dims, spec.rank)
        return like(spec.ops.sum_dim(self.inner, axes, True), spec) if axes else self  # pyright: ignore[reportReturnType]

    @overloads(
        "(self: Numeric[B, D2], dims: tuple[int]) -> Tensor[B, D1, K]",
        "(self: Numeric[B, D3], dims: tuple[int]) -> Tensor[B, D2, K]",
        "(self: Numeric[B, D3], dims: tuple[int, int]) -> Tensor[B, D1, K]",
        "(self: Numeric[B, D4], dims: tuple[int]) -> Tensor[B, D3, K]",
        "(self: Numeric[B, D4], dims: tuple[int, int]) -> Tensor[B, D2, K]",
        "(self: Numeric[B, D4], dims: tuple[int, int, int]) -> Tensor[B, D1, K]",
        "(self: Numeric[B, D], dims: Sequence[int]) -> Tensor[B, Any, K]",
    )
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
        out = new(spec.tensor)
        out.inner = inner = spec.ops.mean_dim(self.inner, dim, True)
        out.spec = spec if spec.wide or inner.dtype is spec.dtype else spec.family[inner.dtype][spec.rank]
        return out

    def mean_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Means over `dims`. `[.., n, ..] -> [.., 1, ..]`. Torch: `torch.mean(x, dims, keepdim=True)`.
        Differs: none given means no mean taken; of Int the whole part, one dimension after the other, in its dtype.
        """
        spec = self.spec
        axes = each_dim("Mean Dim", dims, spec.rank)
        if spec.kind is Int and not all(self.inner.shape[dim] for dim in axes):
            raise _no_mean("Mean Dim")
        return like(spec.ops.mean_dim(self.inner, axes, True), spec) if axes else self  # pyright: ignore[reportReturnType]

    def prod_dims(self: "Numeric[B, D]", dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Products over `dims`. `[.., n, ..] -> [.., 1, ..]`.
        Torch: `torch.prod(x, dim, keepdim=True)`, for one dimension after the other. Differs: Int keeps its dtype.
        """
        spec, inner = self.spec, self.inner
        for dim in each_dim("Prod Dim", dims, spec.rank):
            inner = spec.ops.prod_dim(inner, dim, True)
        return like(inner, spec)

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
