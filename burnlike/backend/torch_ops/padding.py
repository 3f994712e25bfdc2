"""Padding and triangles, in torch."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

# torch has no triangles of the wide unsigned types; their bits are those of the signed ones.
_SIGNED = {torch.uint16: torch.int16, torch.uint32: torch.int32, torch.uint64: torch.int64}
Pairs = Sequence[tuple[int, int]]


class TorchPaddingOps:
    """Implements `PaddingOps`."""

    @staticmethod
    def triu(tensor: Tensor, diagonal: int, /) -> Tensor:
        signed = _SIGNED.get(tensor.dtype)
        return tensor.triu(diagonal) if signed is None else tensor.view(signed).triu(diagonal).view(tensor.dtype)

    @staticmethod
    def tril(tensor: Tensor, diagonal: int, /) -> Tensor:
        signed = _SIGNED.get(tensor.dtype)
        return tensor.tril(diagonal) if signed is None else tensor.view(signed).tril(diagonal).view(tensor.dtype)

    @staticmethod
    def pad_constant(tensor: Tensor, pairs: Pairs, value: float | int, /) -> Tensor:
        return F.pad(tensor, [size for pair in reversed(pairs) for size in pair], value=value)

    @staticmethod
    def pad_reflect(tensor: Tensor, pairs: Pairs, /) -> Tensor:
        return _surround(tensor, pairs, _mirrored)

    @staticmethod
    def pad_edge(tensor: Tensor, pairs: Pairs, /) -> Tensor:
        return _surround(tensor, pairs, _repeated)


def _surround(tensor: Tensor, pairs: Pairs, sides: Callable[[Tensor, int, int, int], list[Tensor]]) -> Tensor:
    """Pad dimension after dimension: torch's own modes take some ranks and element types only."""
    for dim, (before, after) in enumerate(pairs, tensor.ndim - len(pairs)):
        if before or after:
            head, tail = sides(tensor, dim, before, after)
            tensor = torch.cat([head, tensor, tail], dim)
    return tensor


def _mirrored(tensor: Tensor, dim: int, before: int, after: int) -> list[Tensor]:
    size = tensor.shape[dim]
    return [tensor.narrow(dim, 1, before).flip(dim), tensor.narrow(dim, size - 1 - after, after).flip(dim)]


def _repeated(tensor: Tensor, dim: int, before: int, after: int) -> list[Tensor]:
    sizes = [-1] * tensor.ndim
    found: list[Tensor] = []
    for start, count in ((0, before), (tensor.shape[dim] - 1, after)):
        sizes[dim] = count
        found.append(tensor.narrow(dim, start, 1).expand(sizes))
    return found
