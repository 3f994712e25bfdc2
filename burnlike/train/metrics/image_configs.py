"""Configs of the metrics of images and masks."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from ...config import Meta, MetricConfig
from ...config.bounds import NotNegative, Positive, Size, at_most
from ...config.roles import Built

if TYPE_CHECKING:
    from . import images


KernelSize = Annotated[int, Meta(ge=1), at_most(1023, "a window is smaller than an image")]
Betas = Annotated[tuple[NotNegative, ...], Meta(min_length=1, max_length=16)]


class DiceConfig(MetricConfig["images.Dice"], tag="Dice"):
    """How much predicted masks and true ones overlap.

    Attributes:
        epsilon: added to both sides of the fraction, so that two empty masks have the value 1.
        include_background: whether class 0 counts; it always does where there is only one.
    """

    higher_is_better = True
    epsilon: Positive = 1e-7
    include_background: bool = False


class PsnrConfig(MetricConfig["images.Psnr"], tag="Psnr"):
    """Peak signal-to-noise ratio of images.

    Attributes:
        max_pixel_val: the largest value that a pixel can have.
        epsilon: the smallest mean squared error, so that equal images have a finite value.
    """

    higher_is_better = True
    max_pixel_val: Positive = 1.0
    epsilon: Positive = 1e-10


class _SimilarityConfig(MetricConfig[Built]):
    """Metrics of structural similarity.

    Attributes:
        pixel_range: the largest value that a pixel can have less the smallest.
        k1: K1 of the paper; steadies the comparison of luminance.
        k2: K2 of the paper; steadies the comparison of contrast.
        kernel_size: side of the Gaussian window in pixels, odd.
        sigma: standard deviation of the window in pixels.
    """

    higher_is_better = True
    pixel_range: Positive = 1.0
    k1: Positive = 0.01
    k2: Positive = 0.03
    kernel_size: KernelSize = 11
    sigma: Positive = 1.5

    def validate(self) -> Iterable[tuple[str, str]]:
        if self.kernel_size % 2 == 0:
            yield "kernel_size", f"expected an odd number, got {self.kernel_size}"


class SsimConfig(_SimilarityConfig["images.Ssim"], tag="Ssim"):
    """Structural similarity of images (Wang et al. 2004)."""


class MsSsimConfig(_SimilarityConfig["images.MsSsim"], tag="MsSsim"):
    """Structural similarity of images at several scales (Wang et al. 2003).

    Attributes:
        channels: of the images.
        betas: the exponent of each scale, from the finest; there are as many scales.
    """

    channels: Size = 3
    betas: Betas = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)
