"""Metrics of images and masks: PSNR, structural similarity, Dice.

torchmetrics computes others: its PSNR is of the mean error of all images, its SSIM leaves out borders, or cuts them off
from reflected images; Burn, as here, takes the mean over images, and pads borders with zeros.
"""

import torch
from torch import Tensor
from torch.nn import functional

from ...data.configs import NO_TARGET
from ...errors import DTypeError
from ...nn.loss.inputs import expect_range
from .base import ConfiguredMetric, MeanMetric, expect, scores_and_classes, shape_error
from .configs import DiceConfig, MsSsimConfig, PsnrConfig, SsimConfig


class ImageMetric(MeanMetric):
    """The mean over all images of a comparison of `[n, channels, height, width]` floats.

    Attributes:
        least_size: pixels of the smallest image that can be compared, high and wide, and what says so.
    """

    @property
    def least_size(self) -> tuple[int, str]:
        return 0, ""

    def compared(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """The value of each image, `[n]`, of floats of at least 32 bits."""
        raise NotImplementedError(f"{type(self).__name__} does not define compared(predictions, targets)")

    def check(self, predictions: Tensor, targets: Tensor) -> None:
        """Refuse images that can't be compared, by a ShapeError."""
        side, why = self.least_size
        if min(predictions.shape[2:]) < side:
            raise shape_error(self, f"images of at least {side} x {side} ({why})", predictions, targets)

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        expect(self, "a tensor", predictions=predictions, targets=targets)
        if predictions.dim() != 4 or predictions.shape != targets.shape:
            expected = "predictions and targets of one shape [n, channels, height, width]"
            raise shape_error(self, expected, predictions, targets)
        expect(self, "floats", predictions=predictions)
        self.check(predictions, targets)
        self.follow(predictions)
        if len(predictions):
            exact = torch.promote_types(predictions.dtype, torch.float32)
            values = self.compared(predictions.to(exact), targets.to(exact))
            self.add(values.sum(dtype=torch.float64), len(predictions))


class Psnr(ImageMetric, of=PsnrConfig, title="PSNR@{max_pixel_val}", unit="dB"):
    """10 * log10(max_pixel_val^2 / max(mean squared error, epsilon)) in dB: the mean over all images.

    Takes `[n, channels, height, width]` floats.
    """

    def compared(self, predictions: Tensor, targets: Tensor) -> Tensor:
        error = (predictions - targets).double().square().mean(dim=(1, 2, 3)).clamp(min=self.config.epsilon)
        return 10 * (self.config.max_pixel_val**2 / error).log10()


class Ssim(ImageMetric, of=SsimConfig, title="SSIM (dr={pixel_range}, w={kernel_size}, \u03c3={sigma})"):
    """Structural similarity: the mean over all pixels, channels and images (Wang et al. 2004, eq. 13).

    Takes `[n, channels, height, width]` floats, at least as large as the window. Borders are padded with zeros.
    """

    @property
    def least_size(self) -> tuple[int, str]:
        return self.config.kernel_size, "kernel_size"

    def compared(self, predictions: Tensor, targets: Tensor) -> Tensor:
        luminance, contrast = _similarities(predictions, targets, self.config, "constant")
        return (luminance * contrast).mean(dim=(1, 2, 3))


class MsSsim(ImageMetric, of=MsSsimConfig, title="MS-SSIM (pr={pixel_range}, k={kernel_size}, \u03c3={sigma})"):
    """Structural similarity at several scales: the mean over channels and images (Wang et al. 2003, eq. 7).

    The product over the scales of the mean of contrast times structure, to the power of its beta; at the last scale
    luminance is a factor, too. Between scales 2 x 2 pixels become their mean. Negative means count as 0. Takes
    `[n, channels, height, width]` floats, at least kernel_size * 2^(scales - 1) wide and high. Borders are reflected.
    """

    @property
    def least_size(self) -> tuple[int, str]:
        return self.config.kernel_size * 2 ** (len(self.config.betas) - 1), "kernel_size * 2^(betas - 1)"

    def check(self, predictions: Tensor, targets: Tensor) -> None:
        if predictions.shape[1] != self.config.channels:
            raise shape_error(self, f"{self.config.channels} channels (channels)", predictions, targets)
        super().check(predictions, targets)

    def compared(self, predictions: Tensor, targets: Tensor) -> Tensor:
        value = predictions.new_ones(predictions.shape[:2])
        for beta in self.config.betas[:-1]:
            contrast = _similarities(predictions, targets, self.config, "reflect")[1]
            value = value * contrast.mean(dim=(2, 3)).clamp(min=0) ** beta
            predictions, targets = (functional.avg_pool2d(it, 2) for it in (predictions, targets))
        luminance, contrast = _similarities(predictions, targets, self.config, "reflect")
        value = value * (luminance * contrast).mean(dim=(2, 3)).clamp(min=0) ** self.config.betas[-1]
        return value.mean(dim=1)


def _similarities(
    predictions: Tensor, targets: Tensor, config: SsimConfig | MsSsimConfig, padding: str
) -> tuple[Tensor, Tensor]:
    """Luminance, and contrast times structure, around each pixel (Wang et al. 2004, section III-B)."""
    c1, c2 = (config.k1 * config.pixel_range) ** 2, (config.k2 * config.pixel_range) ** 2
    every = torch.cat([predictions, targets, predictions**2, targets**2, predictions * targets])
    mean_x, mean_y, mean_xx, mean_yy, mean_xy = _blurred(every, config.kernel_size, config.sigma, padding).chunk(5)
    variances = (mean_xx - mean_x**2).clamp(min=0) + (mean_yy - mean_y**2).clamp(min=0)
    luminance = (2 * mean_x * mean_y + c1) / (mean_x**2 + mean_y**2 + c1)
    return luminance, (2 * (mean_xy - mean_x * mean_y) + c2) / (variances + c2)


def _blurred(images: Tensor, size: int, sigma: float, padding: str) -> Tensor:
    """The Gaussian means around each pixel: one pass over rows, one over columns."""
    dtype = images.dtype
    if images.is_cuda:
        images = images.double()  # cuDNN would round float32 to the 10 bits of TF32, of which variances have few left
    offsets = torch.arange(size, dtype=images.dtype, device=images.device) - size // 2
    weights = (-(offsets**2) / (2 * sigma**2)).exp()
    weights = (weights / weights.sum()).expand(images.shape[1], 1, 1, size)
    padded = functional.pad(images, (size // 2,) * 4, mode=padding)
    rows = functional.conv2d(padded, weights, groups=images.shape[1])
    return functional.conv2d(rows, weights.mT, groups=images.shape[1]).to(dtype)


class Dice(ConfiguredMetric, of=DiceConfig, title="Dice Metric", sums=("common", "marked", "pixels")):
    """(2 * common + epsilon) / (predicted + true + epsilon), of all classes and pixels together (Dice 1945).

    Takes masks of zeros and ones, `[n, classes, ...]` integers or bools of one shape. Or scores, `[n, classes, ...]`
    floats, of which the highest is predicted, with `[n, ...]` integers: the class of each pixel.
    """

    common: Tensor
    marked: Tensor
    pixels: Tensor
    knows = ("logits",)

    def update(self, predictions: Tensor, targets: Tensor, *, logits: bool = False) -> None:
        expect(self, "a tensor", predictions=predictions, targets=targets)
        first, last, unknown = self._masks(predictions, targets, logits)
        self.follow(predictions)
        if first.shape[1] > 1 and not self.config.include_background:
            first, last = first[:, 1:], last[:, 1:]
        common = (first * last).sum(dtype=torch.float64)
        self.common = self.common + torch.where(unknown, torch.nan, common)
        self.marked = self.marked + first.sum(dtype=torch.float64) + last.sum(dtype=torch.float64)
        self.pixels = self.pixels + first.numel()

    def compute(self) -> Tensor:
        epsilon = self.config.epsilon
        value = (2 * self.common + epsilon) / (self.marked + epsilon)
        return torch.where(self.pixels == 0, torch.nan, value)

    def _masks(self, predictions: Tensor, targets: Tensor, logits: bool) -> tuple[Tensor, Tensor, Tensor]:
        """Both as masks, and whether a score is NaN."""
        if predictions.shape == targets.shape and predictions.dim() >= 3:
            for what, value in (("predictions", predictions), ("targets", targets)):
                if value.is_floating_point():
                    raise DTypeError(f"Dice: {what}: expected masks of integers or bools, got {value.dtype}")
            masks = predictions.long(), targets.long()
            for what, mask in zip(("predictions", "targets"), masks, strict=True):
                expect_range(self, mask, 0, 1, what)
            return *masks, torch.zeros((), dtype=torch.bool, device=predictions.device)
        if predictions.dim() < 3 or targets.dim() != predictions.dim() - 1:
            expected = "masks [n, classes, ...] of one shape, or scores [n, classes, ...] and classes [n, ...]"
            raise shape_error(self, expected, predictions, targets)
        scores, classes = scores_and_classes(self, predictions, targets, 1, logits=logits)
        best = scores.max(dim=1)
        every = torch.ones_like(best.indices).new_ones(scores.shape[1]).cumsum(0) - 1
        predicted, true = (it.unsqueeze(1) == every for it in (best.indices, classes))
        predicted = predicted & (classes != NO_TARGET).unsqueeze(1)
        return predicted.long(), true.long(), best.values.isnan().any()
