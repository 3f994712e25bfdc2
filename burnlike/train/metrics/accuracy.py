"""Accuracy, and accuracy within the k best classes."""

import torch
from torch import Tensor

from ...errors import ShapeError
from .base import EpochMetric
from .configs import AccuracyConfig, TopKAccuracyConfig
from .inputs import scores_and_classes


class _ShareOfTargets(EpochMetric):
    """100 * right / counted, over all targets but pad tokens."""

    unit = "%"
    higher_is_better = AccuracyConfig.higher_is_better
    right: Tensor
    counted: Tensor

    def __init__(self, name: str, pad_token: int | None) -> None:
        super().__init__(name)
        self.pad_token = pad_token
        self.add_sum("right")
        self.add_sum("counted")

    def compute(self) -> Tensor:
        return 100 * self.right / self.counted

    def count(self, is_right: Tensor, best: Tensor, targets: Tensor) -> None:
        """Add a batch: `[n]` bool, the `[n]` highest scores, of which one is NaN if any score is, and the targets."""
        counts = torch.ones_like(is_right) if self.pad_token is None else targets != self.pad_token
        right = (is_right & counts).sum(dtype=torch.float64)
        self.right = self.right + torch.where(best.isnan().any(), torch.nan, right)
        self.counted = self.counted + counts.sum(dtype=torch.float64)


class Accuracy(_ShareOfTargets):
    """How many targets have the highest score, in percent.

    Takes `[n, ..., classes]` floats, or `[n, classes, ...]` with `class_dim` 1, and `[n, ...]` integers.
    """

    def __init__(self, config: AccuracyConfig | None = None) -> None:
        found = config or AccuracyConfig()
        super().__init__(found.name or "Accuracy", found.pad_token)
        self.config = found

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        scores, classes = scores_and_classes(self, predictions, targets, self.config.class_dim)
        self.follow(predictions)
        best = scores.max(dim=1)
        self.count(best.indices == classes, best.values, classes)


class TopKAccuracy(_ShareOfTargets):
    """How many targets are among the k highest scores, in percent.

    Takes `[n, ..., classes]` floats, or `[n, classes, ...]` with `class_dim` 1, and `[n, ...]` integers.
    """

    def __init__(self, config: TopKAccuracyConfig | None = None) -> None:
        found = config or TopKAccuracyConfig()
        super().__init__(found.name or f"Top-K Accuracy @ TopK({found.k})", found.pad_token)
        self.config = found

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        scores, classes = scores_and_classes(self, predictions, targets, self.config.class_dim)
        if scores.shape[1] < self.config.k:
            raise ShapeError(f"TopKAccuracy: expected at least {self.config.k} classes (k), got {scores.shape[1]}")
        self.follow(predictions)
        best = scores.topk(self.config.k, dim=1)
        self.count((best.indices == classes.unsqueeze(1)).any(dim=1), best.values, classes)
