"""Blocks of vision models: patches as vectors, convolutions with norm and activation, scales of channels, ResNet's."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ...module import Content, Module
from ...tensor.torch_bridge.torch_function import lift
from ..activation.configs import IdentityConfig
from ..call_types import ChangesRank, KeepsType
from ..configs import LinearConfig
from ..conv.configs import Conv2dConfig
from ..initializers.configs import Constant, Zeros
from ..layer import FromConfig, Layer, expect_shape, shape_error
from ..torch_counterpart import AnyLibrary
from . import configs
from .configs import BasicBlockConfig, BottleneckConfig, ConvNorm2dConfig


class PatchEmbedding(ChangesRank, AnyLibrary, Layer):
    """An image as a sequence of vectors, one for each patch, row by row (Dosovitskiy et al. 2021, eq. 1).

    Torch: an `nn.Conv2d` whose stride is its kernel size.
    Differs: the result is a sequence; sizes that are no multiples of the patch are refused.

    Attributes:
        projection: Conv2d `channels -> d_model`.
    """

    def __init__(self, config: configs.PatchEmbeddingConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.projection = Conv2dConfig(
            channels=(config.channels, config.d_model),
            kernel_size=config.patch_size,
            stride=config.patch_size,
            bias=config.bias,
            initializer=config.initializer,
        ).init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, patches, d_model]`."""
        _, channels, height, width = self.projection.weight.shape
        expect_shape(self, x, "batch", channels, "height", "width")
        if x.shape[2] % height or x.shape[3] % width:
            raise shape_error(self, f"multiples of the patch's [{height}, {width}]", list(x.shape[2:]))
        return self.projection(x).flatten(2).mT

    def custom_content(self, content: Content) -> Content:
        d_model, channels, *patch = content.shape("projection.weight")
        content = content.add("channels", channels).add("patch_size", patch).add("d_model", d_model)
        return content.add("bias", content.has("projection.bias"))


class ConvNorm2d(KeepsType, AnyLibrary, FromConfig, Module):
    """activation(norm(conv(x))), the convolution without a bias.
    Torch: `nn.Conv2d`, `nn.BatchNorm2d` and `nn.ReLU` in an `nn.Sequential`. Differs: see each of them.
    """

    def __init__(self, config: configs.ConvNorm2dConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.conv = Conv2dConfig(
            channels=config.channels,
            kernel_size=config.kernel_size,
            stride=config.stride,
            groups=config.groups,
            padding=config.padding,
            bias=False,
            initializer=config.initializer,
        ).init(device)
        self.norm = config.norm.with_num_features(config.channels[1]).init(device)
        self.activation = config.activation.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels_in, height, width] -> [batch, channels_out, height_out, width_out]`, as of `Conv2d`."""
        return self.activation(self.norm(self.conv(x)))


class DepthwiseSeparableConv2d(KeepsType, AnyLibrary, FromConfig, Module):
    """Each channel convolved by itself, then all mixed at each pixel (Howard et al. 2017, section 3.1). Torch: -.

    Norm and activation follow both convolutions (figure 3 there).

    Attributes:
        depthwise: ConvNorm2d with a group for each channel; `pointwise` of 1 x 1.
    """

    def __init__(
        self, config: configs.DepthwiseSeparableConv2dConfig, device: torch.device | str | None = None
    ) -> None:
        super().__init__()
        channels = config.channels[0]
        depthwise = configs.ConvNorm2dConfig(
            channels=(channels, channels),
            kernel_size=config.kernel_size,
            stride=config.stride,
            groups=channels,
            padding=config.padding,
            norm=config.norm,
            activation=config.activation,
            initializer=config.initializer,
        )
        pointwise = depthwise.replace(channels=config.channels, kernel_size=1, stride=1, groups=1, padding="Valid")
        self.depthwise = depthwise.init(device)
        self.pointwise = pointwise.init(device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels_in, height, width] -> [batch, channels_out, height_out, width_out]`, as of `Conv2d`."""
        return self.pointwise(self.depthwise(x))


class LayerScale(KeepsType, AnyLibrary, Layer):
    """x * gamma `[d_model]`, learned and `value` at first (Touvron et al. 2021, eq. 4). Torch: -."""

    def __init__(self, config: configs.LayerScaleConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.gamma = Constant(value=config.value).init([config.d_model], device=device)

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[..., d_model] -> [..., d_model]`. Raises ShapeError if the last dimension of x is not `d_model`."""
        expect_shape(self, x, "...", self.gamma.shape[0])
        return x * self.gamma

    def custom_content(self, content: Content) -> Content:
        (d_model,) = content.shape("gamma")
        return content.add("d_model", d_model)


class SqueezeExcite(KeepsType, AnyLibrary, Layer):
    """x * gate(expand(activation(reduce(mean of x over height and width)))) (Hu et al. 2018, eq. 2 to 4). Torch: -."""

    def __init__(self, config: configs.SqueezeExciteConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.reduce = LinearConfig(d_input=config.channels, d_output=config.d_hidden).init(device)
        self.expand = LinearConfig(d_input=config.d_hidden, d_output=config.channels).init(device)
        self.activation = config.activation.init(device)
        self.gate = config.gate.init(device)
        self.channels = config.channels
        self.d_hidden = config.d_hidden

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height, width] -> [batch, channels, height, width]`."""
        expect_shape(self, x, "batch", self.channels, "height", "width")
        scales = self.gate(self.expand(self.activation(self.reduce(x.mean((2, 3))))))
        return x * scales[:, :, None, None]

    def custom_content(self, content: Content) -> Content:
        content = content.add("channels", self.channels).add("d_hidden", self.d_hidden)
        return content.add("activation", self.activation).add("gate", self.gate)


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
    config: Any, channels: Any, kernel_size: int, stride: int, activation: Any, device: Any, *, zero: bool = False
) -> ConvNorm2d:
    """A convolution of a block; with `zero` its norm starts at 0."""
    conv = ConvNorm2dConfig(
        channels=channels,
        kernel_size=kernel_size,
        stride=stride,
        padding=kernel_size // 2,
        norm=config.norm,
        activation=activation,
        initializer=config.initializer,
    ).init(device)
    gamma = getattr(conv.norm, "gamma", None)
    if zero and isinstance(gamma, nn.Parameter):
        conv.norm.gamma = Zeros().init(list(gamma.shape), device=device)
    return conv
