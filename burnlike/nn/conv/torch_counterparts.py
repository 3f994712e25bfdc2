"""torch's counterparts of convolutions, and of the layers that rearrange pixels and windows."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..padding import each, span
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, alike, refuse
from .configs import (
    Conv1dConfig,
    Conv2dConfig,
    Conv3dConfig,
    ConvTranspose1dConfig,
    ConvTranspose2dConfig,
    ConvTranspose3dConfig,
    Fold4dConfig,
    PixelShuffleConfig,
    PixelUnshuffleConfig,
    Unfold4dConfig,
)

_TENSORS = {"weight": TensorSource("weight"), "bias": TensorSource("bias")}


def _conv_config(layer: nn.Conv1d | nn.Conv2d | nn.Conv3d) -> Any:
    if layer.padding_mode != "zeros":
        raise refuse(layer, f"padding_mode='{layer.padding_mode}' has no counterpart")
    fields: dict[str, Any] = {
        "kernel_size": layer.kernel_size,
        "stride": layer.stride,
        "dilation": layer.dilation,
        "groups": layer.groups,
        "padding": _padding(layer),
        "bias": layer.bias is not None,
    }
    if isinstance(layer, nn.Conv1d):
        one = {name: fields[name][0] for name in ("kernel_size", "stride", "dilation")}
        return Conv1dConfig(channels_in=layer.in_channels, channels_out=layer.out_channels, **fields | one)
    config = Conv2dConfig if isinstance(layer, nn.Conv2d) else Conv3dConfig
    return config(channels=(layer.in_channels, layer.out_channels), **fields)


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
    """What torch's `same` adds before and after, in each dimension."""
    total = [covered - 1 for covered in span(kernel_size, dilation)]
    return tuple(it // 2 for it in total), tuple(it - it // 2 for it in total)


def _conv_build(twin: Any) -> Callable[[Any, torch.device], nn.Module]:
    def build(layer: Any, device: torch.device) -> nn.Module:
        dims = layer.weight.ndim - 2
        padding = layer.padding
        if padding == "Same":
            if any(step != 1 for step in each(layer.stride, dims)) or any(
                gap != 1 for gap in each(layer.dilation, dims)
            ):
                raise refuse(layer, "padding Same with a stride or a dilation has no counterpart")
        elif padding != "Valid" and dims < 3:
            begin, end = padding[:dims], padding[dims:]
            kernel_size, stride, dilation = (each(it, dims) for it in (layer.kernel_size, layer.stride, layer.dilation))
            if begin == end:
                padding = begin
            elif all(step == 1 for step in stride) and (begin, end) == _same_ends(kernel_size, dilation):
                padding = "same"
            else:
                raise refuse(layer, f"padding {list(padding)} has no counterpart: the two ends differ")
        return twin(
            layer.weight.shape[1] * layer.groups,
            layer.weight.shape[0],
            layer.kernel_size,
            layer.stride,
            padding.lower() if isinstance(padding, str) else padding,
            layer.dilation,
            layer.groups,
            layer.bias is not None,
            device=device,
        )

    return build


def _transpose_config(layer: Any) -> Any:
    if layer.padding_mode != "zeros":
        raise refuse(layer, f"padding_mode='{layer.padding_mode}' has no counterpart")
    names = ("kernel_size", "stride", "dilation", "padding", "padding_out")
    sizes = (layer.kernel_size, layer.stride, layer.dilation, layer.padding, layer.output_padding)
    if len(layer.kernel_size) == 1:
        sizes = tuple(it[0] for it in sizes)
    config = {1: ConvTranspose1dConfig, 2: ConvTranspose2dConfig, 3: ConvTranspose3dConfig}[len(layer.kernel_size)]
    channels = (layer.in_channels, layer.out_channels)
    fields = dict(zip(names, sizes, strict=True))
    return config(channels=channels, groups=layer.groups, bias=layer.bias is not None, **fields)


def _transpose_build(twin: Any) -> Callable[[Any, torch.device], nn.Module]:
    def build(layer: Any, device: torch.device) -> nn.Module:
        dims = layer.weight.ndim - 2
        sizes = (each(it, dims) for it in (layer.padding_out, layer.stride, layer.dilation))
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

    return build


COUNTERPARTS = [
    *(
        Counterpart(twin.__name__, twin, _conv_config, _conv_build(twin), _TENSORS)
        for twin in (nn.Conv1d, nn.Conv2d, nn.Conv3d)
    ),
    *(
        Counterpart(twin.__name__, twin, _transpose_config, _transpose_build(twin), _TENSORS)
        for twin in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)
    ),
    alike("Unfold4d", nn.Unfold, Unfold4dConfig),
    alike("Fold4d", nn.Fold, Fold4dConfig),
    alike("PixelShuffle", nn.PixelShuffle, PixelShuffleConfig),
    alike("PixelUnshuffle", nn.PixelUnshuffle, PixelUnshuffleConfig),
]
