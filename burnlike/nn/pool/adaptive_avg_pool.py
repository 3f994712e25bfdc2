"""Averages over windows that share the input evenly."""

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer, expect_shape
from ..padding import layer_size, shown_size
from .configs import AdaptiveAvgPool1dConfig, AdaptiveAvgPool2dConfig, AdaptiveAvgPool3dConfig

_POOL: dict[int, Any] = {
    1: functional.adaptive_avg_pool1d,
    2: functional.adaptive_avg_pool2d,
    3: functional.adaptive_avg_pool3d,
}


class _AdaptiveAvgPool(KeepsType, Layer):
    """What the adaptive pools share. Sizes are ints in one dimension, tuples in more."""

    _axes: ClassVar[tuple[str, ...]]

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.output_size = layer_size(config.output_size, len(self._axes))

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, *sizes] -> [batch, channels, *output_size]`.

        Output i is the mean of the elements from floor(i * size / output_size) to ceil((i + 1) * size / output_size).

        Raises:
            ShapeError: x has another rank.
        """
        expect_shape(self, x, "batch", "channels", *self._axes)
        return _POOL[len(self._axes)](x, self.output_size)

    def custom_content(self, content: Content) -> Content:
        return content.add("output_size", shown_size(self.output_size))


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Averages over windows that share the input evenly, `[batch, channels, length] -> [.., output_size]`.

    Torch: `nn.AdaptiveAvgPool1d`.
    """

    _axes = ("length",)

    def __init__(self, config: AdaptiveAvgPool1dConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config)


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Averages over windows that share the input evenly, `[batch, channels, height, width] -> [.., *output_size]`.

    An input in torch's `channels_last` format gives an output in it.

    Torch: `nn.AdaptiveAvgPool2d`.
    Differs: no None for a size that stays.
    """

    _axes = ("height", "width")

    def __init__(self, config: AdaptiveAvgPool2dConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config)


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Averages over windows that share the input evenly, `[batch, channels, *sizes] -> [.., *output_size]`.

    Torch: `nn.AdaptiveAvgPool3d`.
    Differs: no None for a size that stays.
    """

    _axes = ("depth", "height", "width")

    def __init__(self, config: AdaptiveAvgPool3dConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config)
