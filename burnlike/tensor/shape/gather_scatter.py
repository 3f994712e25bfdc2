"""Elements and rows that an Int tensor names, and copies of a tensor in which they are updated."""

import enum
from typing import Any, Literal, NoReturn, TypeAlias, overload

import torch

from ..._torch_compat.compiler import new
from ...errors import TensorTypeError, TensorValueError, nearest
from ..core.arguments import axis
from ..core.base import B2, K2, B, Below, D, E, K, Numeric, Tensor, TensorBase, derive, wrap
from ..core.kinds import D1, D2, D3, MAX_RANK, Bool, Int
from ..core.operands import computed, fail, index_of, tensor_operand
from ..core.spec import Spec, title


def _check_along(operation: str, dim: int, shape: torch.Size, indices: torch.Size) -> None:
    """Refuse indices whose sizes differ from the tensor's on another dimension than `dim`."""
    for other, (size, count) in enumerate(zip(shape, indices, strict=True)):
        if other != dim and size != count:
            raise TensorValueError(
                operation,
                f"dimension {other} of the indices has size {count}, that of the tensor {size};"
                f" they may differ on dimension {dim} only: {list(indices)}, {list(shape)}",
            )


def _nd_result_shape(operation: str, spec: Spec, shape: torch.Size, indices: torch.Size) -> list[int]:
    """The shape of what `indices`, `[.., k]`, address by the first k dimensions."""
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


def _fail_nd(name: str, error: Exception, tensor: torch.Tensor, indices: torch.Tensor) -> NoReturn:
    """Raise what went wrong in `gather_nd` or `scatter_nd`; torch would name an index that the caller never wrote."""
    if isinstance(error, IndexError) or "out of bounds" in str(error) or "out of range" in str(error):
        raise TensorValueError(
            title(name),
            f"an index is negative, or not below the size of its dimension: indices of shape {list(indices.shape)}"
            f" into {list(tensor.shape)}",
        ) from error
    fail(name, error, tensor, indices)


class IndexingUpdateOp(enum.StrEnum):
    """The way a value updates its element. Methods take the names as well."""

    Assign = "Assign"
    """The value replaces the element; of several for one element any may remain."""
    Add = "Add"
    """Sum; or on Bool tensors, which have this one only."""
    Mul = "Mul"
    """Product."""
    Min = "Min"
    """The smaller one."""
    Max = "Max"
    """The larger one."""


UpdateOp: TypeAlias = IndexingUpdateOp | Literal["Assign", "Add", "Mul", "Min", "Max"]
_NAMES = {str(update): str(update) for update in IndexingUpdateOp}


class GatherScatterMethods(TensorBase[B, D, K]):
    """Elements and rows that an Int tensor names, and copies in which they are updated.

    Derivatives exist for all updates. Of several values for one element, Add and Mul have that of each; that of Assign
    is not defined. Of an element and its values that are equal, Min and Max pass the whole gradient to each, as Burn.
    """

    __slots__ = ()

    def gather(self, dim: int, indices: "Tensor[B, D, Int] | torch.Tensor") -> "Tensor[B, D, K]":
        """The elements along a dimension that `indices` name, in their shape. Torch: `torch.gather`.
        Differs: sizes are equal on all other dimensions.
        Raises TensorValueError: no such dimension, other sizes, or an index out of range (not found on CUDA).
        """
        spec, inner = self.spec, self.inner
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Gather", dim, spec.rank)
        taken: Any = indices
        fits = type(taken) is spec.tensor and taken.spec is spec.index
        index = taken.inner if fits else index_of("gather", indices, spec.index)
        if spec.rank > 1 and inner.shape != index.shape:
            _check_along("Gather", dim, inner.shape, index.shape)
        out = new(spec.tensor)
        try:
            out.inner = spec.ops.gather(inner, dim, index)
        except Exception as error:
            fail("gather", error, inner, index)
        out.spec = spec
        return out

    @overload
    def take(self, dim: int, indices: "Tensor[B, D1, Int]") -> "Tensor[B, D, K]": ...
    @overload
    def take(self: "Below[Tensor[B2, E, K2]]", dim: int, indices: "Tensor[B2, D2, Int]") -> "Tensor[B2, E, K2]": ...
    @overload
    def take(
        self: "Below[Below[Tensor[B2, E, K2]]]", dim: int, indices: "Tensor[B2, D3, Int]"
    ) -> "Tensor[B2, E, K2]": ...
    @overload
    def take(self, dim: int, indices: "Tensor[B, Any, Int] | torch.Tensor") -> "Tensor[B, Any, K]": ...
    def take(self: Any, dim: int, indices: Any) -> Any:
        """The rows `indices` along a dimension; their shape takes its place. Rank D with rank E gives D + E - 1.
        Torch: none (`torch.take` flattens); `numpy.take`.
        Raises TensorValueError: no such dimension, the result's rank is above 8, or an index is out of range (not found
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
        Torch: none; `x[indices.unbind(-1)]`. Differs: an index is not negative.
        Raises TensorValueError: the indices are empty, k is above the rank, or one is out of range.
        """
        spec, inner = self.spec, self.inner
        function = spec.ops.gather_nd
        index = index_of("gather_nd", indices, spec.index, any_rank=True)
        _nd_result_shape("Gather Nd", spec, inner.shape, index.shape)
        try:
            return derive(function(inner, index), spec)
        except Exception as error:
            _fail_nd("gather_nd", error, inner, index)

    def select_assign(
        self,
        dim: int,
        indices: "Tensor[B, D1, Int] | torch.Tensor",
        values: "Tensor[B, D, K] | torch.Tensor",
        update: UpdateOp,
    ) -> "Tensor[B, D, K]":
        """A copy whose rows `indices`, `[n]`, along a dimension are updated by the n rows of `values`.
        Torch: `torch.index_add`, `torch.index_copy`.
        Differs: one function for all updates; Min and Max pass the whole gradient to each of equal numbers, where
        torch's `index_reduce` splits it.
        Raises TensorValueError: no such dimension, values of another shape, or an index out of range (not found on
        CUDA). Raises TensorTypeError: another update than Add on a Bool tensor.
        """
        spec, inner = self.spec, self.inner
        dim = axis("Select Assign", dim, spec.rank)
        mode = _update_name("Select Assign", spec, update)
        index = index_of("select_assign", indices, spec.index.ranks[1])
        new_values = tensor_operand("select_assign", spec, values)
        expected = [*inner.shape[:dim], index.shape[0], *inner.shape[dim + 1 :]]
        _check_values("Select Assign", expected, new_values)
        return wrap(computed("select_assign", spec.ops.select_assign, inner, dim, index, new_values, mode), spec)

    def scatter(
        self,
        dim: int,
        indices: "Tensor[B, D, Int] | torch.Tensor",
        values: "Tensor[B, D, K] | torch.Tensor",
        update: UpdateOp,
    ) -> "Tensor[B, D, K]":
        """A copy whose elements that `indices` name along a dimension are updated by `values`, of their shape.
        Torch: `torch.scatter`, `torch.scatter_add`, `torch.scatter_reduce`.
        Differs: one function for all updates; sizes of the indices are the tensor's on all other dimensions; Min and
        Max pass the whole gradient to each of equal numbers, where torch splits it.
        Raises TensorValueError: no such dimension, other sizes, or an index out of range (not found on CUDA).
        Raises TensorTypeError: another update than Add on a Bool tensor.
        """
        spec, inner = self.spec, self.inner
        dim = axis("Scatter", dim, spec.rank)
        mode = _update_name("Scatter", spec, update)
        index = index_of("scatter", indices, spec.index)
        new_values = tensor_operand("scatter", spec, values)
        if spec.rank > 1 and inner.shape != index.shape:
            _check_along("Scatter", dim, inner.shape, index.shape)
        if index.shape != new_values.shape:
            _check_values("Scatter", list(index.shape), new_values)
        return wrap(computed("scatter", spec.ops.scatter, inner, dim, index, new_values, mode), spec)

    def scatter_nd(
        self: "Numeric[B, D]",
        indices: "Tensor[B, Any, Int] | torch.Tensor",
        values: "Tensor[B, Any, K] | torch.Tensor",
        update: UpdateOp,
    ) -> "Tensor[B, D, K]":
        """A copy, updated by `values` where `gather_nd` of the indices would read; they have the shape of its result.
        Torch: none. Differs: Min and Max pass the whole gradient to each of equal numbers.
        Raises TensorValueError: the indices are empty, other shapes do not fit, or an index is out of range (not found
        on CUDA).
        """
        spec, inner = self.spec, self.inner
        function = spec.ops.scatter_nd
        mode = _update_name("Scatter Nd", spec, update)
        index = index_of("scatter_nd", indices, spec.index, any_rank=True)
        expected = _nd_result_shape("Scatter Nd", spec, inner.shape, index.shape)
        new_values = tensor_operand("scatter_nd", spec.ranks[len(expected)], values)
        _check_values("Scatter Nd", expected, new_values)
        try:
            return wrap(function(inner, index, new_values, mode), spec)
        except Exception as error:
            _fail_nd("scatter_nd", error, inner, index)


def _update_name(operation: str, spec: Spec, update: Any) -> str:
    name = _NAMES.get(update)
    if name is None:
        raise TensorValueError(
            operation, f"expected an update of {', '.join(_NAMES)}, got {update!r}{nearest(str(update), [*_NAMES])}"
        )
    if spec.kind is Bool and name != "Add":
        raise TensorTypeError(operation, f"Bool tensors have the update Add (or) only, got {name}; use int() first")
    return name


def _check_values(operation: str, expected: list[int], values: torch.Tensor) -> None:
    if list(values.shape) != expected:
        raise TensorValueError(
            operation, f"expected values of shape {expected}, got {list(values.shape)}; they are not broadcast"
        )
