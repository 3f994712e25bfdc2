"""The configs of convolutional networks. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from ...config import Meta, ModuleConfig
from ...config.bounds import FROM_DATA, Layers, NotNegative, Outputs, Size
from ...nn.activation.configs import GeluConfig, ReluConfig
from ...nn.attention.configs import Probability
from ...nn.blocks.configs import BasicBlockConfig, BottleneckConfig, misfits
from ...nn.norm.configs import BatchNormConfig
from ...nn.roles import ActivationConfig, NormalizationConfig

if TYPE_CHECKING:
    from . import model


class ConvNextConfig(ModuleConfig["model.ConvNext"], tag="ConvNext"):
    """A convolutional network with the design of transformers (Liu et al. 2022); `tiny()` to `large()` are the paper's.

    Attributes:
        num_classes: of the result, in a job those of the data, else 1000; None for no head, whose input is the
            result then.
        depths: blocks of each stage; each stage after the first halves height and width.
        widths: channels of each stage, as many as depths.
        patch_size: of the first convolution, which is also its stride.
        drop_path: probability that the last block is left out for an item in training; it grows from 0 at the first.
        layer_scale: the first value of the factors of each block's result; 0 for no such factors.
        norm_epsilon: of all norms but the last.
        head_epsilon: of the norm before the head.

    Example:
        >>> ConvNextConfig.tiny(num_classes=10).widths
        (96, 192, 384, 768)
    """

    usual_outputs = 1000

    num_classes: Outputs | None = FROM_DATA
    channels: Size = 3
    depths: Annotated[tuple[Layers, ...], Meta(min_length=1)] = (3, 3, 9, 3)
    widths: Annotated[tuple[Size, ...], Meta(min_length=1)] = (96, 192, 384, 768)
    patch_size: Size = 4
    drop_path: Probability = 0.0
    layer_scale: NotNegative = 1e-6
    activation: ActivationConfig = GeluConfig()
    norm_epsilon: NotNegative = 1e-6
    head_epsilon: NotNegative = 1e-6

    def validate(self) -> Iterable[tuple[str, str]]:
        if len(self.widths) != len(self.depths):
            yield "widths", f"expected as many as depths ({len(self.depths)}), got {len(self.widths)}"

    @classmethod
    def tiny(cls, **fields: Any) -> Self:
        """29 million parameters, 1000 classes; `fields` are those of the config, as in all of these."""
        return cls(**{"num_classes": 1000, **fields})

    @classmethod
    def small(cls, **fields: Any) -> Self:
        """50 million parameters."""
        return cls.tiny(**{"depths": (3, 3, 27, 3), **fields})

    @classmethod
    def base(cls, **fields: Any) -> Self:
        """89 million parameters."""
        return cls.small(**{"widths": (128, 256, 512, 1024), **fields})

    @classmethod
    def large(cls, **fields: Any) -> Self:
        """198 million parameters."""
        return cls.small(**{"widths": (192, 384, 768, 1536), **fields})

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        return {"x": ("float32", (1, self.channels, 224, 224))}


STEM_CHANNELS = 64


BOTTLENECK_REDUCTION = 4


class ResNetConfig(ModuleConfig["model.ResNet"], tag="ResNet"):
    """A residual network that classifies images (He et al. 2016), 18 to 152 layers by `resnet18()` to `resnet152()`.

    Attributes:
        num_classes: of the result, in a job those of the data, else 1000; None for no head, whose input is the
            result then.
        block: `Basic` is two convolutions of 3 x 3, `Bottleneck` 1 x 1, 3 x 3 and 1 x 1.
        depths: blocks of each stage; each stage after the first halves height and width.
        widths: channels of each stage's result, as many as depths.
        stem: `ImageNet` is a convolution of 7 x 7 and a pool, which divide height and width by 4; `Small` a convolution
            of 3 x 3, for images such as CIFAR's (He et al. 2016, section 4.2).
        norm: after each convolution, of channels; its own number of features does not count.
        zero_last: whether the last norm of each block starts at 0 (Goyal et al. 2017, section 5.1).

    Example:
        >>> ResNetConfig.resnet50(num_classes=10).depths
        (3, 4, 6, 3)
    """

    usual_outputs = 1000

    num_classes: Outputs | None = FROM_DATA
    channels: Size = 3
    block: Literal["Basic", "Bottleneck"] = "Basic"
    depths: Annotated[tuple[Layers, ...], Meta(min_length=1)] = (2, 2, 2, 2)
    widths: Annotated[tuple[Size, ...], Meta(min_length=1)] = (64, 128, 256, 512)
    stem_channels: Size = STEM_CHANNELS
    stem: Literal["ImageNet", "Small"] = "ImageNet"
    norm: NormalizationConfig = BatchNormConfig(num_features=STEM_CHANNELS)
    activation: ActivationConfig = ReluConfig()
    zero_last: bool = False

    def validate(self) -> Iterable[tuple[str, str]]:
        if len(self.widths) != len(self.depths):
            yield "widths", f"expected as many as depths ({len(self.depths)}), got {len(self.widths)}"
        inner = []
        if self.block == "Bottleneck":
            inner = [width // BOTTLENECK_REDUCTION for width in self.widths]
            for index, width in enumerate(self.widths):
                if width % BOTTLENECK_REDUCTION:
                    yield (
                        f"widths.{index}",
                        f"expected a multiple of {BOTTLENECK_REDUCTION} for bottlenecks, got {width}",
                    )
                    return
        yield from misfits(self.norm, self.stem_channels, *inner, *self.widths)

    @property
    def blocks(self) -> list[list[BasicBlockConfig | BottleneckConfig]]:
        """The blocks of each stage."""
        kind: Any = BasicBlockConfig if self.block == "Basic" else BottleneckConfig
        options = {"norm": self.norm, "activation": self.activation, "zero_last": self.zero_last}
        channels, stages = self.stem_channels, []
        for index, (depth, width) in enumerate(zip(self.depths, self.widths, strict=True)):
            first = kind(channels=(channels, width), stride=1 if index == 0 else 2, **options)
            stages.append([first] + [kind(channels=(width, width), **options)] * (depth - 1))
            channels = width
        return stages

    @classmethod
    def resnet18(cls, **fields: Any) -> Self:
        """18 layers and 1000 classes; `fields` are those of the config, as in all of these."""
        return cls(**{"num_classes": 1000, **fields})

    @classmethod
    def resnet34(cls, **fields: Any) -> Self:
        """34 layers."""
        return cls.resnet18(**{"depths": (3, 4, 6, 3), **fields})

    @classmethod
    def resnet50(cls, **fields: Any) -> Self:
        """50 layers, with bottlenecks."""
        return cls.resnet34(**{"block": "Bottleneck", "widths": (256, 512, 1024, 2048), **fields})

    @classmethod
    def resnet101(cls, **fields: Any) -> Self:
        """101 layers, with bottlenecks."""
        return cls.resnet50(**{"depths": (3, 4, 23, 3), **fields})

    @classmethod
    def resnet152(cls, **fields: Any) -> Self:
        """152 layers, with bottlenecks."""
        return cls.resnet50(**{"depths": (3, 8, 36, 3), **fields})

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        size = 224 if self.stem == "ImageNet" else 32  # as in the paper
        return {"x": ("float32", (1, self.channels, size, size))}


class UNetConfig(ModuleConfig["model.UNet"], tag="UNet"):
    """An encoder and a decoder with connections between equal sizes, for segmentation (Ronneberger et al. 2015).

    Attributes:
        num_classes: channels of the result: the classes of a pixel, in a job those of the data, or 1 for a mask.
        widths: channels at full size, at half of it, and so on; the last are those in the middle.
        norm: after each convolution, of channels; `Identity` for none, as in the paper. Its own number of features does
            not count.
    """

    num_classes: Outputs = FROM_DATA
    channels: Size = 3
    widths: Annotated[tuple[Size, ...], Meta(min_length=2, max_length=16)] = (64, 128, 256, 512, 1024)
    norm: NormalizationConfig = BatchNormConfig(num_features=64)
    activation: ActivationConfig = ReluConfig()

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from misfits(self.norm, *self.widths)

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        size = 2 ** (len(self.widths) + 3)  # 16 x 16 in the middle
        return {"x": ("float32", (1, self.channels, size, size))}
