"""Precision, recall, F-score and Hamming score, of the counts of a whole epoch."""

import torch
from torch import Tensor

from .configs import FBetaScoreConfig, HammingConfig, PrecisionConfig, RecallConfig
from .confusion import ClassCounts, DecisionCounts
from .words import number_text


class _Score(DecisionCounts):
    """A fraction of the counts of each class, in percent."""

    unit = "%"
    higher_is_better = PrecisionConfig.higher_is_better

    def fraction(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of `[4, classes]` counts the two sides of the fraction, and what stands for 0 / 0: all `[classes]`."""
        raise NotImplementedError(f"{type(self).__name__} does not define fraction(counts)")

    def compute(self) -> Tensor:
        """The value of all classes together (`Micro`), or the mean of those of the classes that have one (`Macro`)."""
        counts = self.reduced(self.config.class_reduction)
        above, below, otherwise = self.fraction(counts)
        values = torch.where(below == 0, otherwise, above / below)
        return torch.where(counts.sum() == 0, torch.nan, 100 * values.nanmean())


class Precision(_Score):
    """true positives / predicted positives, in percent; 0 for a class that is never predicted."""

    def __init__(self, config: PrecisionConfig | None = None) -> None:
        super().__init__("Precision", config or PrecisionConfig())

    def fraction(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The two sides, and 0."""
        return counts[0], counts[0] + counts[1], torch.zeros_like(counts[0])


class Recall(_Score):
    """true positives / positive targets, in percent; 0 for a class that no target has."""

    def __init__(self, config: RecallConfig | None = None) -> None:
        super().__init__("Recall", config or RecallConfig())

    def fraction(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The two sides, and 0."""
        return counts[0], counts[0] + counts[3], torch.zeros_like(counts[0])


class FBetaScore(_Score):
    """(1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp), in percent (van Rijsbergen 1979).

    A class that is neither predicted nor a target has no value and is left out of the mean.
    """

    def __init__(self, config: FBetaScoreConfig | None = None) -> None:
        found = config or FBetaScoreConfig()
        super().__init__(f"FBetaScore ({number_text(found.beta)})", found)
        self.beta = found.beta

    def fraction(self, counts: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The two sides, and NaN."""
        square = self.beta**2
        above = (1 + square) * counts[0]
        return above, above + square * counts[3] + counts[1], torch.full_like(above, torch.nan)


class Hamming(ClassCounts):
    """How many labels are predicted as they are, in percent: 100 less the Hamming loss."""

    unit = "%"
    higher_is_better = HammingConfig.higher_is_better

    def __init__(self, config: HammingConfig | None = None) -> None:
        found = config or HammingConfig()
        name = found.name or f"Hamming Score @ Threshold({number_text(found.threshold)})"
        super().__init__(name, found.class_dim)
        self.config = found

    def predicted(self, scores: Tensor) -> Tensor:
        """Which labels are predicted, of `[n, labels]` scores: `[n, labels]` bool."""
        return (scores.sigmoid() if self.config.sigmoid else scores) > self.config.threshold

    def compute(self) -> Tensor:
        """(true positives + true negatives) / all, in percent: a float64 scalar."""
        return 100 * (self.counts[0] + self.counts[2]).sum() / self.counts.sum()
