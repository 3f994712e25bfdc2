"""Perplexity of a language model."""

import torch
from torch import Tensor

from ...ops import cross_entropy
from .base import EpochMetric
from .configs import PerplexityConfig
from .inputs import scores_and_classes

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
