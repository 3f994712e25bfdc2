"""Channels as pixels, and back."""

from torch import Tensor
from torch.nn import functional

from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import ConfiguredLayer, expect_shape, shape_error
from .configs import PixelShuffleConfig, PixelUnshuffleConfig


class PixelShuffle(KeepsType, ConfiguredLayer, config=PixelShuffleConfig):
    """`[batch, channels * r * r, height, width] -> [batch, channels, height * r, width * r]` (Shi et al. 2016, eq. 4).

    Channel c * r * r + i * r + j gives the pixels (y * r + i, x * r + j) of channel c.

    Torch: `nn.PixelShuffle`.
    """

    upscale_factor: int

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels * r * r, height, width] -> [batch, channels, height * r, width * r]`.

        Raises:
            ShapeError: x has another rank, or channels that are no multiple of r * r.
        """
        square = self.upscale_factor**2
        expect_shape(self, x, "batch", f"channels * {square}", "height", "width")
        if x.shape[1] % square:
            raise shape_error(self, f"[batch, channels * {square}, height, width]", list(x.shape))
        return functional.pixel_shuffle(x, self.upscale_factor)


class PixelUnshuffle(KeepsType, ConfiguredLayer, config=PixelUnshuffleConfig):
    """`[batch, channels, height * r, width * r] -> [batch, channels * r * r, height, width]`: PixelShuffle undone.

    Torch: `nn.PixelUnshuffle`.
    """

    downscale_factor: int

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, height * r, width * r] -> [batch, channels * r * r, height, width]`.

        Raises:
            ShapeError: x has another rank, or a height or width that is no multiple of r.
        """
        factor = self.downscale_factor
        expect_shape(self, x, "batch", "channels", f"height * {factor}", f"width * {factor}")
        if x.shape[2] % factor or x.shape[3] % factor:
            raise shape_error(self, f"[batch, channels, height * {factor}, width * {factor}]", list(x.shape))
        return functional.pixel_unshuffle(x, factor)
