"""Resizing."""

import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..backend import TorchModuleOps
from ..errors import ArgumentError, ShapeError
from ..module import Content
from ..tensor.torch_bridge.torch_function import lift
from .call_types import KeepsType
from .configs import Interpolate1dConfig, Interpolate2dConfig
from .layer import ConfiguredLayer, expect_shape
from .padding import each
from .torch_counterpart import Counterpart, refuse

# Pickles of burnlike 0.1.0 name the module that this file was.
sys.modules[f"{__name__}.interpolate"] = sys.modules[__name__]

_LARGEST = 2**63 - 1
_LINE_MODES = {"Nearest": "nearest", "NearestExact": "nearest-exact", "Linear": "linear"}
_IMAGE_MODES = {
    "Nearest": "Nearest",
    "NearestExact": "NearestExact",
    "Linear": "Bilinear",
    "Cubic": "Bicubic",
    "Lanczos": "Lanczos3",
}


def calculate_output_size(
    input_dims: Sequence[int],
    output_size: int | tuple[int, ...] | None = None,
    scale_factor: float | tuple[float, ...] | None = None,
) -> tuple[int, ...]:
    """The sizes of an input of `input_dims`, `[batch, channels, *sizes]`, once it is resized.

    Raises ArgumentError if not exactly one of `output_size` and `scale_factor` is given, ShapeError if a size would be
    0, or too large.
    """
    if (output_size is None) == (scale_factor is None):
        raise ArgumentError("expected exactly one of output_size and scale_factor")
    sizes = input_dims[2:]
    if output_size is not None:
        return each(output_size, len(sizes))
    factors: Any = scale_factor if isinstance(scale_factor, tuple) else (scale_factor,) * len(sizes)
    out_sizes = tuple(int(size * factor) for size, factor in zip(sizes, factors, strict=True))
    for size in out_sizes:
        if not 0 < size <= _LARGEST:
            raise ShapeError(
                f"Interpolate{len(sizes)}d: expected sizes from 1 to 2^63 - 1, got {list(out_sizes)} for {list(sizes)}"
            )
    return out_sizes


class _Interpolate(KeepsType, ConfiguredLayer):
    output_size: int | tuple[int, ...] | None
    scale_factor: float | tuple[float, ...] | None
    mode: str
    align_corners: bool

    def custom_content(self, content: Content) -> Content:
        size, factor = self.output_size, self.scale_factor
        content.add("mode", self.mode).add_debug("output_size", list(size) if isinstance(size, tuple) else size)
        if isinstance(factor, tuple):  # as Burn displays an array
            factor = f"[0..{len(factor)}] {{{', '.join(f'{at}: {it:g}' for at, it in enumerate(factor))}}}"
        return content.add("scale_factor", factor)


class Interpolate1d(_Interpolate, config=Interpolate1dConfig):
    """Resize `[batch, channels, length]` to `[batch, channels, length_out]`.
    Torch: `nn.Upsample` of mode `nearest`, `linear`.
    Differs: corners are aligned by default; a scale factor only gives the size; cubic and Lanczos.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """As the class says. Raises ShapeError if a size would be 0 or too large."""
        expect_shape(self, x, "batch", "channels", "length")
        size = calculate_output_size(x.shape, self.output_size, self.scale_factor)
        if self.mode in _LINE_MODES:
            corners = self.align_corners if self.mode == "Linear" else None
            return functional.interpolate(x, size, mode=_LINE_MODES[self.mode], align_corners=corners)
        image = TorchModuleOps.interpolate(x.unsqueeze(2), (1, *size), _IMAGE_MODES[self.mode], self.align_corners)
        return image.squeeze(2)


class Interpolate2d(_Interpolate, config=Interpolate2dConfig):
    """Resize `[batch, channels, height, width]` to `[.., height_out, width_out]`; `channels_last` stays (but Lanczos).
    Torch: `nn.Upsample` of mode `nearest`, `bilinear`, `bicubic`.
    Differs: corners are aligned by default; a scale factor only gives the size; Lanczos.
    """

    def __init__(self, config: Interpolate2dConfig) -> None:
        super().__init__(config)
        size, factor = config.output_size, config.scale_factor
        self.output_size = None if size is None else each(size, 2)
        self.scale_factor = factor if factor is None or isinstance(factor, tuple) else (factor, factor)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """As the class says. Raises ShapeError if a size would be 0 or too large."""
        expect_shape(self, x, "batch", "channels", "height", "width")
        size = calculate_output_size(x.shape, self.output_size, self.scale_factor)
        return TorchModuleOps.interpolate(x, size, _IMAGE_MODES[self.mode], self.align_corners)


# By torch's mode: that of burnlike, and its number of dimensions, if the mode tells it.
_MODES: dict[str, tuple[str, int | None]] = {
    "nearest": ("Nearest", None),
    "nearest-exact": ("NearestExact", None),
    "linear": ("Linear", 1),
    "bilinear": ("Linear", 2),
    "bicubic": ("Cubic", 2),
}


def _from_torch(layer: nn.Upsample) -> Interpolate1dConfig | Interpolate2dConfig:
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


def _to_torch(layer: Any, device: torch.device) -> nn.Upsample:
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
    Counterpart("Interpolate1d", nn.Upsample, _from_torch, _to_torch),
    Counterpart("Interpolate2d", nn.Upsample, _from_torch, _to_torch),
]
