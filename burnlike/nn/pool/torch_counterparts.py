"""torch's counterparts of pools."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from ..padding import each
from ..torch_counterpart import Counterpart, fixed, refuse
from .configs import (
    AdaptiveAvgPool1dConfig,
    AdaptiveAvgPool2dConfig,
    AdaptiveAvgPool3dConfig,
    AvgPool1dConfig,
    AvgPool2dConfig,
    MaxPool1dConfig,
    MaxPool2dConfig,
    MaxPool3dConfig,
)


def _window(layer: Any, dims: int) -> dict[str, Any]:
    """The fields that max and average pools share; torch has ints, or tuples with one size for each dimension."""
    padding = each(fixed(layer.padding), dims) * (1 if dims == 3 else 2)
    names = {"kernel_size": layer.kernel_size, "stride" if dims == 1 else "strides": layer.stride}
    sizes = {name: _size(size, dims) for name, size in names.items()}
    return {**sizes, "padding": padding if any(padding) else "Valid", "ceil_mode": layer.ceil_mode}


def _size(size: Any, dims: int) -> Any:
    return each(fixed(size), 1)[0] if dims == 1 else fixed(size)


def _max_pool(name: str, twin: Any, config: Any, dims: int) -> Counterpart:
    def from_torch(layer: Any) -> Any:
        if layer.return_indices:
            raise refuse(layer, "return_indices=True has no counterpart")
        return config(**_window(layer, dims), dilation=_size(layer.dilation, dims))

    return Counterpart(name, twin, from_torch, _max_build(twin))


def _avg_config(layer: nn.AvgPool1d | nn.AvgPool2d) -> Any:
    if isinstance(layer, nn.AvgPool1d):
        return AvgPool1dConfig(**_window(layer, 1), count_include_pad=layer.count_include_pad)
    if layer.divisor_override is not None:
        raise refuse(layer, f"divisor_override={layer.divisor_override} has no counterpart")
    return AvgPool2dConfig(**_window(layer, 2), count_include_pad=layer.count_include_pad)


def _torch_padding(layer: Any) -> tuple[int, ...]:
    """torch's padding of a pool, at most half of its window and equal at both ends."""
    dims = len(each(layer.kernel_size, 1))
    padding = layer.padding
    if padding == "Valid":
        return (0,) * dims
    if padding == "Same":
        raise refuse(layer, "padding Same has no counterpart: it depends on the input's size")
    begin, end = padding[:dims], padding[dims:]
    if begin != end:
        raise refuse(layer, f"padding {list(padding)} has no counterpart: the two ends differ")
    if any(2 * pad > size for pad, size in zip(begin, each(layer.kernel_size, dims), strict=True)):
        raise refuse(layer, f"padding {list(padding)} has no counterpart: it is more than half of the window")
    return begin


def _max_build(twin: Any) -> Callable[[Any, torch.device], nn.Module]:
    return lambda layer, device: twin(
        layer.kernel_size, layer.stride, _torch_padding(layer), layer.dilation, ceil_mode=layer.ceil_mode
    )


def _avg_build(twin: Any) -> Callable[[Any, torch.device], nn.Module]:
    return lambda layer, device: twin(
        layer.kernel_size, layer.stride, _torch_padding(layer), layer.ceil_mode, layer.count_include_pad
    )


def _adaptive(name: str, twin: Any, config: Any, dims: int) -> Counterpart:
    def from_torch(layer: Any) -> Any:
        if None in each(fixed(layer.output_size), dims):
            raise refuse(layer, "an output_size of None has no counterpart")
        return config(output_size=_size(layer.output_size, dims))

    return Counterpart(name, twin, from_torch, lambda layer, device: twin(layer.output_size))


COUNTERPARTS = [
    _max_pool("MaxPool1d", nn.MaxPool1d, MaxPool1dConfig, 1),
    _max_pool("MaxPool2d", nn.MaxPool2d, MaxPool2dConfig, 2),
    _max_pool("MaxPool3d", nn.MaxPool3d, MaxPool3dConfig, 3),
    Counterpart("AvgPool1d", nn.AvgPool1d, _avg_config, _avg_build(nn.AvgPool1d)),
    Counterpart("AvgPool2d", nn.AvgPool2d, _avg_config, _avg_build(nn.AvgPool2d)),
    _adaptive("AdaptiveAvgPool1d", nn.AdaptiveAvgPool1d, AdaptiveAvgPool1dConfig, 1),
    _adaptive("AdaptiveAvgPool2d", nn.AdaptiveAvgPool2d, AdaptiveAvgPool2dConfig, 2),
    _adaptive("AdaptiveAvgPool3d", nn.AdaptiveAvgPool3d, AdaptiveAvgPool3dConfig, 3),
]
