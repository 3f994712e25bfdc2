"""Areas under curves over all thresholds, of the scores of a whole epoch."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from ...errors import ShapeError
from .base import EpochMetric
from .configs import AucPrConfig, AurocConfig
from .inputs import scores_and_truth

_CHANCE = 50.0


class _Area(EpochMetric):
    """An area under a curve, in percent; 50 if no class has one.

    It keeps the scores of the epoch in float32, and the targets in a byte for each score.
    """

    unit = "%"
    higher_is_better = AurocConfig.higher_is_better
    classes: Tensor
    scores: list[Tensor]
    truth: list[Tensor]

    def __init__(self, label: str, config: AurocConfig | AucPrConfig) -> None:
        super().__init__(config.name or f"{label} [{config.class_reduction}]")
        self.config = config
        self.add_list("scores", torch.float32)
        self.add_list("truth", torch.uint8)
        self.add_state("classes", torch.zeros((), dtype=torch.int64), dist_reduce_fx="max")
        self._seen: int | None = None

    def area(self, scores: Tensor, truth: Tensor) -> Tensor | None:
        """The area for `[n]` scores in 0..1 and `[n]` zeros and ones; None if there is none."""
        raise NotImplementedError(f"{type(self).__name__} does not define area(scores, truth)")

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        """Take a batch.

        Args:
            predictions: `[n, ..., classes]` floats, or `[n, classes, ...]` with `class_dim` 1.
            targets: zeros and ones of this shape, or integers of this shape without the classes: the class of each.

        Raises:
            ShapeError: predictions and targets don't fit each other, or earlier batches.
            DTypeError: predictions are no floats, or classes no integers.
        """
        scores, truth = scores_and_truth(self, predictions, targets, self.config.class_dim)
        if self._seen not in (None, scores.shape[1]):
            raise ShapeError(
                f"{type(self).__name__}: expected {self._seen} classes, as in earlier batches, got {scores.shape[1]}"
            )
        self.follow(predictions)
        self._seen = scores.shape[1]
        self.classes = torch.full_like(self.classes, scores.shape[1])
        self.scores.append(scores.flatten().to(torch.float32, copy=True))
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
        found = [
            self.area(_ranks(column), is_class.long())
            for column, is_class in zip(scores.view(-1, columns).T, truth.view(-1, columns).T, strict=True)
        ]
        areas = [100 * it.double() for it in found if it is not None]
        return torch.stack(areas).mean() if areas else torch.full_like(scores[0], _CHANCE, dtype=torch.float64)


class Auroc(_Area):
    """Area under the ROC curve: how often a positive item has the higher score of two, ties counted half, in percent.

    A class has one if it has positive and negative items (Hanley & McNeil 1982).
    """

    def __init__(self, config: AurocConfig | None = None) -> None:
        super().__init__("AUROC", config or AurocConfig())

    def area(self, scores: Tensor, truth: Tensor) -> Tensor | None:
        return _area(binary_auroc, scores, truth) if 0 < int(truth.sum()) < len(truth) else None


class AucPr(_Area):
    """Average precision: the sum over all thresholds of precision * increase of recall, in percent.

    A class has one if it has positive items. Equal scores are one threshold.
    """

    def __init__(self, config: AucPrConfig | None = None) -> None:
        super().__init__("AUC-PR", config or AucPrConfig())

    def area(self, scores: Tensor, truth: Tensor) -> Tensor | None:
        return _area(binary_average_precision, scores, truth) if int(truth.sum()) else None


def _area(area: Callable[..., Any], scores: Tensor, truth: Tensor) -> Tensor:
    return area(scores, truth, validate_args=False)


def _ranks(scores: Tensor) -> Tensor:
    """Numbers in 0..1 with the order and the ties of the scores.

    torchmetrics takes the sigmoid of numbers outside of 0..1, which makes large ones equal.
    """
    ranks = scores.unique(return_inverse=True)[1].double()
    return ranks / ranks.max().clamp(min=1)
