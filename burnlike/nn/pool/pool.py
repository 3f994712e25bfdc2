"""Pools over one, two and three dimensions: the largest element or the average of each window."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ...backend import TorchModuleOps
from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, expect_shape
from ..padding import Padding, both_ends, each, expect_window, layer_padding, layer_size, padding_text, shown_size
from ..torch_counterpart import Counterpart, expect_only, fixed, refuse
from . import configs

_Sizes = tuple[int, ...]
_ADAPTIVE: dict[int, Any] = {
    1: functional.adaptive_avg_pool1d,
    2: functional.adaptive_avg_pool2d,
    3: functional.adaptive_avg_pool3d,
}


class _WindowPool(KeepsType, Layer):
    """The base of pools with a kernel. Sizes are ints in one dimension, tuples in more."""

    _axes: ClassVar[tuple[str, ...]]
    _options: ClassVar[tuple[str, ...]]
    padding: Padding
    ceil_mode: bool

    def __init__(self, config: Any) -> None:
        super().__init__()
        dims = len(self._axes)
        self.stride = layer_size(config.stride if dims == 1 else config.strides, dims)
        self.kernel_size = layer_size(config.kernel_size, dims)
        padding = layer_padding(config.padding, 2 * dims)
        self.padding = padding * 2 if isinstance(padding, tuple) and len(padding) == dims else padding

    def _windows(self, x: Tensor, dilation: tuple[int, ...]) -> tuple[_Sizes, _Sizes, _Sizes, _Sizes]:
        """Kernel, stride and what is added before and after x, checked."""
        dims = len(self._axes)
        expect_shape(self, x, "batch", "channels", *self._axes)
        kernel, stride = each(self.kernel_size, dims), each(self.stride, dims)
        begin, end = both_ends(self.padding, x.shape, kernel, stride)
        expect_window(self, x.shape, kernel, dilation, begin, end)
        return kernel, stride, begin, end

    def custom_content(self, content: Content) -> Content:
        content.add("kernel_size", shown_size(self.kernel_size)).add("stride", shown_size(self.stride))
        content.add("padding", padding_text(self.padding))
        for name in self._options:
            content.add(name, shown_size(getattr(self, name)))
        return content


class _MaxPool(_WindowPool):
    _options = ("dilation", "ceil_mode")

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.dilation = layer_size(config.dilation, len(self._axes))
        self.ceil_mode = config.ceil_mode

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, *sizes] -> [batch, channels, *sizes_out]`; padding counts as -inf.

        sizes_out = (sizes + padding - dilation * (kernel_size - 1) - 1) / stride + 1, rounded down, or with ceil_mode
        up; then a window that would start behind the input is left out. Raises ShapeError if x is smaller than one.
        """
        dilation = each(self.dilation, len(self._axes))
        return TorchModuleOps.max_pool(x, *self._windows(x, dilation), dilation, self.ceil_mode)


class MaxPool1d(_MaxPool):
    """The largest element of each window, `[batch, channels, length] -> [batch, channels, length_out]`.
    Torch: `nn.MaxPool1d`. Differs: padding is `Valid`, `Same` or sizes, which may differ at the two ends; no indices.
    """

    _axes = ("length",)


class MaxPool2d(_MaxPool):
    """The largest of each window, `[batch, channels, height, width] -> [.., *sizes_out]`; `channels_last` stays.
    Torch: `nn.MaxPool2d`.
    Differs: the field is `strides`; padding is `Valid`, `Same` or sizes, which may differ at the two ends; no indices.
    """

    _axes = ("height", "width")


class MaxPool3d(_MaxPool):
    """The largest element of each window, `[batch, channels, depth, height, width] -> [batch, channels, *sizes_out]`.
    Torch: `nn.MaxPool3d`. Differs: the field is `strides`; padding is `Valid`, `Same` or sizes; no indices.
    """

    _axes = ("depth", "height", "width")


class _AvgPool(_WindowPool):
    _options = ("count_include_pad", "ceil_mode")

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.count_include_pad = config.count_include_pad
        self.ceil_mode = config.ceil_mode

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, *sizes] -> [batch, channels, *sizes_out]`, the sizes as of max pools with a dilation of 1.

        What lies behind the padding never counts in an average.
        """
        windows = self._windows(x, (1,) * len(self._axes))
        return TorchModuleOps.avg_pool(x, *windows, self.count_include_pad, self.ceil_mode)


class AvgPool1d(_AvgPool):
    """The average of each window, `[batch, channels, length] -> [batch, channels, length_out]`.
    Torch: `nn.AvgPool1d`. Differs: padding is `Valid`, `Same` or sizes, which may differ at the two ends.
    """

    _axes = ("length",)


class AvgPool2d(_AvgPool):
    """The average of each window, `[batch, channels, height, width] -> [.., *sizes_out]`; keeps `channels_last`.
    Torch: `nn.AvgPool2d`.
    Differs: the field is `strides`; padding is `Valid`, `Same` or sizes, which may differ at the two ends; no
    `divisor_override`.
    """

    _axes = ("height", "width")


class _AdaptiveAvgPool(KeepsType, Layer):
    """The base of adaptive pools. Sizes are ints in one dimension, tuples in more."""

    _axes: ClassVar[tuple[str, ...]]

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.output_size = layer_size(config.output_size, len(self._axes))

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, *sizes] -> [batch, channels, *output_size]`.

        Output i is the mean of the elements from floor(i * size / output_size) to ceil((i + 1) * size / output_size).
        """
        expect_shape(self, x, "batch", "channels", *self._axes)
        return _ADAPTIVE[len(self._axes)](x, self.output_size)

    def custom_content(self, content: Content) -> Content:
        return content.add("output_size", shown_size(self.output_size))


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Averages over windows that share the input evenly, `[batch, channels, length] -> [.., output_size]`.
    Torch: `nn.AdaptiveAvgPool1d`.
    """

    _axes = ("length",)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Averages over windows that share `[batch, channels, height, width]` evenly `-> [.., *output_size]`.

    Keeps `channels_last`.

    Torch: `nn.AdaptiveAvgPool2d`. Differs: no None for a size that stays.
    """

    _axes = ("height", "width")


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Averages over windows that share the input evenly, `[batch, channels, *sizes] -> [.., *output_size]`.
    Torch: `nn.AdaptiveAvgPool3d`. Differs: no None for a size that stays.
    """

    _axes = ("depth", "height", "width")


def _size(size: Any, dims: int) -> Any:
    return each(fixed(size), 1)[0] if dims == 1 else fixed(size)


def _pair(config: Any, twin: Any, *own_options: str, **only: Any) -> Counterpart:
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


def _adaptive_pair(config: Any, twin: Any) -> Counterpart:
    dims = int(twin.__name__[-2])

    def config_of(layer: Any) -> Any:
        if None in each(fixed(layer.output_size), dims):
            raise refuse(layer, "an output_size of None has no counterpart")
        return config(output_size=_size(layer.output_size, dims))

    return Counterpart(twin.__name__, twin, config_of, lambda layer, device: twin(layer.output_size))


COUNTERPARTS = [
    _pair(configs.MaxPool1dConfig, nn.MaxPool1d, "dilation", return_indices=False),
    _pair(configs.MaxPool2dConfig, nn.MaxPool2d, "dilation", return_indices=False),
    _pair(configs.MaxPool3dConfig, nn.MaxPool3d, "dilation", return_indices=False),
    _pair(configs.AvgPool1dConfig, nn.AvgPool1d, "count_include_pad"),
    _pair(configs.AvgPool2dConfig, nn.AvgPool2d, "count_include_pad", divisor_override=None),
    _adaptive_pair(configs.AdaptiveAvgPool1dConfig, nn.AdaptiveAvgPool1d),
    _adaptive_pair(configs.AdaptiveAvgPool2dConfig, nn.AdaptiveAvgPool2d),
    _adaptive_pair(configs.AdaptiveAvgPool3dConfig, nn.AdaptiveAvgPool3d),
]
