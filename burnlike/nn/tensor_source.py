"""Tensors of one library in the layout of another: of which tensor, or part of one, each is made. Imports no torch."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import NoCounterpartError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True, slots=True)
class TensorSource:
    """A tensor of the other library, or one of equal parts of it, that values are taken from.

    Attributes:
        name: of the tensor there.
        chunk: which of how many equal parts, as query, key and value are in one tensor of `nn.MultiheadAttention`.
        transposed: whether the values here are the transpose of (the part of) the tensor there.
        dim: the dimension of the tensor there that is cut into parts.
    """

    name: str
    chunk: tuple[int, int] = (0, 1)
    transposed: bool = False
    dim: int = 0

    @property
    def is_whole(self) -> bool:
        """True if it is all of the tensor there."""
        return self.chunk == (0, 1)

    def taken_from(self, tensor: "Tensor") -> "Tensor":
        """The values, a view of the tensor there."""
        index, count = self.chunk
        part = tensor.chunk(count, self.dim)[index] if count > 1 else tensor
        return part.mT if self.transposed and part.ndim > 1 else part

    def whole_shape(self, shape: Sequence[int]) -> list[int]:
        """The shape of the tensor there, from that of the values."""
        whole = [*shape][:: -1 if self.transposed else 1]
        if whole:
            whole[self.dim] *= self.chunk[1]
        return whole


class TensorRecipe(NamedTuple):
    """The recipe of a tensor: the sources of its equal parts, in order, and the dimension that joins them."""

    sources: tuple[TensorSource, ...]
    dim: int = 0

    def make(self, tensors: Mapping[str, "Tensor"]) -> "Tensor":
        """The tensor, of those of the other library by name; a view if it is part of one."""
        parts = [source.taken_from(tensors[source.name]) for source in self.sources]
        if len(parts) == 1:
            return parts[0]
        import torch

        return torch.cat(parts, self.dim)


def whole(sources: Mapping[str, TensorSource]) -> dict[str, TensorRecipe]:
    """The recipes of tensors that have one source each."""
    return {name: TensorRecipe((source,)) for name, source in sources.items()}


def inverse(recipes: Mapping[str, TensorRecipe]) -> dict[str, TensorRecipe]:
    """The recipes of the other library's tensors, by this one's; NoCounterpartError if some parts are missing."""
    pieces_of: dict[str, tuple[list[Any], int]] = {}
    for name, recipe in recipes.items():
        for place, source in enumerate(recipe.sources):
            index, count = source.chunk
            part = TensorSource(name, (place, len(recipe.sources)), source.transposed, recipe.dim)
            pieces_of.setdefault(source.name, ([None] * count, source.dim))[0][index] = part
    for name, (parts, _) in pieces_of.items():
        if None in parts:
            there = len(parts) - parts.count(None)
            raise NoCounterpartError(f"'{name}' has {len(parts)} parts, of which {there} are there")
    return {name: TensorRecipe(tuple(parts), dim) for name, (parts, dim) in pieces_of.items()}
