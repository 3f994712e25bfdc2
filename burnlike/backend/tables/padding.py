"""Padding and triangles."""

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class PaddingOps(Protocol):
    """Padding and triangles, of Float and Int tensors. `pairs` are (before, after) of the last dimensions, in order."""

    def pad_constant(self, tensor: Tensor, pairs: Sequence[tuple[int, int]], value: float | int, /) -> Tensor:
        """`value` around the tensor."""
        ...

    def pad_reflect(self, tensor: Tensor, pairs: Sequence[tuple[int, int]], /) -> Tensor:
        """The elements next to each edge mirrored around it; padding is smaller than the dimension."""
        ...

    def pad_edge(self, tensor: Tensor, pairs: Sequence[tuple[int, int]], /) -> Tensor:
        """The outermost elements repeated; padded dimensions are not empty."""
        ...

    def triu(self, tensor: Tensor, diagonal: int, /) -> Tensor:
        """0 below the diagonal of the last two dimensions."""
        ...

    def tril(self, tensor: Tensor, diagonal: int, /) -> Tensor:
        """0 above the diagonal of the last two dimensions."""
        ...
