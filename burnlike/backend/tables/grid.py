"""Coordinates of grids, and images resampled at other places."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

from torch import Tensor


class GridOps(Protocol):
    """Coordinates and sampling."""

    def meshgrid(self, tensors: Sequence[Tensor], cartesian: bool, sparse: bool, /) -> list[Tensor]:
        """N vectors of any kind -> N tensors of rank N; cartesian: dimensions 0 and 1 swapped; sparse: sizes 1."""

    def meshgrid_stack(self, tensors: Sequence[Tensor], last: bool, /) -> Tensor:
        """N vectors of any kind -> `[N, ..]`, or `[.., N]` if last."""

    def affine_grid_2d(self, transform: Tensor, batch: int, height: int, width: int, /) -> Tensor:
        """`[batch or 1, 2, 3] -> [batch, height, width, 2]`: coordinates -1 to 1 at the corners, transformed."""

    def grid_sample_2d(self, tensor: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool, /) -> Tensor:
        """`[N, C, H, W]` at `[N, H', W', 2]` -> `[N, C, H', W']`; modes as torch names them."""

    def interpolate(self, tensor: Tensor, size: Sequence[int], mode: str, align_corners: bool, /) -> Tensor:
        """`[batch, channels, h, w] -> [batch, channels, *size]`; the modes are those of `InterpolateOptions`."""
