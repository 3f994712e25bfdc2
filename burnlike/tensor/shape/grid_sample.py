"""Sampling of images at coordinates."""

from typing import Any

import torch

from ...errors import TensorTypeError, TensorValueError
from ..core.base import B, D, Floats, K, Tensor, TensorBase, like
from ..core.kinds import D4, Float
from ..core.operands import computed, ranked_spec, tensor_operand
from ..options import GridSampleMode, GridSampleOptions

_MODES = {"Nearest": "nearest", "Bilinear": "bilinear", "Bicubic": "bicubic"}
_PADDINGS = {"Zeros": "zeros", "Border": "border", "Reflection": "reflection"}


class GridMethods(TensorBase[B, D, K]):
    """Sampling."""

    __slots__ = ()

    def grid_sample_2d(
        self: "Floats[B, D4]",
        grid: "Tensor[B, D4, Float] | torch.Tensor",
        options: GridSampleOptions | GridSampleMode | None = None,
    ) -> "Tensor[B, D4, Float]":
        """Values at coordinates x, y from -1 to 1. `[N, C, H, W]` at `[N, H', W', 2] -> [N, C, H', W']`.

        Args:
            grid: coordinates, x along W and y along H.
            options: or only its mode; by default bilinear, zeros outside, corners not aligned.

        Torch: `F.grid_sample`. Differs: options instead of arguments.
        """
        name = "grid_sample_2d"
        spec = ranked_spec(name, self, 4)
        places = tensor_operand(name, spec, grid)
        chosen = _options(options)
        shape, at = self.inner.shape, places.shape
        if at[-1] != 2 or at[0] != shape[0]:
            raise TensorValueError(
                "Grid Sample 2d", f"expected a grid [{shape[0]}, H, W, 2] for {list(shape)}, got {list(at)}"
            )
        how = _MODES[chosen.mode], _PADDINGS[chosen.padding_mode], chosen.align_corners
        return like(computed(name, spec.module.grid_sample_2d, self.inner, places, *how), spec)


def _options(options: Any) -> GridSampleOptions:
    if options is None:
        return GridSampleOptions()
    if isinstance(options, str):
        return GridSampleOptions(options)  # pyright: ignore[reportArgumentType]
    if not isinstance(options, GridSampleOptions):
        raise TensorTypeError("Grid Sample 2d", f"expected GridSampleOptions or a mode, got {type(options).__name__}")
    return options
