"""Scores of classes: precision, recall, F-score and Hamming of counts, and areas under curves over all thresholds."""

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from ...errors import ShapeError
from . import configs
from .base import ConfiguredMetric, best_classes, expect, number_text, scores_and_truth
from .outputs import as_probabilities

Counted = TypeVar("Counted", bound="configs.HammingConfig | configs._ClassReductionConfig[Any]")


class ClassCounts(ConfiguredMetric[Counted]):
    """Counts of true and false positives, and of true and false negatives, of each class.

    The state is `[4, classes]`; without a batch `[4, 1]` zeros, which can be added to any number of classes.
    """

    knows = ("logits", "class_dim")
    counts: Tensor

    def __init__(self, config: Counted | None = None) -> None:
        super().__init__(config)
        self.add_sum("counts", 4, 1)

    def decision(self) -> tuple[int | None, float | None]:
        """How many of the best classes the config says to predict, or above which threshold; both None: neither."""
        raise NotImplementedError(f"{type(self).__name__} does not define decision()")

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
        k, threshold = self.decision()
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
        batch = torch.stack([(it & truth.counts).sum(0, dtype=torch.float64) for it in cells])
        self.counts = self.counts + torch.where(scores.isnan().any(), torch.nan, batch)

    def prepare_sync(self, gather: Callable[[Tensor], list[Tensor]]) -> None:
        """Widen the zeros of a rank without batches to the classes of the others."""
        super().prepare_sync(gather)
        sizes = {int(it) for it in gather(torch.tensor(self.counts.shape[1], device=self.device))}
        if len(sizes - {1}) > 1:
            raise ShapeError(f"{type(self).__name__}: expected the same classes on all ranks, got {sorted(sizes)}")
        self.counts = self.counts.expand(4, max(sizes))


Decision = TypeVar("Decision", bound=configs._DecisionConfig[Any])


class DecisionCounts(ClassCounts[Decision]):
    """Counts of classes that are predicted because of a threshold, or because they are among the k best."""

    def default_name(self, config: Decision) -> str:
        rule = f"Threshold({config.limit})" if config.top_k is None else f"TopK({config.top_k})"
        return f"{super().default_name(config)} @ {rule} [{config.class_reduction}]"

    def reduced(self) -> Tensor:
        """The counts, `[4, classes]`, of all classes together `[4, 1]`."""
        return self.counts.sum(dim=1, keepdim=True) if self.config.class_reduction == "Micro" else self.counts

    def decision(self) -> tuple[int | None, float | None]:
        return self.config.top_k, self.config.threshold


class ConfusionStats(DecisionCounts[configs.ConfusionStatsConfig], of=configs.ConfusionStatsConfig):
    """How many predictions are right and wrong: for each class with `Macro`, of all classes together with `Micro`.

    The value is a dict of `[classes]`, or `[1]`, float64.
    """

    title = "Confusion Stats"

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


class _Score(DecisionCounts[Decision]):
    """A fraction of the counts of each class, in percent."""

    unit = "%"

    def fraction(self, counts: Tensor) -> tuple[Tensor, Tensor, float]:
        """Both sides of the fraction of `[4, classes]` counts, `[classes]` each, and the value that 0 / 0 has."""
        raise NotImplementedError(f"{type(self).__name__} does not define fraction(counts)")

    def compute(self) -> Tensor:
        """The value over all classes together (`Micro`), or the mean over the classes that have one (`Macro`)."""
        counts = self.reduced()
        above, below, otherwise = self.fraction(counts)
        values = torch.where(below == 0, otherwise, above / below)
        return torch.where(counts.sum() == 0, torch.nan, 100 * values.nanmean())


class Precision(_Score[configs.PrecisionConfig], of=configs.PrecisionConfig):
    """true positives / predicted positives, in percent; 0 for a class that is never predicted."""

    title = "Precision"

    def fraction(self, counts: Tensor) -> tuple[Tensor, Tensor, float]:
        return counts[0], counts[0] + counts[1], 0.0


class Recall(_Score[configs.RecallConfig], of=configs.RecallConfig):
    """true positives / positive targets, in percent; 0 for a class that no target has."""

    title = "Recall"

    def fraction(self, counts: Tensor) -> tuple[Tensor, Tensor, float]:
        return counts[0], counts[0] + counts[3], 0.0


class FBetaScore(_Score[configs.FBetaScoreConfig], of=configs.FBetaScoreConfig):
    """(1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp), in percent (van Rijsbergen 1979).

    A class that is neither predicted nor a target has no value and is left out of the mean.
    """

    title = "FBetaScore ({beta})"

    def fraction(self, counts: Tensor) -> tuple[Tensor, Tensor, float]:
        square = self.config.beta**2
        above = (1 + square) * counts[0]
        return above, above + square * counts[3] + counts[1], math.nan


class Hamming(ClassCounts[configs.HammingConfig], of=configs.HammingConfig):
    """How many labels are predicted as they are, in percent: 100 less the Hamming loss."""

    title, unit = "Hamming Score", "%"

    def default_name(self, config: configs.HammingConfig) -> str:
        return f"{self.title} @ Threshold({number_text(config.limit)})"

    def decision(self) -> tuple[int | None, float | None]:
        return None, self.config.limit if self.config.sigmoid else self.config.threshold

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


Areas = TypeVar("Areas", configs.AurocConfig, configs.AucPrConfig)


class _Area(ConfiguredMetric[Areas]):
    """An area under a curve, in percent; 50 if no class has one.

    It keeps the scores of the epoch in float64, and the targets in a byte for each score. Those of different items are
    compared, so logits become probabilities first: a number that is added to all logits of an item changes nothing.
    """

    unit = "%"
    knows = ("logits", "class_dim")
    classes: Tensor
    scores: list[Tensor]
    truth: list[Tensor]

    def __init__(self, config: Areas | None = None) -> None:
        super().__init__(config)
        self.add_list("scores", torch.float64)
        self.add_list("truth", torch.uint8)
        self.add_state("classes", torch.zeros((), dtype=torch.int64), dist_reduce_fx="max")
        self._seen: int | None = None

    def area(self, scores: Tensor, truth: Tensor) -> Tensor | None:
        """The area for `[n]` scores in 0..1 and `[n]` zeros and ones; None if there is none."""
        raise NotImplementedError(f"{type(self).__name__} does not define area(scores, truth)")

    def update(
        self, predictions: Tensor, targets: Tensor, *, logits: bool = False, class_dim: int | None = None
    ) -> None:
        """Take `[n, ..., classes]` floats, or `[n, classes, ...]` with `class_dim` 1, and zeros and ones of this shape
        or integers of this shape without the classes: the class of each.

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
        areas = [
            self.area(_ranks(column[is_class != _UNKNOWN]), is_class[is_class != _UNKNOWN].long())
            for column, is_class in zip(scores.view(-1, columns).T, truth.view(-1, columns).T, strict=True)
        ]
        percents = [100 * it.double() for it in areas if it is not None]
        return torch.stack(percents).mean() if percents else torch.full_like(scores[0], _CHANCE, dtype=torch.float64)


class Auroc(_Area[configs.AurocConfig], of=configs.AurocConfig):
    """Area under the ROC curve: how often a positive item has the higher score of two, ties counted half, in percent.

    A class has one if it has positive and negative items (Hanley & McNeil 1982).
    """

    title = "AUROC [{class_reduction}]"

    def area(self, scores: Tensor, truth: Tensor) -> Tensor | None:
        return binary_auroc(scores, truth, validate_args=False) if 0 < int(truth.sum()) < len(truth) else None


class AucPr(_Area[configs.AucPrConfig], of=configs.AucPrConfig):
    """Average precision: the sum over all thresholds of precision * increase of recall, in percent.

    A class has one if it has positive items. Equal scores are one threshold.
    """

    title = "AUC-PR [{class_reduction}]"

    def area(self, scores: Tensor, truth: Tensor) -> Tensor | None:
        return binary_average_precision(scores, truth, validate_args=False) if int(truth.sum()) else None


def _ranks(scores: Tensor) -> Tensor:
    """Numbers in 0..1 with the order and the ties of the scores.

    torchmetrics takes the sigmoid of numbers outside of 0..1, which makes large ones equal.
    """
    ranks = scores.unique(return_inverse=True)[1].double()
    return ranks / ranks.max().clamp(min=1) if len(ranks) else ranks
