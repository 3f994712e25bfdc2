"""Metrics that are a mean: loss, learning rate, accuracy, accuracy within the k best classes, perplexity."""

from typing import Any, TypeVar

import torch
from torch import Tensor

from ...data.configs import NO_TARGET
from ...errors import ShapeError
from ...ops import cross_entropy
from .base import MeanMetric, best_classes, scores_and_classes
from .configs import (
    AccuracyConfig,
    LearningRateConfig,
    LossConfig,
    PerplexityConfig,
    TopKAccuracyConfig,
)


class Loss(MeanMetric[LossConfig], of=LossConfig):
    """The mean loss of all items."""

    title = "Loss"

    def update(self, loss: Tensor, size: int | None = None) -> None:
        """Take the losses of the items of a batch, `[n]`, or their mean and the number of items; else a ShapeError."""
        expected = "the losses of items, [n], or their mean, [], and how many there are"
        if not isinstance(loss, Tensor):
            raise ShapeError(f"Loss: expected {expected}, got {type(loss).__name__}")
        if loss.dim() > 1 or (loss.dim() == 1) != (size is None) or isinstance(size, Tensor):
            got = list(size.shape) if isinstance(size, Tensor) else size
            raise ShapeError(f"Loss: expected {expected}, got a loss of {list(loss.shape)} and a size of {got}")
        if size != 0:
            self.follow(loss)
            weight = 1 if size is None else size
            self.add(loss.sum(dtype=torch.float64) * weight, loss.numel() * weight)


class LearningRate(MeanMetric[LearningRateConfig], of=LearningRateConfig):
    """The mean learning rate of the steps. Takes the rate of one step: a number, or a scalar tensor."""

    title = "Learning Rate"

    def update(self, rate: Any, *_: Any) -> None:
        value = rate if isinstance(rate, Tensor) else torch.tensor(float(rate), dtype=torch.float64)
        if value.numel() != 1:
            raise ShapeError(f"LearningRate: expected the rate of a step, a number, got {list(value.shape)}")
        self.follow(value)
        self.add(value.sum(dtype=torch.float64), 1)


Ranked = TypeVar("Ranked", AccuracyConfig, TopKAccuracyConfig)


class _ShareOfTargets(MeanMetric[Ranked]):
    """100 * right / counted, over all targets but pad tokens.

    Takes `[n, ..., classes]` floats, or `[n, classes, ...]` with `class_dim` 1, and `[n, ...]` integers.
    """

    unit = "%"
    knows = ("logits", "class_dim")

    def update(
        self, predictions: Tensor, targets: Tensor, *, logits: bool = False, class_dim: int | None = None
    ) -> None:
        class_dim = self.config.class_dim or class_dim
        scores, classes = scores_and_classes(self, predictions, targets, class_dim, logits=logits)
        k = self.config.k if isinstance(self.config, TopKAccuracyConfig) else 1
        if scores.shape[1] < k:
            raise ShapeError(f"{type(self).__name__}: expected at least {k} classes (k), got {scores.shape[1]}")
        self.follow(predictions)
        best = best_classes(scores, k)
        is_right = (best == classes.unsqueeze(1)).any(dim=1)
        pad = self.config.pad_token
        counts = classes != NO_TARGET if pad is None else (classes != pad) & (classes != NO_TARGET)
        right = (is_right & counts).sum(dtype=torch.float64)
        # One of the highest scores is NaN if any score is.
        self.add(torch.where(scores.gather(1, best).isnan().any(), torch.nan, right), counts.sum(dtype=torch.float64))

    def compute(self) -> Tensor:
        return 100 * self.total / self.weight


class Accuracy(_ShareOfTargets[AccuracyConfig], of=AccuracyConfig):
    """How many targets have the highest score, in percent.

    Takes `[n, ..., classes]` floats, or `[n, classes, ...]` with `class_dim` 1, and `[n, ...]` integers.
    """

    title = "Accuracy"


class TopKAccuracy(_ShareOfTargets[TopKAccuracyConfig], of=TopKAccuracyConfig):
    """How many targets are among the k highest scores, in percent; takes what Accuracy takes."""

    title = "Top-K Accuracy @ TopK({k})"


class Perplexity(MeanMetric[PerplexityConfig], of=PerplexityConfig):
    """exp of the mean cross-entropy of all targets but pad tokens.

    Takes `[n, ..., classes]` logits, or `[n, classes, ...]` with `class_dim` 1, and `[n, ...]` integers. On CPUs, a
    target that is no class is a TargetError.
    """

    title = "Perplexity"
    knows = ("logits", "class_dim")

    def update(
        self, predictions: Tensor, targets: Tensor, *, logits: bool = False, class_dim: int | None = None
    ) -> None:
        class_dim = self.config.class_dim or class_dim
        scores, classes = scores_and_classes(self, predictions, targets, class_dim, 1, logits=logits)
        self.follow(predictions)
        classes = classes.long()
        if self.config.pad_token is not None:
            classes = classes.masked_fill(classes == self.config.pad_token, NO_TARGET)
        if scores.dtype in (torch.bfloat16, torch.float16):
            scores = scores.float()
        losses = cross_entropy(scores.detach(), classes, ignore_index=NO_TARGET, reduction="none")
        self.add(losses.sum(dtype=torch.float64), (classes != NO_TARGET).sum(dtype=torch.float64))

    def compute(self) -> Tensor:
        return super().compute().exp()
