"""torch's counterpart of resizing; one class for all ranks."""

from typing import Any

import torch
from torch import nn

from ..torch_counterpart import Counterpart, refuse
from .configs import Interpolate1dConfig, Interpolate2dConfig
from .interpolate import Interpolate1d

# By torch's mode: that of burnlike, and its number of dimensions, if the mode tells it.
_MODES: dict[str, tuple[str, int | None]] = {
    "nearest": ("Nearest", None),
    "nearest-exact": ("NearestExact", None),
    "linear": ("Linear", 1),
    "bilinear": ("Linear", 2),
    "bicubic": ("Cubic", 2),
}


def _config(layer: nn.Upsample) -> Interpolate1dConfig | Interpolate2dConfig:
    """The config of torch's layer. Its mode or its sizes tell the rank; without these it is taken for images."""
    if layer.mode not in _MODES:
        raise refuse(layer, f"mode='{layer.mode}' has no counterpart")
    mode, dims = _MODES[layer.mode]
    size: Any = layer.size
    factor: Any = layer.scale_factor
    told = [len(it) for it in (size, factor) if isinstance(it, tuple | list)]
    dims = dims or (told[0] if told else 2)
    if dims > 2:
        raise refuse(layer, "sizes of 3 dimensions have no counterpart")
    align_corners = bool(layer.align_corners)
    if factor is not None and not (layer.recompute_scale_factor or (align_corners and mode != "Cubic")):
        factors = factor if isinstance(factor, tuple | list) else [factor]
        if any(it != int(it) for it in factors):
            raise refuse(layer, f"scale_factor={factor} has no counterpart without recompute_scale_factor=True")
    if dims == 1:
        size, factor = (it[0] if isinstance(it, tuple | list) else it for it in (size, factor))
    config_type: Any = Interpolate1dConfig if dims == 1 else Interpolate2dConfig
    return config_type(output_size=size, scale_factor=factor, mode=mode, align_corners=align_corners)


def _build(layer: Any, device: torch.device) -> nn.Upsample:
    dims = 1 if isinstance(layer, Interpolate1d) else 2
    mode = next((name for name, (ours, of) in _MODES.items() if ours == layer.mode and of in (dims, None)), None)
    if mode is None:
        raise refuse(layer, f"mode {layer.mode} has no counterpart")
    sizes = (layer.output_size, layer.scale_factor)
    size, factor = ((it,) if dims == 1 and it is not None else it for it in sizes)
    corners = None if mode.startswith("nearest") else layer.align_corners
    recompute = None if factor is None else True
    return nn.Upsample(size, factor, mode, corners, recompute)  # pyright: ignore[reportArgumentType]


COUNTERPARTS = [
    Counterpart("Interpolate1d", nn.Upsample, _config, _build),
    Counterpart("Interpolate2d", nn.Upsample, _config, _build),
]
