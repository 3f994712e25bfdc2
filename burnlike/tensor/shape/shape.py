"""Reshaping and the like: other shapes of the same elements."""

from collections.abc import Sequence
from typing import Any, Literal, overload

from ...errors import TensorValueError
from ..core.arguments import axis, check_rank
from ..core.base import B2, K2, B, Below, D, E, K, Tensor, derive, wrap
from ..core.kinds import D1, D2, D3, D4, D5, D6, D7, D8, S1, S2, S3, S4, S5, S6, S7, S8
from ..core.operands import computed, fail
from .dimensions import DimensionMethods, R


class ShapeMethods(DimensionMethods[B, D, K]):
    """Other shapes of the same elements."""

    __slots__ = ()

    @overload
    def reshape(self, shape: S1, /) -> "Tensor[B, D1, K]": ...
    @overload
    def reshape(self, shape: S2, /) -> "Tensor[B, D2, K]": ...
    @overload
    def reshape(self, shape: S3, /) -> "Tensor[B, D3, K]": ...
    @overload
    def reshape(self, shape: S4, /) -> "Tensor[B, D4, K]": ...
    @overload
    def reshape(self, shape: S5, /) -> "Tensor[B, D5, K]": ...
    @overload
    def reshape(self, shape: S6, /) -> "Tensor[B, D6, K]": ...
    @overload
    def reshape(self, shape: S7, /) -> "Tensor[B, D7, K]": ...
    @overload
    def reshape(self, shape: S8, /) -> "Tensor[B, D8, K]": ...
    @overload
    def reshape(self, a: int, /) -> "Tensor[B, D1, K]": ...
    @overload
    def reshape(self, a: int, b: int, /) -> "Tensor[B, D2, K]": ...
    @overload
    def reshape(self, a: int, b: int, c: int, /) -> "Tensor[B, D3, K]": ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, /) -> "Tensor[B, D4, K]": ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, e: int, /) -> "Tensor[B, D5, K]": ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, e: int, f: int, /) -> "Tensor[B, D6, K]": ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, e: int, f: int, g: int, /) -> "Tensor[B, D7, K]": ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, /) -> "Tensor[B, D8, K]": ...
    @overload
    def reshape(self, shape: Sequence[int], /) -> "Tensor[B, Any, K]": ...
    def reshape(self, *shape: Any) -> Any:
        """The elements in row-major order as another shape. `[..] -> shape`.
        Sizes are given as a tuple, a list, or one by one; one -1 is inferred.
        Torch: `torch.reshape`. Differs: a 0 keeps the size at its place.
        """
        spec = self.spec
        sizes = shape[0] if len(shape) == 1 and type(shape[0]) is not int else shape
        if 0 in sizes or not sizes:
            sizes = _kept_sizes(sizes, self.inner.shape)
        try:
            return wrap(spec.ops.reshape(self.inner, sizes), spec.ranks[len(sizes)])
        except Exception as error:
            check_rank("Reshape", len(sizes))
            fail("reshape", error, self.inner)

    @overload
    def flatten(self, start_dim: int, end_dim: int, rank: R) -> "Tensor[B, R, K]": ...
    @overload
    def flatten(self: "ShapeMethods[B, D1, K]", start_dim: int, end_dim: int) -> "Tensor[B, D1, K]": ...
    @overload
    def flatten(self, start_dim: Literal[0], end_dim: Literal[-1]) -> "Tensor[B, D1, K]": ...
    @overload
    def flatten(self, start_dim: int, end_dim: int, rank: None = None) -> "Tensor[B, Any, K]": ...
    def flatten(self, start_dim: int, end_dim: int, rank: int | None = None) -> Any:
        """Dimensions `start_dim` to `end_dim`, both included, as one. `[.., a, .., b, ..] -> [.., a * .. * b, ..]`.
        `rank` is what the result must have, for type checkers and checked. Torch: `torch.flatten`.
        """
        spec = self.spec
        if rank is not None:
            first, last = axis("Flatten", start_dim, spec.rank), axis("Flatten", end_dim, spec.rank)
            if spec.rank - (last - first) != rank:
                raise TensorValueError("Flatten", f"the result has rank {spec.rank - (last - first)}, not {rank}")
        try:
            return derive(spec.ops.flatten(self.inner, start_dim, end_dim), spec)
        except Exception as error:
            fail("flatten", error, self.inner)

    @overload
    def expand(self, shape: S1) -> "Tensor[B, D1, K]": ...
    @overload
    def expand(self, shape: S2) -> "Tensor[B, D2, K]": ...
    @overload
    def expand(self, shape: S3) -> "Tensor[B, D3, K]": ...
    @overload
    def expand(self, shape: S4) -> "Tensor[B, D4, K]": ...
    @overload
    def expand(self, shape: S5) -> "Tensor[B, D5, K]": ...
    @overload
    def expand(self, shape: S6) -> "Tensor[B, D6, K]": ...
    @overload
    def expand(self, shape: S7) -> "Tensor[B, D7, K]": ...
    @overload
    def expand(self, shape: S8) -> "Tensor[B, D8, K]": ...
    @overload
    def expand(self, shape: Sequence[int]) -> "Tensor[B, Any, K]": ...
    def expand(self, shape: Any) -> Any:
        """Repeats sizes of 1, adds new ones in front; -1 keeps one. `[..] -> shape`. Torch: `Tensor.expand`.
        Differs: a size of 0 is refused.
        """
        spec = self.spec
        for size in shape:
            if size == 0 or size < -1:
                raise TensorValueError("Expand", f"expected sizes of 1 or above, or -1, got {list(shape)}")
        try:
            return wrap(spec.ops.expand(self.inner, shape), spec.ranks[len(shape)])
        except Exception as error:
            check_rank("Expand", len(shape))
            fail("expand", error, self.inner)

    def repeat_dim(self, dim: int, times: int) -> "Tensor[B, D, K]":
        """Tiled along one dimension. `[.., n, ..] -> [.., n * times, ..]`. Torch: `Tensor.repeat`."""
        rank = self.spec.rank
        sizes = [1] * rank
        sizes[axis("Repeat Dim", dim, rank)] = times
        return self.repeat(sizes)

    def repeat(self, sizes: Sequence[int]) -> "Tensor[B, D, K]":
        """Dimension i tiled `sizes[i]` times; those without a number stay. `[a, b, ..] -> [a * s0, b * s1, ..]`.

        Numbers beyond the last dimension must be 1.

        Torch: `Tensor.repeat`. Differs: counts from the left, never adds dimensions.
        """
        spec = self.spec
        rank = spec.rank
        if any(times < 0 for times in sizes) or any(times != 1 for times in sizes[rank:]):
            raise TensorValueError("Repeat", f"expected {rank} numbers of 0 or above, got {list(sizes)}")
        times = (*sizes[:rank], *[1] * (rank - len(sizes)))
        return wrap(spec.ops.repeat(self.inner, times), spec)

    def roll(self, shifts: Sequence[int], dims: Sequence[int]) -> "Tensor[B, D, K]":
        """Element i of each of `dims` moves to i + shift, around the end. `[..] -> [..]`. Torch: `torch.roll`."""
        spec = self.spec
        if len(shifts) != len(dims):
            raise TensorValueError(
                "Roll", f"as many shifts as dimensions are needed, got {len(shifts)} and {len(dims)}"
            )
        if self.inner.numel() == 0 or not dims:  # torch takes any dimension of an empty tensor, and needs one
            for dim in dims:
                axis("Roll", dim, spec.rank)
            return self  # pyright: ignore[reportReturnType]
        return wrap(computed("roll", spec.ops.roll, self.inner, shifts, dims), spec)

    def roll_dim(self, shift: int, dim: int) -> "Tensor[B, D, K]":
        """Element i of `dim` moves to i + shift, around the end. `[..] -> [..]`. Torch: `torch.roll`."""
        return self.roll((shift,), (dim,))

    @overload
    def unfold(self: "Below[Tensor[B2, E, K2]]", dim: int, size: int, step: int) -> "Tensor[B2, E, K2]": ...
    @overload
    def unfold(self, dim: int, size: int, step: int) -> "Tensor[B, Any, K]": ...
    def unfold(self: Any, dim: int, size: int, step: int) -> Any:
        """Windows of `size` elements, `step` apart, as a new last dimension. `[.., n, ..] -> [.., windows, .., size]`.
        Torch: `Tensor.unfold`. Differs: no window where the dimension is smaller than `size`.
        """
        spec = self.spec
        dim_index = axis("Unfold", dim, spec.rank)
        if size < 0 or step < 1:
            raise TensorValueError("Unfold", f"expected a size of 0 or above and a step above 0, got {size} and {step}")
        return wrap(spec.ops.unfold(self.inner, dim_index, size, step), spec.ranks[check_rank("Unfold", spec.rank + 1)])


def _kept_sizes(sizes: Sequence[int], source: Sequence[int]) -> list[int]:
    """`sizes` with the source's size at the place of each 0."""
    check_rank("Reshape", len(sizes))
    if len(sizes) > len(source) and 0 in sizes[len(source) :]:
        raise TensorValueError(
            "Reshape", f"a 0 keeps the size at its place, but {list(sizes)} has one beyond shape {list(source)}"
        )
    return [source[place] if size == 0 else size for place, size in enumerate(sizes)]
