"""Weights of vision transformers for images of another size than those of the training."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from ..nn.padding import each
from ..record import Record
from .vit_configs import VisionTransformerConfig


def differ_in_size(config: VisionTransformerConfig, other: VisionTransformerConfig) -> bool:
    """Whether images have different numbers of patches, of one size."""
    return each(config.patch_size, 2) == each(other.patch_size, 2) and config.grid != other.grid


def resized(record: Record, source: VisionTransformerConfig, wanted: VisionTransformerConfig) -> Record:
    """The record of a vision transformer of the config `source`, for images of the size of `wanted`."""
    positions = resized_positions(record.tensors["positions"], source.grid, wanted.grid)
    return replace(record, tensors={**record.tensors, "positions": positions})


def resized_positions(positions: Tensor, grid: tuple[int, int], new_grid: tuple[int, int]) -> Tensor:
    """Interpolate the vectors of patches (Dosovitskiy et al. 2021, section 3.2), bicubically as `transformers` does.

    Args:
        positions: `[1, 1 + height * width, d_model]`; the first, of the class token, stays.
        grid: height and width of the images, in patches.
        new_grid: those of the images that the result is for.

    Returns:
        `[1, 1 + new height * new width, d_model]` in the type of `positions`; halves are computed in float32.
    """
    image = positions[:, 1:].mT.unflatten(2, grid).to(torch.promote_types(positions.dtype, torch.float32))
    patches = functional.interpolate(image, size=new_grid, mode="bicubic", align_corners=False).flatten(2).mT
    return torch.cat((positions[:, :1], patches.to(positions.dtype)), 1)
