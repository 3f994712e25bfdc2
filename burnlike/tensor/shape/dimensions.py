"""The order of dimensions, and dimensions of size 1 dropped and added."""

from collections.abc import Sequence
from typing import Any, Literal, overload

from typing_extensions import TypeVar

from ...errors import TensorValueError
from ..core.arguments import axis, check_rank, each_dim
from ..core.base import B2, K2, Above, B, Below, D, E, K, Tensor, TensorBase, wrap
from ..core.kinds import MAX_RANK
from ..core.operands import computed, fail

# A rank given as an argument: type checkers keep the literal, because the bound is made of literals.
R = TypeVar("R", bound=Literal[1, 2, 3, 4, 5, 6, 7, 8])


class DimensionMethods(TensorBase[B, D, K]):
    """The order of dimensions, and dimensions of size 1, dropped and added."""

    __slots__ = ()

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
