"""Copies of a tensor in which elements or rows that an Int tensor names are updated."""

import enum
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import torch

from ...errors import TensorTypeError, TensorValueError, nearest
from ..core.axes import axis
from ..core.base import B, D, K, Numeric, TensorBase, wrap
from ..core.kinds import D1, Bool, Int
from ..core.operands import fail
from ..core.spec import Spec
from ..core.tensor_operands import index_of, tensor_operand
from .gathering import check_along, fail_nd, nd_result_shape

if TYPE_CHECKING:
    from ..tensor import Tensor


class IndexingUpdateOp(enum.StrEnum):
    """How a value updates its element. Methods take the names as well."""

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


class ScatteringMethods(TensorBase[B, D, K]):
    """Copies with elements or rows updated.

    Derivatives exist for all updates. Where several values meet one element, only that of Add is defined; where
    an element and a value are equal, Min and Max pass the gradient to both.
    """

    __slots__ = ()

    def select_assign(
        self,
        dim: int,
        indices: "Tensor[B, D1, Int] | torch.Tensor",
        values: "Tensor[B, D, K] | torch.Tensor",
        update: UpdateOp,
    ) -> "Tensor[B, D, K]":
        """A copy whose rows `indices`, `[n]`, along a dimension are updated by the n rows of `values`.

        Torch: `torch.index_add`, `torch.index_copy`.
        Differs: one function for all updates.

        Raises:
            TensorValueError: no such dimension, values of another shape, or an index out of range (not found on CUDA).
            TensorTypeError: another update than Add on a Bool tensor.
        """
        spec, inner = self.spec, self.inner
        dim = axis("Select Assign", dim, spec.rank)
        mode = _update_name("Select Assign", spec, update)
        index = index_of("select_assign", indices, spec.index.ranks[1])
        found = tensor_operand("select_assign", spec, values)
        expected = [*inner.shape[:dim], index.shape[0], *inner.shape[dim + 1 :]]
        _check_values("Select Assign", expected, found)
        try:
            return wrap(spec.ops.select_assign(inner, dim, index, found, mode), spec)
        except Exception as error:
            fail("select_assign", error, inner, index, found)

    def scatter(
        self,
        dim: int,
        indices: "Tensor[B, D, Int] | torch.Tensor",
        values: "Tensor[B, D, K] | torch.Tensor",
        update: UpdateOp,
    ) -> "Tensor[B, D, K]":
        """A copy whose elements that `indices` name along a dimension are updated by `values`, of their shape.

        Torch: `torch.scatter`, `torch.scatter_add`, `torch.scatter_reduce`.
        Differs: one function for all updates; sizes of the indices are the tensor's on all other dimensions.

        Raises:
            TensorValueError: no such dimension, other sizes, or an index out of range (not found on CUDA).
            TensorTypeError: another update than Add on a Bool tensor.
        """
        spec, inner = self.spec, self.inner
        dim = axis("Scatter", dim, spec.rank)
        mode = _update_name("Scatter", spec, update)
        index = index_of("scatter", indices, spec.index)
        found = tensor_operand("scatter", spec, values)
        if spec.rank > 1 and inner.shape != index.shape:
            check_along("Scatter", dim, inner.shape, index.shape)
        if index.shape != found.shape:
            _check_values("Scatter", list(index.shape), found)
        try:
            return wrap(spec.ops.scatter(inner, dim, index, found, mode), spec)
        except Exception as error:
            fail("scatter", error, inner, index, found)

    def scatter_nd(
        self: "Numeric[B, D]",
        indices: "Tensor[B, Any, Int] | torch.Tensor",
        values: "Tensor[B, Any, K] | torch.Tensor",
        update: UpdateOp,
    ) -> "Tensor[B, D, K]":
        """A copy, updated by `values` where `gather_nd` of the indices would read; they have the shape of its result.

        Torch: none.

        Raises:
            TensorValueError: the indices are empty, other shapes do not fit, or an index is out of range (not found
                on CUDA).
        """
        spec, inner = self.spec, self.inner
        function = spec.ops.scatter_nd
        mode = _update_name("Scatter Nd", spec, update)
        index = index_of("scatter_nd", indices, spec.index, any_rank=True)
        expected = nd_result_shape("Scatter Nd", spec, inner.shape, index.shape)
        found = tensor_operand("scatter_nd", spec.ranks[len(expected)], values)
        _check_values("Scatter Nd", expected, found)
        try:
            return wrap(function(inner, index, found, mode), spec)
        except Exception as error:
            fail_nd("scatter_nd", error, inner, index)


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
