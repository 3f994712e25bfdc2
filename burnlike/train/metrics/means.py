"""Metrics that are a mean: loss, learning rate, accuracy, accuracy within the k best classes, perplexity."""

from typing import Any

import torch
from torch import Tensor

from ...config import MetricConfig
from ...errors import ShapeError
from ...ops import cross_entropy
from .base import EpochMetric, scores_and_classes
from .configs import AccuracyConfig, LossConfig, PerplexityConfig, TopKAccuracyConfig


class _Mean(EpochMetric):
    """sum(value * weight) / sum(weight)."""

    higher_is_better = LossConfig.higher_is_better
    title = ""
    total: Tensor
    weight: Tensor

    def __init__(self, config: MetricConfig | None = None) -> None:
        super().__init__((config.name if config else None) or self.title)
        self.add_sum("total")
        self.add_sum("weight")

    def compute(self) -> Tensor:
        return self.total / self.weight

    def add(self, values: Tensor, weight: float) -> None:
        self.follow(values)
        self.total = self.total + values.sum(dtype=torch.float64) * weight
        self.weight = self.weight + values.numel() * weight


class Loss(_Mean):
    """The mean loss of all items.

    Takes the losses of the items, `[n]`, or the mean of a batch and the number of its items.
    """

    title = "Loss"

    def update(self, loss: Tensor, size: int | None = None) -> None:
        """Take a batch.

        Args:
            loss: the loss of each item, `[n]`; or with `size` their mean, a scalar.
            size: of how many items it is the mean.

        Raises:
            ShapeError: it is neither.
        """
        expected = "the losses of items, [n], or their mean, [], and how many there are"
        if not isinstance(loss, Tensor):
            raise ShapeError(f"Loss: expected {expected}, got {type(loss).__name__}")
        if loss.dim() > 1 or (loss.dim() == 1) != (size is None) or isinstance(size, Tensor):
            got = list(size.shape) if isinstance(size, Tensor) else size
            raise ShapeError(f"Loss: expected {expected}, got a loss of {list(loss.shape)} and a size of {got}")
        if size != 0:
            self.add(loss, 1 if size is None else size)


class LearningRate(_Mean):
    """The mean learning rate of the steps. Takes the rate of one step: a number, or a scalar tensor."""

    title = "Learning Rate"

    def update(self, rate: Any, *_: Any) -> None:
        value = rate if isinstance(rate, Tensor) else torch.tensor(float(rate), dtype=torch.float64)
        if value.numel() != 1:
            raise ShapeError(f"LearningRate: expected the rate of a step, a number, got {list(value.shape)}")
        self.add(value, 1)


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


_NONE = -(2**31) - 1


class Perplexity(EpochMetric):
    """exp of the mean cross-entropy of all targets but pad tokens.

    Takes `[n, ..., classes]` logits, or `[n, classes, ...]` with `class_dim` 1, and `[n, ...]` integers. On CPUs, a
    target that is no class is a TargetError.
    """

    higher_is_better = PerplexityConfig.higher_is_better
    total: Tensor
    counted: Tensor

    def __init__(self, config: PerplexityConfig | None = None) -> None:
        found = config or PerplexityConfig()
        super().__init__(found.name or "Perplexity")
        self.config = found
        self.add_sum("total")
        self.add_sum("counted")

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        logits, classes = scores_and_classes(self, predictions, targets, self.config.class_dim, least=1)
        self.follow(predictions)
        pad = _NONE if self.config.pad_token is None else self.config.pad_token
        if logits.dtype in (torch.bfloat16, torch.float16):
            logits = logits.float()
        losses = cross_entropy(logits.detach(), classes.long(), ignore_index=pad, reduction="none")
        self.total = self.total + losses.sum(dtype=torch.float64)
        self.counted = self.counted + (classes != pad).sum(dtype=torch.float64)

    def compute(self) -> Tensor:
        return (self.total / self.counted).exp()
