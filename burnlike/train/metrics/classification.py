"""Scores of classes: accuracy, perplexity, counts of right and wrong decisions, areas under curves over all thresholds.

Of torchmetrics' functions the areas are used. Its counts and accuracies are computed here, since they differ: a NaN
among the scores makes the value NaN, of equal scores the lower classes are the best on every device, items of one class
and labels are told apart by the shape of the targets, and no update waits for a GPU.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from ...data.configs import NO_TARGET
from ...errors import ShapeError
from ...ops import cross_entropy
from . import configs
from .base import ConfiguredMetric, MeanMetric, best_classes, expect, scores_and_classes, scores_and_truth
from .outputs import as_probabilities


class _OfTargets(MeanMetric):
    """A mean over all targets but pad tokens.

    Takes `[n, ..., classes]` floats, or `[n, classes, ...]` with `class_dim` 1, and `[n, ...]` integers.
    """

    knows = ("logits", "class_dim")
    least_classes = 2

    def total_of(self, scores: Tensor, classes: Tensor) -> Tensor:
        """The sum of the values of `[n, classes]` scores and `[n]` classes, without `NO_TARGET`: a float64 scalar."""
        raise NotImplementedError(f"{type(self).__name__} does not define total_of(scores, classes)")

    def update(
        self, predictions: Tensor, targets: Tensor, *, logits: bool = False, class_dim: int | None = None
    ) -> None:
        class_dim = self.config.class_dim or class_dim
        scores, classes = scores_and_classes(
            self, predictions, targets, class_dim, self.least_classes, logits=logits, pad=self.config.pad_token
        )
        total = self.total_of(scores, classes)
        self.follow(predictions)
        self.add(total, (classes != NO_TARGET).sum(dtype=torch.float64))


class Accuracy(_OfTargets, of=configs.AccuracyConfig, title="Accuracy", unit="%"):
    """The share of targets with the highest score, in percent.

    Takes `[n, ..., classes]` floats, or `[n, classes, ...]` with `class_dim` 1, and `[n, ...]` integers.
    """

    def total_of(self, scores: Tensor, classes: Tensor) -> Tensor:
        k = getattr(self.config, "k", 1)
        if scores.shape[1] < k:
            raise ShapeError(f"{type(self).__name__}: expected at least {k} classes (k), got {scores.shape[1]}")
        best = best_classes(scores, k)
        right = (best == classes.unsqueeze(1)).sum(dtype=torch.float64)
        # One of the highest scores is NaN if any score is.
        return torch.where(scores.gather(1, best).isnan().any(), torch.nan, right)

    def compute(self) -> Tensor:
        return 100 * self.total / self.weight


class TopKAccuracy(Accuracy, of=configs.TopKAccuracyConfig, title="Top-K Accuracy @ TopK({k})"):
    """The share of targets among the k highest scores, in percent; takes what Accuracy takes."""


class Perplexity(_OfTargets, of=configs.PerplexityConfig, title="Perplexity", least_classes=1):
    """exp of the mean cross-entropy of all targets but pad tokens.

    Takes `[n, ..., classes]` logits, or `[n, classes, ...]` with `class_dim` 1, and `[n, ...]` integers.
    """

    def total_of(self, scores: Tensor, classes: Tensor) -> Tensor:
        if scores.dtype in (torch.bfloat16, torch.float16):
            scores = scores.float()
        losses = cross_entropy(scores.detach(), classes, ignore_index=NO_TARGET, reduction="none")
        return losses.sum(dtype=torch.float64)

    def compute(self) -> Tensor:
        return super().compute().exp()


class ClassCounts(ConfiguredMetric):
    """Counts of true and false positives, and of true and false negatives, of each class.

    The state is `[4, classes]`; without a batch `[4, 1]` zeros, which can be added to any number of classes. Which
    classes are predicted is the config's `decision`.
    """

    knows = ("logits", "class_dim")
    counts: Tensor

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.add_sum("counts", 4, 1)

    def update(
        self, predictions: Tensor, targets: Tensor, *, logits: bool = False, class_dim: int | None = None
    ) -> None:
        """Take `[n, ..., classes]` floats, or `[n, classes, ...]` with `class_dim` 1, and zeros and ones of this shape
        or integers of this shape without the classes: the class of each.

        Args:
            logits: they are no probabilities; a threshold is compared with the probabilities that they stand for.
        """
        scores, truth = scores_and_truth(self, predictions, targets, self.config.class_dim or class_dim)
        classes, before = scores.shape[1], self.counts.shape[1]
        if before not in (1, classes) or (before != classes and self.update_count > 1):
            raise ShapeError(f"{type(self).__name__}: expected {before} classes, as in earlier batches, got {classes}")
        self.follow(predictions)
        if not len(scores):
            self.counts = self.counts.expand(4, classes)
            return
        k, threshold = self.config.decision
        if k is None and threshold is None and truth.is_exclusive:
            k = 1
        if k is not None:
            if classes < k:
                raise ShapeError(f"{type(self).__name__}: expected at least {k} classes (top_k), got {classes}")
            predicted = torch.zeros_like(scores, dtype=torch.bool).scatter(1, best_classes(scores, k), True)
        else:
            probabilities = as_probabilities(scores, truth.is_exclusive) if logits else scores
            predicted = probabilities > (0.5 if threshold is None else threshold)
        true = truth.holds
        cells = [predicted & true, predicted & ~true, ~predicted & ~true, ~predicted & true]
        batch = torch.stack([(cell & truth.counts).sum(0, dtype=torch.float64) for cell in cells])
        self.counts = self.counts + torch.where(scores.isnan().any(), torch.nan, batch)

    def prepare_sync(self, gather: Callable[[Tensor], list[Tensor]]) -> None:
        """Widen the zeros of a rank without batches to the classes of the others."""
        super().prepare_sync(gather)
        sizes = {int(it) for it in gather(torch.tensor(self.counts.shape[1], device=self.device))}
        if len(sizes - {1}) > 1:
            raise ShapeError(f"{type(self).__name__}: expected the same classes on all ranks, got {sorted(sizes)}")
        self.counts = self.counts.expand(4, max(sizes))

    def reduced(self) -> Tensor:
        """The counts, `[4, classes]`, with `Micro` of all classes together `[4, 1]`."""
        return self.counts.sum(dim=1, keepdim=True) if self.config.class_reduction == "Micro" else self.counts


_DECISION = " @ {rule} [{class_reduction}]"


class ConfusionStats(ClassCounts, of=configs.ConfusionStatsConfig, title=f"Confusion Stats{_DECISION}"):
    """The numbers of right and wrong predictions: for each class with `Macro`, of all classes together with `Micro`.

    The value is a dict of `[classes]`, or `[1]`, float64.
    """

    def compute(self) -> dict[str, Tensor]:
        """The counts by name; `positive` and `negative` count targets, `predicted_positive` predictions."""
        names = ("true_positive", "false_positive", "true_negative", "false_negative")
        counts = dict(zip(names, self.reduced(), strict=True))
        true_positive, false_positive, true_negative, false_negative = counts.values()
        return counts | {
            "positive": true_positive + false_negative,
            "negative": true_negative + false_positive,
            "predicted_positive": true_positive + false_positive,
        }


class _Score(ClassCounts, unit="%"):
    """A fraction of the counts of each class, in percent.

    `fraction` gives both sides of it, `[classes]` each, for the config and the counts of true and false positives, true
    and false negatives; `otherwise` is the value that 0 / 0 has.
    """

    fraction: Callable[..., tuple[Tensor, Tensor]]
    otherwise = 0.0

    def compute(self) -> Tensor:
        """The value over all classes together (`Micro`), or the mean over the classes that have one (`Macro`)."""
        counts = self.reduced()
        above, below = self.fraction(self.config, *counts)
        values = torch.where(below == 0, self.otherwise, above / below)
        return torch.where(counts.sum() == 0, torch.nan, 100 * values.nanmean())


class Precision(
    _Score,
    of=configs.PrecisionConfig,
    title=f"Precision{_DECISION}",
    fraction=lambda config, tp, fp, tn, fn: (tp, tp + fp),
):
    """true positives / predicted positives, in percent; 0 for a class that is never predicted."""


class Recall(
    _Score, of=configs.RecallConfig, title=f"Recall{_DECISION}", fraction=lambda config, tp, fp, tn, fn: (tp, tp + fn)
):
    """true positives / positive targets, in percent; 0 for a class that no target has."""


def _f_beta(config: configs.FBetaScoreConfig, tp: Tensor, fp: Tensor, tn: Tensor, fn: Tensor) -> tuple[Tensor, Tensor]:
    square = config.beta**2
    above = (1 + square) * tp
    return above, above + square * fn + fp


class FBetaScore(
    _Score, of=configs.FBetaScoreConfig, title="FBetaScore ({beta})" + _DECISION, fraction=_f_beta, otherwise=math.nan
):
    """(1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp), in percent (van Rijsbergen 1979).

    A class that is neither predicted nor a target has no value and is left out of the mean.
    """


class Hamming(ClassCounts, of=configs.HammingConfig, title="Hamming Score @ Threshold({limit})", unit="%"):
    """The share of labels that are predicted right, in percent: 100 less the Hamming loss."""

    def update(
        self, predictions: Tensor, targets: Tensor, *, logits: bool = False, class_dim: int | None = None
    ) -> None:
        if self.config.sigmoid:
            expect(self, "a tensor", predictions=predictions)
            predictions, logits = predictions.sigmoid(), False
        super().update(predictions, targets, logits=logits, class_dim=class_dim)

    def compute(self) -> Tensor:
        """(true positives + true negatives) / all, in percent: a float64 scalar."""
        return 100 * (self.counts[0] + self.counts[2]).sum() / self.counts.sum()


_CHANCE = 50.0
_UNKNOWN = 2
"""In a list of zeros and ones, a target that does not count."""


class _Area(ConfiguredMetric, unit="%"):
    """An area under a curve, in percent; 50 if no class has one.

    It keeps the scores of the epoch in float64, and the targets in a byte for each score. Those of different items are
    compared, so logits become probabilities first: a number that is added to all logits of an item changes nothing.
    `area` is torchmetrics' function of `[n]` scores in 0..1 and `[n]` zeros and ones; `is_there` tells, by how many are
    positive of how many, whether a class has one.
    """

    knows = ("logits", "class_dim")
    area: Callable[..., Tensor]
    is_there: Callable[[int, int], bool]
    classes: Tensor
    scores: list[Tensor]
    truth: list[Tensor]

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.add_list("scores", torch.float64)
        self.add_list("truth", torch.uint8)
        self.add_state("classes", torch.zeros((), dtype=torch.int64), dist_reduce_fx="max")
        self._seen: int | None = None

    def update(
        self, predictions: Tensor, targets: Tensor, *, logits: bool = False, class_dim: int | None = None
    ) -> None:
        """Take what `ClassCounts` takes.

        Args:
            logits: they are no probabilities.
        """
        scores, answers = scores_and_truth(self, predictions, targets, self.config.class_dim or class_dim)
        truth = torch.where(answers.counts, answers.holds, _UNKNOWN)
        if self._seen not in (None, scores.shape[1]):
            raise ShapeError(
                f"{type(self).__name__}: expected {self._seen} classes, as in earlier batches, got {scores.shape[1]}"
            )
        self.follow(predictions)
        self._seen = scores.shape[1]
        self.classes = torch.full_like(self.classes, scores.shape[1])
        if logits:
            scores = as_probabilities(scores, answers.is_exclusive)
        # A copy: float64 scores are a view of predictions that a program may change.
        self.scores.append(scores.flatten().to(torch.float64, copy=True))
        self.truth.append(truth.flatten().to(torch.uint8))

    def reset(self) -> None:
        super().reset()
        self._seen = None

    def compute(self) -> Tensor:
        """The area of all classes together (`Micro`), or the mean over the classes that have one (`Macro`)."""
        scores, truth = self.joined("scores"), self.joined("truth")
        columns = 1 if self.config.class_reduction == "Micro" else int(self.classes)
        if not len(scores) or scores.isnan().any():
            return torch.full((), torch.nan, dtype=torch.float64, device=scores.device)
        percents: list[Tensor] = []
        for column, is_class in zip(scores.view(-1, columns).T, truth.view(-1, columns).T, strict=True):
            counted = is_class != _UNKNOWN
            labels = is_class[counted].long()
            if self.is_there(int(labels.sum()), len(labels)):
                # Ranks, with the order and the ties of the scores: torchmetrics takes the sigmoid of numbers outside of
                # 0..1, which makes large ones equal.
                ranks = column[counted].unique(return_inverse=True)[1].double()
                area = self.area(ranks / ranks.max().clamp(min=1), labels, validate_args=False)
                percents.append(100 * area.double())
        return torch.stack(percents).mean() if percents else torch.full_like(scores[0], _CHANCE, dtype=torch.float64)


class Auroc(
    _Area,
    of=configs.AurocConfig,
    title="AUROC [{class_reduction}]",
    area=binary_auroc,
    is_there=lambda positive, count: 0 < positive < count,
):
    """Area under the ROC curve: how often a positive item has the higher score of two, ties counted half, in percent.

    A class has one if it has positive and negative items (Hanley & McNeil 1982).
    """


class AucPr(
    _Area,
    of=configs.AucPrConfig,
    title="AUC-PR [{class_reduction}]",
    area=binary_average_precision,
    is_there=lambda positive, count: positive > 0,
):
    """Average precision: the sum over all thresholds of precision * increase of recall, in percent.

    A class has one if it has positive items. Equal scores are one threshold.
    """
