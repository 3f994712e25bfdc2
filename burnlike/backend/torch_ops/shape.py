"""Shapes, joining, padding and triangles, in torch."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class TorchShapeOps:
    """Implements `ShapeOps`."""

    reshape: Any = staticmethod(Tensor.reshape)
    swap_dims: Any = staticmethod(Tensor.transpose)
    permute: Any = staticmethod(Tensor.permute)
    movedim: Any = staticmethod(Tensor.movedim)
    flip: Any = staticmethod(Tensor.flip)
    flatten: Any = staticmethod(Tensor.flatten)
    squeeze: Any = staticmethod(Tensor.squeeze)
    unsqueeze_dim: Any = staticmethod(Tensor.unsqueeze)
    expand: Any = staticmethod(Tensor.expand)
    repeat: Any = staticmethod(Tensor.repeat)
    roll: Any = staticmethod(Tensor.roll)
    cat: Any = staticmethod(torch.cat)
    stack: Any = staticmethod(torch.stack)
    split: Any = staticmethod(Tensor.split_with_sizes)

    @staticmethod
    def unfold(tensor: Tensor, dim: int, size: int, step: int, /) -> Tensor:
        if size > tensor.shape[dim]:  # no window, where torch refuses
            none = tensor.narrow(dim, 0, 0).unsqueeze(-1)
            return none.expand(*none.shape[:-1], size)
        return tensor.unfold(dim, size, step)


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
