"""Slices, selections and masks, in torch."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..tables.indexing import Ranges, Scalar
from .scattering import TorchNumericScatterOps, TorchScatterOps


class TorchIndexOps(TorchScatterOps):
    """Implements `IndexOps`."""

    narrow: Any = staticmethod(Tensor.narrow)
    select_dim: Any = staticmethod(Tensor.select)
    mask_select: Any = staticmethod(Tensor.masked_select)

    @staticmethod
    def slice(tensor: Tensor, ranges: Ranges, backwards: Sequence[int], /) -> Tensor:
        return tensor[ranges].flip(tuple(backwards)) if backwards else tensor[ranges]

    @staticmethod
    def slice_assign(tensor: Tensor, ranges: Ranges, backwards: Sequence[int], values: Tensor, /) -> Tensor:
        out = tensor.clone()
        out[ranges] = values.flip(tuple(backwards)) if backwards else values
        return out

    @staticmethod
    def slice_fill(tensor: Tensor, ranges: Ranges, value: Scalar, /) -> Tensor:
        out = tensor.clone()
        out[ranges] = value
        return out

    select: Any = staticmethod(Tensor.index_select)
    gather: Any = staticmethod(Tensor.gather)

    @staticmethod
    def take(tensor: Tensor, dim: int, indices: Tensor, /) -> Tensor:
        return torch.index_select(tensor, dim, indices.reshape(-1)).unflatten(dim, indices.shape)

    @staticmethod
    def mask_where(tensor: Tensor, mask: Tensor, values: Tensor, /) -> Tensor:
        return torch.where(mask, values, tensor)

    @staticmethod
    def mask_fill(tensor: Tensor, mask: Tensor, value: Scalar, /) -> Tensor:
        return torch.where(mask, value, tensor)


class TorchNumericIndexOps(TorchNumericScatterOps):
    """Implements `NumericIndexOps`."""

    @staticmethod
    def gather_nd(tensor: Tensor, indices: Tensor, /) -> Tensor:
        # Torch's indexing counts negative indices from the end: an index beyond every size makes it refuse them.
        return tensor[torch.where(indices < 0, 2**62, indices).unbind(-1)]

    @staticmethod
    def one_hot(tensor: Tensor, classes: int, on: Scalar, off: Scalar, dim: int, /) -> Tensor:
        wide = tensor.double() if tensor.is_floating_point() else tensor.long()
        indices = torch.where(wide < 0, wide + classes, wide).long().unsqueeze(dim)
        shape = [*tensor.shape[:dim], classes, *tensor.shape[dim:]]
        return torch.full(shape, off, dtype=tensor.dtype, device=tensor.device).scatter(dim, indices, on)

    @staticmethod
    def bounds(tensor: Tensor, /) -> tuple[float, float]:
        smallest, largest = torch.stack(torch.aminmax(tensor)).tolist()
        return smallest, largest
