# Written by `make docs` from shape.py (tools/tensor_stubs.py): do not edit.
# pyright: reportIncompatibleMethodOverride=false
"""Other shapes of the same elements; the order of dimensions, and dimensions of size 1 dropped and added."""

from collections.abc import Sequence
from typing import Any, Literal, overload

from typing_extensions import TypeVar

from ..core.base import B2, D2, D3, D4, D5, D6, D7, D8, K2, Above, B, Below, D, E, K, TensorBase
from ..core.kinds import D1, S1, S2, S3, S4, S5, S6, S7, S8
from ..tensor import Tensor

R = TypeVar("R", bound=Literal[1, 2, 3, 4, 5, 6, 7, 8])

class ShapeMethods(TensorBase[B, D, K]):
    """Other shapes of the same elements; the order of dimensions, and dimensions of size 1, dropped and added."""
    @overload
    def reshape(self, shape: S1, /) -> Tensor[B, D1, K]: ...
    @overload
    def reshape(self, shape: S2, /) -> Tensor[B, D2, K]: ...
    @overload
    def reshape(self, shape: S3, /) -> Tensor[B, D3, K]: ...
    @overload
    def reshape(self, shape: S4, /) -> Tensor[B, D4, K]: ...
    @overload
    def reshape(self, shape: S5, /) -> Tensor[B, D5, K]: ...
    @overload
    def reshape(self, shape: S6, /) -> Tensor[B, D6, K]: ...
    @overload
    def reshape(self, shape: S7, /) -> Tensor[B, D7, K]: ...
    @overload
    def reshape(self, shape: S8, /) -> Tensor[B, D8, K]: ...
    @overload
    def reshape(self, a: int, /) -> Tensor[B, D1, K]: ...
    @overload
    def reshape(self, a: int, b: int, /) -> Tensor[B, D2, K]: ...
    @overload
    def reshape(self, a: int, b: int, c: int, /) -> Tensor[B, D3, K]: ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, /) -> Tensor[B, D4, K]: ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, e: int, /) -> Tensor[B, D5, K]: ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, e: int, f: int, /) -> Tensor[B, D6, K]: ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, e: int, f: int, g: int, /) -> Tensor[B, D7, K]: ...
    @overload
    def reshape(self, a: int, b: int, c: int, d: int, e: int, f: int, g: int, h: int, /) -> Tensor[B, D8, K]: ...
    @overload
    def reshape(self, shape: Sequence[int], /) -> Tensor[B, Any, K]:
        """The elements in row-major order as another shape. `[..] -> shape`.
        Sizes are given as a tuple, a list, or one by one; one -1 is inferred.
        Torch: `torch.reshape`. Differs: a 0 keeps the size at its place.
        """
    @overload
    def flatten(self, start_dim: int, end_dim: int, rank: R) -> Tensor[B, R, K]: ...
    @overload
    def flatten(self: ShapeMethods[B, D1, K], start_dim: int, end_dim: int) -> Tensor[B, D1, K]: ...
    @overload
    def flatten(self, start_dim: Literal[0], end_dim: Literal[-1]) -> Tensor[B, D1, K]: ...
    @overload
    def flatten(self, start_dim: int, end_dim: int, rank: None = None) -> Tensor[B, Any, K]:
        """Dimensions `start_dim` to `end_dim`, both included, as one. `[.., a, .., b, ..] -> [.., a * .. * b, ..]`.
        `rank` is what the result must have, for type checkers and checked. Torch: `torch.flatten`.
        """
    @overload
    def expand(self, shape: S1) -> Tensor[B, D1, K]: ...
    @overload
    def expand(self, shape: S2) -> Tensor[B, D2, K]: ...
    @overload
    def expand(self, shape: S3) -> Tensor[B, D3, K]: ...
    @overload
    def expand(self, shape: S4) -> Tensor[B, D4, K]: ...
    @overload
    def expand(self, shape: S5) -> Tensor[B, D5, K]: ...
    @overload
    def expand(self, shape: S6) -> Tensor[B, D6, K]: ...
    @overload
    def expand(self, shape: S7) -> Tensor[B, D7, K]: ...
    @overload
    def expand(self, shape: S8) -> Tensor[B, D8, K]: ...
    @overload
    def expand(self, shape: Sequence[int]) -> Tensor[B, Any, K]:
        """Repeats sizes of 1, adds new ones in front; -1 keeps one. `[..] -> shape`. Torch: `Tensor.expand`.
        Differs: a size of 0 is refused.
        """
    def repeat_dim(self, dim: int, times: int) -> Tensor[B, D, K]:
        """Tiled along one dimension. `[.., n, ..] -> [.., n * times, ..]`. Torch: `Tensor.repeat`."""
    def repeat(self, sizes: Sequence[int]) -> Tensor[B, D, K]:
        """Dimension i tiled `sizes[i]` times; those without a number stay. `[a, b, ..] -> [a * s0, b * s1, ..]`.

        Numbers beyond the last dimension must be 1.

        Torch: `Tensor.repeat`. Differs: counts from the left, never adds dimensions.
        """
    def roll(self, shifts: Sequence[int], dims: Sequence[int]) -> Tensor[B, D, K]:
        """Element i of each of `dims` moves to i + shift, around the end. `[..] -> [..]`. Torch: `torch.roll`."""
    def roll_dim(self, shift: int, dim: int) -> Tensor[B, D, K]:
        """Element i of `dim` moves to i + shift, around the end. `[..] -> [..]`. Torch: `torch.roll`."""
    @overload
    def unfold(self: Below[Tensor[B2, E, K2]], dim: int, size: int, step: int) -> Tensor[B2, E, K2]: ...
    @overload
    def unfold(self, dim: int, size: int, step: int) -> Tensor[B, Any, K]:
        """Windows of `size` elements, `step` apart, as a new last dimension. `[.., n, ..] -> [.., windows, .., size]`.
        Torch: `Tensor.unfold`. Differs: no window where the dimension is smaller than `size`.
        """
    def transpose(self) -> Tensor[B, D, K]:
        """The last two dimensions swapped; rank 1 as it is. `[.., a, b] -> [.., b, a]`. Torch: `x.mT`.
        Differs: `swap_dims` takes dimensions.
        """
    def t(self) -> Tensor[B, D, K]:
        """The same as `transpose`. `[.., a, b] -> [.., b, a]`. Torch: `x.mT`. Differs: any rank."""
    @property
    def T(self) -> Tensor[B, D, K]:
        """`transpose` of a matrix. `[a, b] -> [b, a]`. Torch: `x.T`. Differs: rank 2 only; torch deprecates others."""
    def swap_dims(self, dim1: int, dim2: int) -> Tensor[B, D, K]:
        """Two dimensions in each other's place. `[.., a, .., b, ..] -> [.., b, .., a, ..]`. Torch: `torch.swapdims`."""
    def permute(self, axes: Sequence[int]) -> Tensor[B, D, K]:
        """Dimension i of the result is dimension `axes[i]`. `[..] -> [..]`. Torch: `torch.permute`."""
    def movedim(self, src: int | Sequence[int], dst: int | Sequence[int]) -> Tensor[B, D, K]:
        """Dimensions `src` at the places `dst`, the rest in their order. `[..] -> [..]`. Torch: `torch.movedim`."""
    def flip(self, axes: Sequence[int]) -> Tensor[B, D, K]:
        """Each of `axes` backwards. `[..] -> [..]`. Torch: `torch.flip`."""
    @overload
    def squeeze(self, rank: R) -> Tensor[B, R, K]: ...
    @overload
    def squeeze(self, rank: None = None) -> Tensor[B, Any, K]:
        """Without the dimensions of size 1. `[a, 1, b, 1] -> [a, b]`.
        `rank` is what the result must have, for type checkers and checked.
        Torch: `torch.squeeze`. Differs: at least one dimension stays.
        """
    @overload
    def squeeze_dim(self: Above[Tensor[B2, E, K2]], dim: int) -> Tensor[B2, E, K2]: ...
    @overload
    def squeeze_dim(self, dim: int) -> Tensor[B, Any, K]:
        """Without one dimension. `[.., 1, ..] -> [.., ..]`. Torch: `torch.squeeze`.
        Differs: another size is an error.
        """
    @overload
    def squeeze_dims(self, dims: Sequence[int], rank: R) -> Tensor[B, R, K]: ...
    @overload
    def squeeze_dims(self, dims: Sequence[int], rank: None = None) -> Tensor[B, Any, K]:
        """Without `dims`, each of size 1; an empty list means all of size 1. `[a, 1, b, 1] -> [a, b]`.
        `rank` is what the result must have. Torch: `torch.squeeze`.
        Differs: another size is an error, and at least one dimension stays.
        """
    def unsqueeze(self, rank: R) -> Tensor[B, R, K]:
        """With dimensions of size 1 in front, up to `rank`. `[a, b] -> [1, .., 1, a, b]`. Torch: `x[(None,) * n]`.
        Differs: takes the rank of the result instead of a dimension.
        """
    @overload
    def unsqueeze_dim(self, dim: int, rank: R) -> Tensor[B, R, K]: ...
    @overload
    def unsqueeze_dim(self: Below[Tensor[B2, E, K2]], dim: int) -> Tensor[B2, E, K2]: ...
    @overload
    def unsqueeze_dim(self, dim: int, rank: None = None) -> Tensor[B, Any, K]:
        """With a dimension of size 1 at `dim`, or as many there as make `rank`. `[a, b] -> [a, 1, b]`.
        Torch: `torch.unsqueeze`. Differs: can add several.
        """
    @overload
    def unsqueeze_dims(self, axes: Sequence[int], rank: R) -> Tensor[B, R, K]: ...
    @overload
    def unsqueeze_dims(self, axes: Sequence[int], rank: None = None) -> Tensor[B, Any, K]:
        """With dimensions of size 1 at `axes` of the result; one named again goes behind. `[a, b] -> [1, a, 1, b]`.

        Negative axes count from the end of the result, each further one from one place before.

        Torch: none.
        """
