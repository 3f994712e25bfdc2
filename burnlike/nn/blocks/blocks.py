"""Blocks of vision models: patches as vectors, convolutions with norm and activation, learned scales of channels."""

import torch
from torch import Tensor

from ...module import Content, Module
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank, KeepsType
from ..conv.configs import Conv2dConfig
from ..initializers.configs import Constant
from ..layer import Layer, expect_shape, shape_error
from ..linear.configs import LinearConfig
from ..torch_counterpart import AnyLibrary
from . import configs


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


class ConvNorm2d(KeepsType, AnyLibrary, Module):
    """activation(norm(conv(x))), the convolution without a bias.

    Torch: `nn.Conv2d`, `nn.BatchNorm2d` and `nn.ReLU` in an `nn.Sequential`.
    Differs: see each of them.
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


class DepthwiseSeparableConv2d(KeepsType, AnyLibrary, Module):
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
