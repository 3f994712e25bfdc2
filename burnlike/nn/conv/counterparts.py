"""torch's counterparts of convolutions."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..counterpart import Counterpart, TorchTensor, refuse
from ..padding import each, span
from .configs import Conv1dConfig, Conv2dConfig, Conv3dConfig

_TENSORS = {"weight": TorchTensor("weight"), "bias": TorchTensor("bias")}


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
    if layer.padding == "same":
        if all(gap == 1 for gap in layer.dilation) and dims < 3:
            return "Same"
        total = [covered - 1 for covered in span(layer.kernel_size, layer.dilation)]
        begin, end = tuple(it // 2 for it in total), tuple(it - it // 2 for it in total)
        if dims < 3:
            return begin + end
        if begin != end:
            raise refuse(layer, "padding='same' of an even kernel has no counterpart in 3 dimensions")
        return begin
    if layer.padding == "valid" or not any(layer.padding):
        return "Valid"
    return layer.padding if dims == 3 else (*layer.padding, *layer.padding)


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
            if begin != end:
                raise refuse(layer, f"padding {list(padding)} has no counterpart: the two ends differ")
            padding = begin
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


COUNTERPARTS = [
    Counterpart(f"Conv{twin.__name__[-2:]}", twin, _conv_config, _conv_build(twin), _TENSORS)
    for twin in (nn.Conv1d, nn.Conv2d, nn.Conv3d)
]
