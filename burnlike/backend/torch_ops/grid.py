"""`GridOps`, in torch."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .precision import at_least_float32


class TorchGridOps:
    """Implements `GridOps`."""

    @staticmethod
    def meshgrid(tensors: Sequence[Tensor], cartesian: bool, sparse: bool, /) -> list[Tensor]:
        if sparse:
            rank = len(tensors)
            grids = [
                tensor.reshape([-1 if place == own else 1 for place in range(rank)])
                for own, tensor in enumerate(tensors)
            ]
            return [grid.transpose(0, 1) for grid in grids] if cartesian and rank > 1 else grids
        return list(torch.meshgrid(*tensors, indexing="xy" if cartesian else "ij"))

    @staticmethod
    def meshgrid_stack(tensors: Sequence[Tensor], last: bool, /) -> Tensor:
        return torch.stack(torch.meshgrid(*tensors, indexing="ij"), -1 if last else 0)

    @staticmethod
    def affine_grid_2d(transform: Tensor, batch: int, height: int, width: int, /) -> Tensor:
        wide = at_least_float32(transform).expand(batch, 2, 3)
        return torch.affine_grid_generator(wide, [batch, 1, height, width], True).to(transform.dtype)

    @staticmethod
    def grid_sample_2d(tensor: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool, /) -> Tensor:
        wide, places = at_least_float32(tensor), at_least_float32(grid)
        return F.grid_sample(wide, places, mode, padding, align_corners).to(tensor.dtype)
