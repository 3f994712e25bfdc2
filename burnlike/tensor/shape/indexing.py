"""Slices and selections along a dimension."""

import builtins
from typing import Any

import torch

from ...errors import TensorValueError
from ..core.arguments import axis
from ..core.base import B2, K2, Above, B, D, E, K, Tensor, TensorBase, wrap
from ..core.kinds import D1, Int
from ..core.operands import computed, fail, index_of, scalar, tensor_operand
from ..core.slices import SliceForm, Slices, ranges_of, size_of


class IndexingMethods(TensorBase[B, D, K]):
    """Slices and selections along a dimension."""

    __slots__ = ()

    def slice(self, slices: Slices) -> "Tensor[B, D, K]":
        """The region that up to one slice per dimension selects; dimensions without one stay whole.
        Slices are a list, as `s[0:2, ::-1]` makes it, or one.
        Torch: `x[...]`. Differs: an index keeps its dimension; a negative step walks the selected range backwards.
        Raises TensorValueError: more slices than dimensions, or a step of 0.
        """
        spec, inner = self.spec, self.inner
        ranges, backwards = ranges_of("Slice", slices, inner)
        try:
            return wrap(spec.ops.slice(inner, ranges, backwards), spec)
        except TypeError as error:
            fail("slice", error, inner)

    def slice_dim(self, dim: int, slice: SliceForm) -> "Tensor[B, D, K]":
        """The part of one dimension that a slice selects. Torch: `torch.narrow`, `x[:, a:b]`."""
        dim = axis("Slice Dim", dim, self.spec.rank)
        return self.slice([builtins.slice(None)] * dim + [slice])

    def slice_assign(self, slices: Slices, values: "Tensor[B, D, K] | torch.Tensor") -> "Tensor[B, D, K]":
        """A copy whose region, as `slice` selects it, holds `values`; where it selects nothing, the tensor itself.
        Torch: `x.clone()[...] = values`, `torch.slice_scatter`. Differs: the values have exactly the region's shape.
        Raises TensorValueError: too many slices, a step of 0, or values of another shape.
        """
        spec, inner = self.spec, self.inner
        ranges, backwards = ranges_of("Slice Assign", slices, inner)
        new_values = tensor_operand("slice_assign", spec, values)
        shape = inner.shape
        selected = list(map(size_of, ranges, shape))
        region = [*selected, *shape[len(ranges) :]]
        if 0 in selected:
            return self  # pyright: ignore[reportReturnType]
        if list(new_values.shape) != region:
            raise TensorValueError(
                "Slice Assign",
                f"the values have shape {list(new_values.shape)}, the region {region} (of {list(shape)});"
                " expand or reshape the values: they are not broadcast",
            )
        return wrap(computed("slice_assign", spec.ops.slice_assign, inner, ranges, backwards, new_values), spec)

    def slice_fill(self, slices: Slices, value: float) -> "Tensor[B, D, K]":
        """A copy whose region, as `slice` selects it, holds `value` everywhere. Torch: `x.clone()[...] = value`."""
        spec, inner = self.spec, self.inner
        ranges, _ = ranges_of("Slice Fill", slices, inner)
        value = scalar("slice_fill", spec, value)
        return wrap(computed("slice_fill", spec.ops.slice_fill, inner, ranges, value), spec)

    def narrow(self, dim: int, start: int, length: int) -> "Tensor[B, D, K]":
        """`length` elements along a dimension, from `start` on. Torch: `torch.narrow`.
        Differs: the length is not 0, the start not negative.
        Raises TensorValueError: no such dimension, or the range does not lie in it.
        """
        spec, inner = self.spec, self.inner
        dim = axis("Narrow", dim, spec.rank)
        size = inner.shape[dim]
        if start < 0 or length < 1 or start + length > size:
            raise TensorValueError(
                "Narrow",
                f"the range {start}..{start + length} of length {length} is not one of at least 1 element"
                f" in 0..{size}, dimension {dim}",
            )
        return wrap(spec.ops.narrow(inner, dim, start, length), spec)

    def select(self, dim: int, indices: "Tensor[B, D1, Int] | torch.Tensor") -> "Tensor[B, D, K]":
        """The rows `indices`, `[n]`, along a dimension, which has size n then.
        Torch: `torch.index_select` (`torch.select` is `select_dim`).
        Raises TensorValueError: no such dimension, or an index is negative or too large (not found on CUDA).
        """
        spec, inner = self.spec, self.inner
        if type(dim) is not int or not 0 <= dim < spec.rank:
            dim = axis("Select", dim, spec.rank)
        wanted = spec.index.ranks[1]
        taken: Any = indices
        fits = type(taken) is spec.tensor and taken.spec is wanted
        index = taken.inner if fits else index_of("select", indices, wanted)
        try:
            return wrap(spec.ops.select(inner, dim, index), spec)
        except Exception as error:
            fail("select", error, inner, index)

    def select_dim(self: "Above[Tensor[B2, E, K2]]", dim: int, index: int) -> "Tensor[B2, E, K2]":
        """One row along a dimension, without that dimension. A negative index counts from the end.
        Torch: `torch.select`. Differs: the result keeps at least one dimension.
        Raises TensorValueError: no such dimension or row, or a tensor of rank 1.
        """
        spec, inner = self.spec, self.inner
        if spec.rank == 1:
            raise TensorValueError("Select Dim", "a tensor of rank 1 has no dimension to spare; use slice or narrow")
        dim = axis("Select Dim", dim, spec.rank)
        size = inner.shape[dim]
        if not -size <= index < size:
            raise TensorValueError("Select Dim", f"index {index} is outside of {-size}..{size - 1}, dimension {dim}")
        return wrap(spec.ops.select_dim(inner, dim, index), spec.ranks[spec.rank - 1])
