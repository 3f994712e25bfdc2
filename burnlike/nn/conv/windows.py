"""Windows of an image as columns of a matrix, channels as pixels, and both back."""

from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import ChangesRank, KeepsType
from ..layer import ConfiguredLayer, expect_shape, shape_error
from ..padding import each, expect_window, shown_size, span, window_counts
from .configs import Fold4dConfig, PixelShuffleConfig, PixelUnshuffleConfig, Unfold4dConfig


class _Windows(ChangesRank, ConfiguredLayer):
    """A layer whose attributes are the sizes of its config, each for height and width."""

    kernel_size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]
    padding: tuple[int, ...]

    def __init__(self, config: Unfold4dConfig | Fold4dConfig) -> None:
        super().__init__(config)
        for name in config.__struct_fields__:
            setattr(self, name, each(getattr(config, name), 2))

    def custom_content(self, content: Content) -> Content:
        for name in self._config.__struct_fields__:
            content.add(name, shown_size(getattr(self, name)))
        return content


class Unfold4d(_Windows, config=Unfold4dConfig):
    """Windows as columns, `[batch, channels, height, width] -> [.., channels * taps, windows]`. Torch: `nn.Unfold`."""

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """As the class says. Raises ShapeError if x is smaller than the kernel after padding."""
        expect_shape(self, x, "batch", "channels", "height", "width")
        padding = each(self.padding, 2)
        expect_window(self, x.shape, each(self.kernel_size, 2), each(self.dilation, 2), padding, padding)
        return functional.unfold(x, self.kernel_size, self.dilation, padding, self.stride)


class Fold4d(_Windows, config=Fold4dConfig):
    """Sums of windows, `[batch, channels * taps, windows] -> [batch, channels, *output_size]`. Torch: `nn.Fold`."""

    output_size: tuple[int, ...]

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """As the class says. Raises ShapeError if x has other columns than windows fit into `output_size`."""
        kernel, stride, padding = each(self.kernel_size, 2), each(self.stride, 2), each(self.padding, 2)
        window = span(kernel, each(self.dilation, 2))
        rows, columns = window_counts(each(self.output_size, 2), window, stride, padding)
        taps = kernel[0] * kernel[1]
        expect_shape(self, x, "batch", f"channels * {taps}", rows * columns)
        if x.shape[1] % taps:
            raise shape_error(self, f"[batch, channels * {taps}, {rows * columns}]", list(x.shape))
        return functional.fold(x, self.output_size, kernel, self.dilation, padding, stride)


class PixelShuffle(KeepsType, ConfiguredLayer, config=PixelShuffleConfig):
    """`[batch, channels * r * r, height, width] -> [batch, channels, height * r, width * r]` (Shi et al. 2016, eq. 4).

    Channel c * r * r + i * r + j gives the pixels (y * r + i, x * r + j) of channel c.

    Torch: `nn.PixelShuffle`.
    """

    upscale_factor: int

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """As the class says, r being `upscale_factor`."""
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
        """As the class says, r being `downscale_factor`."""
        factor = self.downscale_factor
        expect_shape(self, x, "batch", "channels", f"height * {factor}", f"width * {factor}")
        if x.shape[2] % factor or x.shape[3] % factor:
            raise shape_error(self, f"[batch, channels, height * {factor}, width * {factor}]", list(x.shape))
        return functional.pixel_unshuffle(x, factor)
