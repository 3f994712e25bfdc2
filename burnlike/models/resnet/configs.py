"""The config of residual networks. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from ...config import Meta, ModuleConfig
from ...config.bounds import Layers, Size
from ...nn.activation.rectifier_configs import ReluConfig
from ...nn.blocks.configs import BasicBlockConfig, BottleneckConfig, misfits
from ...nn.norm.configs import BatchNormConfig
from ...nn.roles import ActivationConfig, NormalizationConfig

if TYPE_CHECKING:
    from .model import ResNet

STEM_CHANNELS = 64
BOTTLENECK_REDUCTION = 4


class ResNetConfig(ModuleConfig["ResNet"], tag="ResNet", builds=".model"):
    """A residual network that classifies images (He et al. 2016), 18 to 152 layers by `resnet18()` to `resnet152()`.

    Attributes:
        num_classes: of the result; None for no head, whose input is the result then.
        channels: of the image.
        block: `Basic` is two convolutions of 3 x 3, `Bottleneck` 1 x 1, 3 x 3 and 1 x 1.
        depths: blocks of each stage; each stage after the first halves height and width.
        widths: channels of each stage's result, as many as depths.
        stem_channels: of the first convolution.
        stem: `ImageNet` is a convolution of 7 x 7 and a pool, which divide height and width by 4; `Small` a convolution
            of 3 x 3, for images such as CIFAR's (He et al. 2016, section 4.2).
        norm: after each convolution, of channels; its own number of features does not count.
        activation: of the stem and the blocks.
        zero_last: whether the last norm of each block starts at 0 (Goyal et al. 2017, section 5.1).

    Example:
        >>> ResNetConfig.resnet50(num_classes=10).depths
        (3, 4, 6, 3)
    """

    num_classes: Size | None = 1000
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
        """18 layers; `fields` are those of the config, as in all of these."""
        return cls(**fields)

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
