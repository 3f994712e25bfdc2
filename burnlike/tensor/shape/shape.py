"""Other shapes of the same elements; the order of dimensions, and dimensions of size 1 dropped and added."""

from collections.abc import Sequence
from typing import Any, Literal, overload

from typing_extensions import TypeVar

from ...errors import TensorValueError
from ..core.arguments import axis, check_rank, each_dim
from ..core.base import B2, K2, Above, B, Below, D, E, K, Tensor, TensorBase, derive, wrap
from ..core.kinds import D1, MAX_RANK
from ..core.operands import computed, fail
from ..core.table import overloads

# A rank given as an argument: type checkers keep the literal, because the bound is made of literals.
R = TypeVar("R", bound=Literal[1, 2, 3, 4, 5, 6, 7, 8])


class ShapeMethods(TensorBase[B, D, K]):
    """Other shapes of the same elements; the order of dimensions, and dimensions of size 1, dropped and added."""

    __slots__ = ()

    @overloads(
        "(self, shape: S{n}, /) -> Tensor[B, D{n}, K]",
        *(
            f"(self, {', '.join(f'{name}: int' for name in 'abcdefgh'[:n])}, /) -> Tensor[B, D{n}, K]"
            for n in range(1, 9)
        ),
        "(self, shape: Sequence[int], /) -> Tensor[B, Any, K]",
    )
    def reshape(self, *shape: Any) -> Any:
        """The elements in row-major order as another shape. `[..] -> shape`.
        Sizes are given as a tuple, a list, or one by one; one -1 is inferred.
        Torch: `torch.reshape`. Differs: a 0 keeps the size at its place.
        """
        spec = self.spec
        sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
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

    @overloads("(self, shape: S{n}) -> Tensor[B, D{n}, K]", "(self, shape: Sequence[int]) -> Tensor[B, Any, K]")
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

    def transpose(self) -> "Tensor[B, D, K]":
        """The last two dimensions swapped; rank 1 as it is. `[.., a, b] -> [.., b, a]`. Torch: `x.mT`.
        Differs: `swap_dims` takes dimensions.
        """
        spec = self.spec
        return self if spec.rank == 1 else wrap(spec.ops.swap_dims(self.inner, -2, -1), spec)  # pyright: ignore[reportReturnType]

    def t(self) -> "Tensor[B, D, K]":
        """The same as `transpose`. `[.., a, b] -> [.., b, a]`. Torch: `x.mT`. Differs: any rank."""
        return self.transpose()

    @property
    def T(self) -> "Tensor[B, D, K]":
        """`transpose` of a matrix. `[a, b] -> [b, a]`. Torch: `x.T`. Differs: rank 2 only; torch deprecates others."""
        if self.spec.rank != 2:
            raise TensorValueError("T", f"expected a matrix, not rank {self.spec.rank}; use transpose() or permute")
        return self.transpose()

    def swap_dims(self, dim1: int, dim2: int) -> "Tensor[B, D, K]":
        """Two dimensions in each other's place. `[.., a, .., b, ..] -> [.., b, .., a, ..]`. Torch: `torch.swapdims`."""
        spec = self.spec
        try:
            return wrap(spec.ops.swap_dims(self.inner, dim1, dim2), spec)
        except Exception as error:
            fail("swap_dims", error, self.inner)

    def permute(self, axes: Sequence[int]) -> "Tensor[B, D, K]":
        """Dimension i of the result is dimension `axes[i]`. `[..] -> [..]`. Torch: `torch.permute`."""
        spec = self.spec
        try:
            return wrap(spec.ops.permute(self.inner, axes), spec)
        except Exception as error:
            if isinstance(error, RuntimeError):
                raise TensorValueError(
                    "Permute", f"expected each of the {spec.rank} dimensions once, got {list(axes)}"
                ) from error
            fail("permute", error, self.inner)

    def movedim(self, src: int | Sequence[int], dst: int | Sequence[int]) -> "Tensor[B, D, K]":
        """Dimensions `src` at the places `dst`, the rest in their order. `[..] -> [..]`. Torch: `torch.movedim`."""
        spec = self.spec
        return wrap(computed("movedim", spec.ops.movedim, self.inner, src, dst), spec)

    def flip(self, axes: Sequence[int]) -> "Tensor[B, D, K]":
        """Each of `axes` backwards. `[..] -> [..]`. Torch: `torch.flip`."""
        spec = self.spec
        return wrap(computed("flip", spec.ops.flip, self.inner, axes), spec)

    @overload
    def squeeze(self, rank: R) -> "Tensor[B, R, K]": ...
    @overload
    def squeeze(self, rank: None = None) -> "Tensor[B, Any, K]": ...
    def squeeze(self, rank: int | None = None) -> Any:
        """Without the dimensions of size 1. `[a, 1, b, 1] -> [a, b]`.
        `rank` is what the result must have, for type checkers and checked.
        Torch: `torch.squeeze`. Differs: at least one dimension stays.
        """
        return _squeezed(self, [dim for dim, size in enumerate(self.inner.shape) if size == 1], rank)

    @overload
    def squeeze_dim(self: "Above[Tensor[B2, E, K2]]", dim: int) -> "Tensor[B2, E, K2]": ...
    @overload
    def squeeze_dim(self, dim: int) -> "Tensor[B, Any, K]": ...
    def squeeze_dim(self: Any, dim: int) -> Any:
        """Without one dimension. `[.., 1, ..] -> [.., ..]`. Torch: `torch.squeeze`.
        Differs: another size is an error.
        """
        spec, inner = self.spec, self.inner
        rank = spec.rank
        if -rank <= dim < rank and rank > 1 and inner.shape[dim] == 1:
            return wrap(spec.ops.squeeze(inner, dim), spec.ranks[rank - 1])
        return _squeezed(self, [axis("Squeeze", dim, rank)], None)

    @overload
    def squeeze_dims(self, dims: Sequence[int], rank: R) -> "Tensor[B, R, K]": ...
    @overload
    def squeeze_dims(self, dims: Sequence[int], rank: None = None) -> "Tensor[B, Any, K]": ...
    def squeeze_dims(self, dims: Sequence[int], rank: int | None = None) -> Any:
        """Without `dims`, each of size 1; an empty list means all of size 1. `[a, 1, b, 1] -> [a, b]`.
        `rank` is what the result must have. Torch: `torch.squeeze`.
        Differs: another size is an error, and at least one dimension stays.
        """
        if not dims:
            return self.squeeze(rank)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return _squeezed(self, each_dim("Squeeze", dims, self.spec.rank), rank)

    def unsqueeze(self, rank: R) -> "Tensor[B, R, K]":
        """With dimensions of size 1 in front, up to `rank`. `[a, b] -> [1, .., 1, a, b]`. Torch: `x[(None,) * n]`.
        Differs: takes the rank of the result instead of a dimension.
        """
        spec = self.spec
        shape = self.inner.shape
        if not len(shape) <= rank <= 8:
            raise TensorValueError(
                "Unsqueeze", f"expected a rank of {len(shape)} to 8, got {rank}; unsqueeze_dim(dim) takes a place"
            )
        return wrap(spec.ops.reshape(self.inner, (*[1] * (rank - len(shape)), *shape)), spec.ranks[rank])

    @overload
    def unsqueeze_dim(self, dim: int, rank: R) -> "Tensor[B, R, K]": ...
    @overload
    def unsqueeze_dim(self: "Below[Tensor[B2, E, K2]]", dim: int) -> "Tensor[B2, E, K2]": ...
    @overload
    def unsqueeze_dim(self, dim: int, rank: None = None) -> "Tensor[B, Any, K]": ...
    def unsqueeze_dim(self: Any, dim: int, rank: int | None = None) -> Any:
        """With a dimension of size 1 at `dim`, or as many there as make `rank`. `[a, b] -> [a, 1, b]`.
        Torch: `torch.unsqueeze`. Differs: can add several.
        """
        spec = self.spec
        if rank is None and spec.rank < MAX_RANK:
            try:
                return wrap(spec.ops.unsqueeze_dim(self.inner, dim), spec.ranks[spec.rank + 1])
            except (IndexError, TypeError):
                pass  # a dimension out of range, or none: said below
        place = axis("Unsqueeze", dim, spec.rank + 1)
        if rank is None or rank == spec.rank + 1:
            check_rank("Unsqueeze", spec.rank + 1)
            return wrap(spec.ops.unsqueeze_dim(self.inner, place), spec.ranks[spec.rank + 1])
        if not spec.rank < rank <= 8:
            raise TensorValueError("Unsqueeze", f"expected a rank of {spec.rank + 1} to 8, got {rank}")
        shape = self.inner.shape
        added = (*shape[:place], *[1] * (rank - spec.rank), *shape[place:])
        return wrap(spec.ops.reshape(self.inner, added), spec.ranks[rank])

    @overload
    def unsqueeze_dims(self, axes: Sequence[int], rank: R) -> "Tensor[B, R, K]": ...
    @overload
    def unsqueeze_dims(self, axes: Sequence[int], rank: None = None) -> "Tensor[B, Any, K]": ...
    def unsqueeze_dims(self, axes: Sequence[int], rank: int | None = None) -> Any:
        """With dimensions of size 1 at `axes` of the result; one named again goes behind. `[a, b] -> [1, a, 1, b]`.

        Negative axes count from the end of the result, each further one from one place before.

        Torch: none.
        """
        spec = self.spec
        total = check_rank("Unsqueeze", spec.rank + len(axes))
        if rank is not None and rank != total:
            raise TensorValueError("Unsqueeze", f"{len(axes)} more dimensions make rank {total}, not {rank}")
        sizes = list(self.inner.shape)
        place = -1
        for wanted in sorted(_places(axes, total)):
            place = max(wanted, place + 1)
            if place > len(sizes):
                raise TensorValueError("Unsqueeze", f"axes {list(axes)} leave a gap in the result of rank {total}")
            sizes.insert(place, 1)
        return wrap(spec.ops.reshape(self.inner, sizes), spec.ranks[total])


def _kept_sizes(sizes: Sequence[int], source: Sequence[int]) -> list[int]:
    """`sizes` with the source's size at the place of each 0."""
    check_rank("Reshape", len(sizes))
    if len(sizes) > len(source) and 0 in sizes[len(source) :]:
        raise TensorValueError(
            "Reshape", f"a 0 keeps the size at its place, but {list(sizes)} has one beyond shape {list(source)}"
        )
    return [source[place] if size == 0 else size for place, size in enumerate(sizes)]


def _places(axes: Sequence[int], rank: int) -> list[int]:
    negative = 0
    places: list[int] = []
    for dim in axes:
        places.append(axis("Unsqueeze", dim, rank) - (negative if dim < 0 else 0))
        negative += dim < 0
    if min(places, default=0) < 0:
        raise TensorValueError("Unsqueeze", f"axes {list(axes)} reach in front of the result of rank {rank}")
    return places


def _squeezed(tensor: Any, dims: list[int], rank: int | None) -> Any:
    spec, shape = tensor.spec, tensor.inner.shape
    kept = spec.rank - len(dims)
    wrong = [dim for dim in dims if shape[dim] != 1]
    if wrong:
        raise TensorValueError("Squeeze", f"dimension {wrong[0]} has size {shape[wrong[0]]}, not 1, in {list(shape)}")
    if kept == 0:
        raise TensorValueError("Squeeze", f"nothing is left of shape {list(shape)}; the smallest rank is 1")
    if rank is not None and kept != rank:
        raise TensorValueError("Squeeze", f"the result has rank {kept}, not {rank}; squeeze_dim(dim) takes a place")
    return wrap(spec.ops.squeeze(tensor.inner, dims), spec.ranks[kept])
