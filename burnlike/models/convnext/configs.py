"""The config of ConvNeXt. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Self

from ...config import Meta, ModuleConfig
from ...config.bounds import Layers, NotNegative, Size
from ...nn.activation.rectifier_configs import GeluConfig
from ...nn.roles import ActivationConfig

if TYPE_CHECKING:
    from .model import ConvNext


class ConvNextConfig(ModuleConfig["ConvNext"], tag="ConvNext", builds=".model"):
    """A convolutional network with the design of transformers (Liu et al. 2022); `tiny()` to `large()` are the paper's.

    Attributes:
        num_classes: of the result; None for no head, whose input is the result then.
        channels: of the image.
        depths: blocks of each stage; each stage after the first halves height and width.
        widths: channels of each stage, as many as depths.
        patch_size: of the first convolution, which is also its stride.
        drop_path: probability that the last block is left out for an item in training; it grows from 0 at the first.
        layer_scale: the first value of the factors of each block's result; 0 for no such factors.
        activation: between both linear layers of a block.
        norm_epsilon: of all norms but the last.
        head_epsilon: of the norm before the head.

    Example:
        >>> ConvNextConfig.tiny(num_classes=10).widths
        (96, 192, 384, 768)
    """

    num_classes: Size | None = 1000
    channels: Size = 3
    depths: Annotated[tuple[Layers, ...], Meta(min_length=1)] = (3, 3, 9, 3)
    widths: Annotated[tuple[Size, ...], Meta(min_length=1)] = (96, 192, 384, 768)
    patch_size: Size = 4
    drop_path: Annotated[float, Meta(ge=0, lt=1)] = 0.0
    layer_scale: NotNegative = 1e-6
    activation: ActivationConfig = GeluConfig()
    norm_epsilon: NotNegative = 1e-6
    head_epsilon: NotNegative = 1e-6

    def validate(self) -> Iterable[tuple[str, str]]:
        if len(self.widths) != len(self.depths):
            yield "widths", f"expected as many as depths ({len(self.depths)}), got {len(self.widths)}"

    @classmethod
    def tiny(cls, **fields: Any) -> Self:
        """29 million parameters; `fields` are those of the config, as in all of these."""
        return cls(**fields)

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
