"""`GridOps`, in torch; Lanczos3, which torch lacks, in plain operations."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from .creation import at_least_float32


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

    @staticmethod
    def interpolate(tensor: Tensor, size: Sequence[int], mode: str, align_corners: bool, /) -> Tensor:
        if mode == "Lanczos3":
            return _lanczos(_lanczos(tensor, 2, size[0], align_corners), 3, size[1], align_corners)
        corners = None if mode.startswith("Nearest") else align_corners
        return F.interpolate(tensor, size=list(size), mode=_MODES[mode], align_corners=corners)


_MODES = {"Nearest": "nearest", "NearestExact": "nearest-exact", "Bilinear": "bilinear", "Bicubic": "bicubic"}


def _lanczos(tensor: Tensor, dim: int, size: int, align_corners: bool) -> Tensor:
    """One dimension: the 6 elements around each place, those inside of the input, weighted to a sum of 1."""
    length = tensor.shape[dim]
    step, start = length / size, 0.5
    if align_corners:
        step, start = (length - 1) / max(size - 1, 1), 0.0
    place = (torch.arange(size, device=tensor.device, dtype=torch.float64) + start) * step - start
    index = place.floor().long()[:, None] + torch.arange(-2, 4, device=tensor.device)
    distance = place[:, None] - index
    weight = torch.sinc(distance) * torch.sinc(distance / 3)
    weight = torch.where((distance.abs() < 3) & (index >= 0) & (index < length), weight, 0.0)
    weight = (weight / weight.sum(1, keepdim=True)).to(tensor.dtype)
    taken = tensor.index_select(dim, index.clamp(0, length - 1).flatten()).unflatten(dim, (size, 6))
    return (taken * weight.reshape(size, 6, *[1] * (3 - dim))).sum(dim + 1)
