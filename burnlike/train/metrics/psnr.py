"""Peak signal-to-noise ratio."""

from torch import Tensor

from .images import ImageMetric
from .vision_configs import PsnrConfig
from .words import number_text


class Psnr(ImageMetric):
    """10 * log10(max_pixel_val^2 / max(mean squared error, epsilon)) in dB: the mean over all images.

    Takes `[n, channels, height, width]` floats.
    """

    unit = "dB"

    def __init__(self, config: PsnrConfig | None = None) -> None:
        found = config or PsnrConfig()
        super().__init__(found.name or f"PSNR@{number_text(found.max_pixel_val)}")
        self.config = found

    def compared(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """The ratio of each image, `[n]`."""
        error = (predictions - targets).double().square().mean(dim=(1, 2, 3)).clamp(min=self.config.epsilon)
        return 10 * (self.config.max_pixel_val**2 / error).log10()
