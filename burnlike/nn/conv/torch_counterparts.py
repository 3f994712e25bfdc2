"""torch's counterparts of convolutions, and of the layers that rearrange pixels and windows."""

from functools import partial
from typing import Any

import torch
from torch import nn

from ..padding import each, span
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, alike, expect_only, refuse
from . import configs

_TENSORS = {"weight": TensorSource("weight"), "bias": TensorSource("bias")}


def _config(config: Any, layer: Any) -> Any:
    expect_only(layer, padding_mode="zeros")
    dims = len(layer.kernel_size)
    sizes = {name: getattr(layer, name) for name in ("kernel_size", "stride", "dilation")}
    if layer.transposed:
        sizes |= {"padding": layer.padding, "padding_out": layer.output_padding}
    fields: dict[str, Any] = {name: size[0] if dims == 1 else size for name, size in sizes.items()}
    if not layer.transposed:
        fields["padding"] = _padding(layer)
    if config is configs.Conv1dConfig:
        fields |= {"channels_in": layer.in_channels, "channels_out": layer.out_channels}
    else:
        fields["channels"] = (layer.in_channels, layer.out_channels)
    return config(**fields, groups=layer.groups, bias=layer.bias is not None)


def _padding(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> Any:
    """burnlike's padding of torch's, whose `same` is that of Burn but for the dilation."""
    dims = len(layer.kernel_size)
    begin = end = layer.padding if isinstance(layer.padding, tuple) else (0,) * dims
    if layer.padding == "same":
        if all(gap == 1 for gap in layer.dilation) and dims < 3:
            return "Same"
        begin, end = _same_ends(layer.kernel_size, layer.dilation)
        if begin != end and dims == 3:
            raise refuse(layer, "padding='same' of an even kernel has no counterpart in 3 dimensions")
    if not any(end):
        return "Valid"
    return begin if dims == 3 else begin + end


def _same_ends(kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The padding before and after each dimension that torch's `same` adds."""
    total = [covered - 1 for covered in span(kernel_size, dilation)]
    return tuple(it // 2 for it in total), tuple(it - it // 2 for it in total)


def _torch_padding(layer: Any) -> Any:
    dims, padding = layer.weight.ndim - 2, layer.padding
    kernel_size, stride, dilation = (each(it, dims) for it in (layer.kernel_size, layer.stride, layer.dilation))
    if padding == "Same" and any(it != 1 for it in stride + dilation):
        raise refuse(layer, "padding Same with a stride or a dilation has no counterpart")
    if isinstance(padding, str):
        return padding.lower()
    if dims == 3:
        return padding
    begin, end = padding[:dims], padding[dims:]
    if begin == end:
        return begin
    if all(step == 1 for step in stride) and (begin, end) == _same_ends(kernel_size, dilation):
        return "same"
    raise refuse(layer, f"padding {list(padding)} has no counterpart: the two ends differ")


def _conv(twin: Any, layer: Any, device: torch.device) -> nn.Module:
    return twin(
        layer.in_channels,
        layer.out_channels,
        layer.kernel_size,
        layer.stride,
        _torch_padding(layer),
        layer.dilation,
        layer.groups,
        layer.bias is not None,
        device=device,
    )


def _transpose(twin: Any, layer: Any, device: torch.device) -> nn.Module:
    sizes = (each(it, layer.weight.ndim - 2) for it in (layer.padding_out, layer.stride, layer.dilation))
    if any(out >= max(step, gap) for out, step, gap in zip(*sizes, strict=True)):
        raise refuse(layer, f"padding_out {layer.padding_out} has no counterpart: it reaches stride and dilation")
    return twin(
        *layer.channels,
        layer.kernel_size,
        layer.stride,
        layer.padding,
        layer.padding_out,
        layer.groups,
        layer.bias is not None,
        layer.dilation,
        device=device,
    )


def _pair(config: Any, twin: Any, build: Any) -> Counterpart:
    return Counterpart(twin.__name__, twin, partial(_config, config), partial(build, twin), _TENSORS)


COUNTERPARTS = [
    _pair(configs.Conv1dConfig, nn.Conv1d, _conv),
    _pair(configs.Conv2dConfig, nn.Conv2d, _conv),
    _pair(configs.Conv3dConfig, nn.Conv3d, _conv),
    _pair(configs.ConvTranspose1dConfig, nn.ConvTranspose1d, _transpose),
    _pair(configs.ConvTranspose2dConfig, nn.ConvTranspose2d, _transpose),
    _pair(configs.ConvTranspose3dConfig, nn.ConvTranspose3d, _transpose),
    alike(configs.Unfold4dConfig, nn.Unfold),
    alike(configs.Fold4dConfig, nn.Fold),
    alike(configs.PixelShuffleConfig, nn.PixelShuffle),
    alike(configs.PixelUnshuffleConfig, nn.PixelUnshuffle),
]
