"""The config of U-Nets. Imports no torch."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ...config import Meta, ModuleConfig
from ...config.bounds import Size
from ...nn.activation.rectifier_configs import ReluConfig
from ...nn.blocks.configs import misfits
from ...nn.norm.configs import BatchNormConfig
from ...nn.roles import ActivationConfig, NormalizationConfig

if TYPE_CHECKING:
    from .model import UNet


class UNetConfig(ModuleConfig["UNet"], tag="UNet", builds=".model"):
    """An encoder and a decoder with connections between equal sizes, for segmentation (Ronneberger et al. 2015).

    Attributes:
        num_classes: channels of the result: the classes of a pixel, or 1 for a mask.
        channels: of the image.
        widths: channels at full size, at half of it, and so on; the last are those in the middle.
        norm: after each convolution, of channels; `Identity` for none, as in the paper. Its own number of features does
            not count.
        activation: after each norm.
    """

    num_classes: Size
    channels: Size = 3
    widths: Annotated[tuple[Size, ...], Meta(min_length=2, max_length=16)] = (64, 128, 256, 512, 1024)
    norm: NormalizationConfig = BatchNormConfig(num_features=64)
    activation: ActivationConfig = ReluConfig()

    def validate(self) -> Iterable[tuple[str, str]]:
        yield from misfits(self.norm, *self.widths)

    def example_inputs(self) -> dict[str, tuple[str, tuple[int, ...]]]:
        size = 2 ** (len(self.widths) + 3)  # 16 x 16 in the middle
        return {"x": ("float32", (1, self.channels, size, size))}
