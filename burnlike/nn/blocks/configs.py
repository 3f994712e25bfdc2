"""The configs of blocks of vision models. Imports no torch."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...config import ModuleConfig
from ...config.bounds import Finite, Size
from ...config.registry import tag_of
from ...config.roles import Built
from ...errors import ConfigError
from ..activation.configs import ReluConfig, SigmoidConfig
from ..initializers.configs import Initializer, KaimingNormal, KaimingUniform
from ..norm.configs import BatchNormConfig, LayerNormConfig, RmsNormConfig
from ..padding import PaddingConfig2d, Size2d
from ..roles import ActivationConfig, LayerFacts, NormalizationConfig

if TYPE_CHECKING:
    from . import blocks

HE_NORMAL = KaimingNormal(gain=2**0.5, fan_out_only=True)
"""For convolutions before a ReLU (He et al. 2015, eq. 14)."""


class _BlockConfig(ModuleConfig[Built]):
    """The fields that all blocks of convolutions have.

    Attributes:
        channels: of input and output, `[in, out]`.
        kernel_size: of the window; one size, or `[height, width]`, as in stride.
        stride: from one window to the next.
        padding: `Valid` (none), `Same` (ceil(size / stride) outputs), one size for all sides, or
            `[top, left, bottom, right]`.
        norm: after each convolution, of channels; its own number of features does not count.
        activation: after each norm; `Identity` for none.
        zero_last: whether the last norm starts at 0, so that the block starts as its shortcut (Goyal et al. 2017, 5.1).
        initializer: of the convolutions.
    """

    facts = LayerFacts(channels=("channels.0", "channels.1"))

    channels: tuple[Size, Size]


class PatchEmbeddingConfig(ModuleConfig["blocks.PatchEmbedding"], tag="PatchEmbedding"):
    """An image as a sequence of vectors, one for each patch (Dosovitskiy et al. 2021, eq. 1).

    Attributes:
        channels: of the image.
        patch_size: of the patches, which don't overlap; one size, or `[height, width]`.
        d_model: size of a patch's vector.
        bias: whether a bias is added.
        initializer: of weight and bias.
    """

    channels: Size
    patch_size: Size2d
    d_model: Size
    bias: bool = True
    initializer: Initializer = KaimingUniform()


class SqueezeExciteConfig(ModuleConfig["blocks.SqueezeExcite"], tag="SqueezeExcite"):
    """Channels scaled by what the whole image says of them (Hu et al. 2018, section 3).

    Attributes:
        channels: of input and output.
        d_hidden: channels between both linear layers.
        activation: between both linear layers.
        gate: of the scales.
    """

    channels: Size
    d_hidden: Size
    activation: ActivationConfig = ReluConfig()
    gate: ActivationConfig = SigmoidConfig()


class LayerScaleConfig(ModuleConfig["blocks.LayerScale"], tag="LayerScale"):
    """x * gamma, gamma learned, for each element of the last dimension (Touvron et al. 2021, eq. 4).

    Attributes:
        d_model: size of the last dimension.
        value: the first value of gamma.
    """

    facts = LayerFacts(last=("d_model", "d_model"))

    d_model: Size
    value: Finite = 1e-6


class ConvNorm2dConfig(_BlockConfig["blocks.ConvNorm2d"], tag="ConvNorm2d"):
    """activation(norm(conv(x))), the convolution without a bias.

    Attributes:
        groups: into which the channels are divided; each is convolved by itself.
    """

    kernel_size: Size2d = 3
    stride: Size2d = 1
    groups: Size = 1
    padding: PaddingConfig2d = "Same"
    norm: NormalizationConfig = BatchNormConfig(num_features=1)
    activation: ActivationConfig = ReluConfig()
    initializer: Initializer = HE_NORMAL

    def validate(self) -> Iterable[tuple[str, str]]:
        if any(size % self.groups for size in self.channels):
            yield "groups", f"expected a divisor of both channels {list(self.channels)}, got {self.groups}"
        yield from misfits(self.norm, self.channels[1])


class DepthwiseSeparableConv2dConfig(_BlockConfig["blocks.DepthwiseSeparableConv2d"], tag="DepthwiseSeparableConv2d"):
    """Each channel convolved by itself, then all mixed at each pixel (Howard et al. 2017, section 3.1)."""

    kernel_size: Size2d = 3
    stride: Size2d = 1
    padding: PaddingConfig2d = "Same"
    norm: NormalizationConfig = BatchNormConfig(num_features=1)
    activation: ActivationConfig = ReluConfig()
    initializer: Initializer = HE_NORMAL

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from misfits(self.norm, *self.channels)


class BasicBlockConfig(_BlockConfig["blocks.BasicBlock"], tag="BasicBlock"):
    """Two convolutions of 3 x 3 and a shortcut (He et al. 2016, figure 5 left).

    Attributes:
        stride: of the first convolution.
        activation: after the first norm, and after the sum.
    """

    stride: Size = 1
    norm: NormalizationConfig = BatchNormConfig(num_features=1)
    activation: ActivationConfig = ReluConfig()
    zero_last: bool = False
    initializer: Initializer = HE_NORMAL

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from misfits(self.norm, self.channels[1])


class BottleneckConfig(_BlockConfig["blocks.Bottleneck"], tag="Bottleneck"):
    """Convolutions of 1 x 1, 3 x 3 and 1 x 1, few channels in the middle, and a shortcut (He et al. 2016, figure 5).

    Attributes:
        stride: of the convolution of 3 x 3.
        reduction: the number of times that the channels of the output are more than those in the middle.
        activation: after the first two norms, and after the sum.
    """

    stride: Size = 1
    reduction: Size = 4
    norm: NormalizationConfig = BatchNormConfig(num_features=1)
    activation: ActivationConfig = ReluConfig()
    zero_last: bool = False
    initializer: Initializer = HE_NORMAL

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.channels[1] % self.reduction:
            yield "reduction", f"expected a divisor of channels.1 ({self.channels[1]}), got {self.reduction}"
        else:
            yield from misfits(self.norm, self.channels[1] // self.reduction, self.channels[1])


def misfits(norm: NormalizationConfig, *channels: int) -> Iterator[tuple[str, str]]:
    """The rules that `norm`, a field of a config, breaks as a normalization of images with these channels."""
    if isinstance(norm, LayerNormConfig | RmsNormConfig):
        yield (
            "norm",
            f"expected a normalization of channels, as BatchNorm, GroupNorm or InstanceNorm, got {tag_of(type(norm))}, "
            "which normalizes the last dimension",
        )
        return
    for count in channels:
        try:
            norm.with_num_features(count)
        except ConfigError as error:
            yield "norm", f"it has to fit {count} channels: {error}"
            return
