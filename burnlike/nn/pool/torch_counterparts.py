"""torch's counterparts of pools."""

from typing import Any

import torch
from torch import nn

from ..padding import each
from ..torch_counterpart import Counterpart, expect_only, fixed, refuse
from . import configs


def _size(size: Any, dims: int) -> Any:
    return each(fixed(size), 1)[0] if dims == 1 else fixed(size)


def _pool(config: Any, twin: Any, *own_options: str, **only: Any) -> Counterpart:
    """A max or average pool; the other kind lacks `own_options`. torch has ints or tuples."""
    name, options = twin.__name__, ("ceil_mode", *own_options)
    dims = int(name[-2])

    def config_of(layer: Any) -> Any:
        expect_only(layer, **only)
        padding = each(fixed(layer.padding), dims) * (1 if dims == 3 else 2)
        fields = {"kernel_size": layer.kernel_size, "stride" if dims == 1 else "strides": layer.stride}
        fields |= {option: getattr(layer, option) for option in options}
        sizes = {name: _size(size, dims) for name, size in fields.items()}
        return config(**sizes, padding=padding if any(padding) else "Valid")

    def build(layer: Any, device: torch.device) -> nn.Module:
        arguments = {option: getattr(layer, option) for option in options}
        return twin(layer.kernel_size, layer.stride, _torch_padding(layer), **arguments)

    return Counterpart(name, twin, config_of, build)


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


def _adaptive(config: Any, twin: Any) -> Counterpart:
    dims = int(twin.__name__[-2])

    def config_of(layer: Any) -> Any:
        if None in each(fixed(layer.output_size), dims):
            raise refuse(layer, "an output_size of None has no counterpart")
        return config(output_size=_size(layer.output_size, dims))

    return Counterpart(twin.__name__, twin, config_of, lambda layer, device: twin(layer.output_size))


COUNTERPARTS = [
    _pool(configs.MaxPool1dConfig, nn.MaxPool1d, "dilation", return_indices=False),
    _pool(configs.MaxPool2dConfig, nn.MaxPool2d, "dilation", return_indices=False),
    _pool(configs.MaxPool3dConfig, nn.MaxPool3d, "dilation", return_indices=False),
    _pool(configs.AvgPool1dConfig, nn.AvgPool1d, "count_include_pad"),
    _pool(configs.AvgPool2dConfig, nn.AvgPool2d, "count_include_pad", divisor_override=None),
    _adaptive(configs.AdaptiveAvgPool1dConfig, nn.AdaptiveAvgPool1d),
    _adaptive(configs.AdaptiveAvgPool2dConfig, nn.AdaptiveAvgPool2d),
    _adaptive(configs.AdaptiveAvgPool3dConfig, nn.AdaptiveAvgPool3d),
]
