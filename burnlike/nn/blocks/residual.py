"""The residual blocks of ResNets (He et al. 2016)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...module import Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Zeros
from ..layer import expect_shape
from ..linear.configs import IdentityConfig
from ..torch_counterpart import AnyLibrary
from .blocks import ConvNorm2d
from .configs import BasicBlockConfig, BottleneckConfig, ConvNorm2dConfig


class _Residual(KeepsType, AnyLibrary, Module):
    """activation(branch(x) + shortcut(x)); the shortcut is a ConvNorm2d of 1 x 1, None where the shape stays."""

    _branch: ClassVar[tuple[str, ...]]

    def __init__(self, config: BasicBlockConfig | BottleneckConfig, device: torch.device | str | None) -> None:
        super().__init__()
        channels_in, channels_out = config.channels
        self.shortcut = (
            None
            if channels_in == channels_out and config.stride == 1
            else _conv(config, config.channels, 1, config.stride, IdentityConfig(), device)
        )
        self.activation = config.activation.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels_in, height, width] -> [batch, channels_out, *sizes]`, sizes being ceil(size / stride)."""
        convolutions = [getattr(self, name) for name in self._branch]
        expect_shape(self, x, "batch", convolutions[0].conv.weight.shape[1], "height", "width")
        y = x
        for convolution in convolutions:
            y = convolution(y)
        return self.activation(y + (x if self.shortcut is None else self.shortcut(x)))


class BasicBlock(_Residual):
    """activation(second(first(x)) + shortcut(x)), both with kernels of 3 x 3 (He et al. 2016, figure 5 left). Torch: -.

    Attributes:
        first: ConvNorm2d with the stride; `second` without activation.
    """

    _branch = ("first", "second")

    def __init__(self, config: BasicBlockConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config, device)
        channels_in, channels_out = config.channels
        none = IdentityConfig()
        self.first = _conv(config, (channels_in, channels_out), 3, config.stride, config.activation, device)
        self.second = _conv(config, (channels_out, channels_out), 3, 1, none, device, zero=config.zero_last)


class Bottleneck(_Residual):
    """activation(expand(middle(reduce(x))) + shortcut(x)) (He et al. 2016, figure 5 right). Torch: -.

    The stride is that of the kernel of 3 x 3, as in torchvision; the paper has it in the first of 1 x 1.

    Attributes:
        reduce: ConvNorm2d of 1 x 1 to fewer channels.
        middle: ConvNorm2d of 3 x 3 with the stride.
        expand: ConvNorm2d of 1 x 1 to the channels of the output, without activation.
    """

    _branch = ("reduce", "middle", "expand")

    def __init__(self, config: BottleneckConfig, device: torch.device | str | None = None) -> None:
        super().__init__(config, device)
        channels_in, channels_out = config.channels
        width, none = channels_out // config.reduction, IdentityConfig()
        self.reduce = _conv(config, (channels_in, width), 1, 1, config.activation, device)
        self.middle = _conv(config, (width, width), 3, config.stride, config.activation, device)
        self.expand = _conv(config, (width, channels_out), 1, 1, none, device, zero=config.zero_last)


def _conv(
    config: BasicBlockConfig | BottleneckConfig,
    channels: tuple[int, int],
    kernel_size: int,
    stride: int,
    activation: Any,
    device: torch.device | str | None,
    *,
    zero: bool = False,
) -> ConvNorm2d:
    """A convolution of a block; with `zero` its norm starts at 0."""
    made = ConvNorm2dConfig(
        channels=channels,
        kernel_size=kernel_size,
        stride=stride,
        padding=kernel_size // 2,
        norm=config.norm,
        activation=activation,
        initializer=config.initializer,
    ).init(device)
    gamma = getattr(made.norm, "gamma", None)
    if zero and isinstance(gamma, nn.Parameter):
        made.norm.gamma = Zeros().init(list(gamma.shape), device=device)
    return made
