"""Dice: how much masks overlap."""

import torch
from torch import Tensor

from ...errors import DTypeError
from .base import EpochMetric
from .inputs import expect_tensors, scores_and_classes, shape_error
from .vision_configs import DiceConfig


class Dice(EpochMetric):
    """(2 * common + epsilon) / (predicted + true + epsilon), of all classes and pixels together (Dice 1945).

    Takes masks of zeros and ones, `[n, classes, ...]` integers or bools of one shape. Or scores, `[n, classes, ...]`
    floats, of which the highest is predicted, with `[n, ...]` integers: the class of each pixel.
    """

    higher_is_better = DiceConfig.higher_is_better
    common: Tensor
    marked: Tensor
    pixels: Tensor

    def __init__(self, config: DiceConfig | None = None) -> None:
        found = config or DiceConfig()
        super().__init__(found.name or "Dice Metric")
        self.config = found
        for name in ("common", "marked", "pixels"):
            self.add_sum(name)

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        expect_tensors(self, predictions, targets)
        first, last, unknown = self._masks(predictions, targets)
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

    def _masks(self, predictions: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Both as masks, and whether a score is NaN."""
        if predictions.shape == targets.shape and predictions.dim() >= 3:
            for what, value in (("predictions", predictions), ("targets", targets)):
                if value.is_floating_point():
                    raise DTypeError(f"Dice: {what}: expected masks of integers or bools, got {value.dtype}")
            return predictions.long(), targets.long(), torch.zeros((), dtype=torch.bool, device=predictions.device)
        if predictions.dim() < 3 or targets.dim() != predictions.dim() - 1:
            expected = "masks [n, classes, ...] of one shape, or scores [n, classes, ...] and classes [n, ...]"
            raise shape_error(self, expected, predictions, targets)
        scores, classes = scores_and_classes(self, predictions, targets, 1)
        best = scores.max(dim=1)
        every = torch.ones_like(best.indices).new_ones(scores.shape[1]).cumsum(0) - 1
        predicted, true = (it.unsqueeze(1) == every for it in (best.indices, classes))
        return predicted.long(), true.long(), best.values.isnan().any()
