"""The mean of a value of each image: the base of PSNR and SSIM."""

from typing import Any

import torch
from torch import Tensor

from .base import EpochMetric
from .inputs import expect_floats, expect_tensors, shape_error
from .vision_configs import PsnrConfig


class ImageMetric(EpochMetric):
    """The mean over all images of a comparison of `[n, channels, height, width]` floats."""

    higher_is_better = PsnrConfig.higher_is_better
    total: Tensor
    images: Tensor

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.add_sum("total")
        self.add_sum("images")

    def compared(self, predictions: Tensor, targets: Tensor) -> Tensor:
        """The value of each image, `[n]`, of floats of at least 32 bits."""
        raise NotImplementedError(f"{type(self).__name__} does not define compared(predictions, targets)")

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Take a batch.

        Raises:
            ShapeError: they are not of one shape of four dimensions, or too small.
            DTypeError: predictions are no floats.
        """
        expect_tensors(self, predictions, targets)
        if predictions.dim() != 4 or predictions.shape != targets.shape:
            expected = "predictions and targets of one shape [n, channels, height, width]"
            raise shape_error(self, expected, predictions, targets)
        expect_floats(self, predictions)
        self.check(predictions, targets)
        self.follow(predictions)
        if len(predictions):
            exact = torch.promote_types(predictions.dtype, torch.float32)
            values = self.compared(predictions.to(exact), targets.to(exact))
            self.total = self.total + values.sum(dtype=torch.float64)
            self.images = self.images + len(predictions)

    def check(self, predictions: Tensor, targets: Tensor) -> Any:
        """Raise ShapeError for images that can't be compared; here all can."""

    def compute(self) -> Tensor:
        """The mean, a float64 scalar."""
        return self.total / self.images
