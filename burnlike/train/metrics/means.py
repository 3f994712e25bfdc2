"""Means of numbers that a training has anyway: its loss and its learning rate."""

from typing import Any

import torch
from torch import Tensor

from ...config import MetricConfig
from ...errors import ShapeError
from .base import EpochMetric
from .configs import LossConfig


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
