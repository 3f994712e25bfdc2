"""Elements and rows that an Int tensor selects."""

from typing import TYPE_CHECKING, Any, NoReturn, overload

import torch

from ...errors import TensorValueError
from ..core.axes import axis
from ..core.base import B, D, K, Numeric, TensorBase, derive, wrap
from ..core.kinds import D1, D2, D3, D4, D5, D6, D7, D8, MAX_RANK, Int
from ..core.operands import fail
from ..core.spec import Spec, title
from ..core.tensor_operands import index_of

if TYPE_CHECKING:
    from ..tensor import Tensor


def check_along(operation: str, dim: int, shape: torch.Size, indices: torch.Size) -> None:
    """Refuse indices whose sizes differ from the tensor's on another dimension than `dim`."""
    for other, (size, count) in enumerate(zip(shape, indices, strict=True)):
        if other != dim and size != count:
            raise TensorValueError(
                operation,
                f"dimension {other} of the indices has size {count}, that of the tensor {size};"
                f" they may differ on dimension {dim} only: {list(indices)}, {list(shape)}",
            )


def nd_result_shape(operation: str, spec: Spec, shape: torch.Size, indices: torch.Size) -> list[int]:
    """The shape of what `indices`, `[.., k]`, address by the first k dimensions.

    Raises:
        TensorValueError: there are no indices, k is above the rank, or the result's rank is not 1 to 8.
    """
    depth = indices[-1]
    if indices.numel() == 0:
        raise TensorValueError(operation, f"the indices are empty, shape {list(indices)}; expected at least one")
    if depth > spec.rank:
        raise TensorValueError(
            operation, f"indices of shape {list(indices)} address {depth} dimensions, the tensor has {spec.rank}"
        )
    result = [*indices[:-1], *shape[depth:]]
    if not 1 <= len(result) <= MAX_RANK:
        raise TensorValueError(
            operation, f"indices of shape {list(indices)} into {list(shape)} give rank {len(result)}, not 1..{MAX_RANK}"
        )
    return result


def fail_nd(name: str, error: Exception, tensor: torch.Tensor, indices: torch.Tensor) -> NoReturn:
    """Raise what went wrong in `gather_nd` or `scatter_nd`; torch would name an index that the caller never wrote."""
    if isinstance(error, IndexError) or "out of bounds" in str(error) or "out of range" in str(error):
        raise TensorValueError(
            title(name),
            f"an index is negative, or not below the size of its dimension: indices of shape {list(indices.shape)}"
            f" into {list(tensor.shape)}",
        ) from error
    fail(name, error, tensor, indices)


class GatheringMethods(TensorBase[B, D, K]):
    """Elements and rows that an Int tensor names."""

    __slots__ = ()

    def gather(self, dim: int, indices: "Tensor[B, D, Int] | torch.Tensor") -> "Tensor[B, D, K]":
        """The elements along a dimension that `indices` name, in their shape.

        Torch: `torch.gather`.
        Differs: sizes are equal on all other dimensions.

        Raises:
            TensorValueError: no such dimension, other sizes, or an index out of range (not found on CUDA).
        """
        spec, inner = self.spec, self.inner
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Gather", dim, spec.rank)
        given: Any = indices
        fits = type(given) is spec.tensor and given.spec is spec.index
        index = given.inner if fits else index_of("gather", indices, spec.index)
        if spec.rank > 1 and inner.shape != index.shape:
            check_along("Gather", dim, inner.shape, index.shape)
        try:
            return wrap(spec.ops.gather(inner, dim, index), spec)
        except Exception as error:
            fail("gather", error, inner, index)

    @overload
    def take(self, dim: int, indices: "Tensor[B, D1, Int]") -> "Tensor[B, D, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D1, K]", dim: int, indices: "Tensor[B, D2, Int]") -> "Tensor[B, D2, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D2, K]", dim: int, indices: "Tensor[B, D2, Int]") -> "Tensor[B, D3, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D3, K]", dim: int, indices: "Tensor[B, D2, Int]") -> "Tensor[B, D4, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D4, K]", dim: int, indices: "Tensor[B, D2, Int]") -> "Tensor[B, D5, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D5, K]", dim: int, indices: "Tensor[B, D2, Int]") -> "Tensor[B, D6, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D6, K]", dim: int, indices: "Tensor[B, D2, Int]") -> "Tensor[B, D7, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D7, K]", dim: int, indices: "Tensor[B, D2, Int]") -> "Tensor[B, D8, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D1, K]", dim: int, indices: "Tensor[B, D3, Int]") -> "Tensor[B, D3, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D2, K]", dim: int, indices: "Tensor[B, D3, Int]") -> "Tensor[B, D4, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D3, K]", dim: int, indices: "Tensor[B, D3, Int]") -> "Tensor[B, D5, K]": ...
    @overload
    def take(self: "GatheringMethods[B, D4, K]", dim: int, indices: "Tensor[B, D3, Int]") -> "Tensor[B, D6, K]": ...
    @overload
    def take(self, dim: int, indices: "Tensor[B, Any, Int] | torch.Tensor") -> "Tensor[B, Any, K]": ...
    def take(self: Any, dim: int, indices: Any) -> Any:
        """The rows `indices` along a dimension; their shape takes its place. Rank D with rank E gives D + E - 1.

        Torch: none (`torch.take` flattens); `numpy.take`.

        Raises:
            TensorValueError: no such dimension, the result's rank is above 8, or an index is out of range (not found
                on CUDA).
        """
        spec, inner = self.spec, self.inner
        dim = axis("Take", dim, spec.rank)
        index = index_of("take", indices, spec.index, any_rank=True)
        rank = spec.rank + index.ndim - 1
        if rank > MAX_RANK:
            raise TensorValueError(
                "Take", f"rank {spec.rank} with indices of rank {index.ndim} gives {rank}, above {MAX_RANK}"
            )
        function = spec.ops.select if index.ndim == 1 else spec.ops.take
        try:
            return wrap(function(inner, dim, index), spec.ranks[rank])
        except Exception as error:
            fail("take", error, inner, index)

    def gather_nd(self: "Numeric[B, D]", indices: "Tensor[B, Any, Int] | torch.Tensor") -> "Tensor[B, Any, K]":
        """The elements at `indices`, `[.., k]`, of the first k dimensions. `[n_1, .., n_D] -> [.., n_(k+1), .., n_D]`.

        Torch: none; `x[indices.unbind(-1)]`.
        Differs: an index is not negative.

        Raises:
            TensorValueError: the indices are empty, k is above the rank, or one is out of range.
        """
        spec, inner = self.spec, self.inner
        function = spec.ops.gather_nd
        index = index_of("gather_nd", indices, spec.index, any_rank=True)
        nd_result_shape("Gather Nd", spec, inner.shape, index.shape)
        try:
            return derive(function(inner, index), spec)
        except Exception as error:
            fail_nd("gather_nd", error, inner, index)
