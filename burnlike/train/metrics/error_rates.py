"""Error rates of recognized speech and text."""

import math

from torch import Tensor
from torchmetrics.text import WordErrorRate as TorchWordErrorRate

from .configs import CharErrorRateConfig, WordErrorRateConfig
from .sequences import TokenMetric, as_text


class _ErrorRate(TokenMetric):
    """100 * (substitutions + deletions + insertions) / tokens of the targets (Levenshtein 1966).

    Pad tokens count nowhere, also between others.
    """

    higher_is_better = CharErrorRateConfig.higher_is_better

    def kept(self, tokens: list[int]) -> list[int]:
        """A sequence without its pad tokens."""
        return [token for token in tokens if token != self.pad_token]

    def compute(self) -> Tensor:
        """The rate in percent, a float64 scalar; NaN if the targets are empty."""
        errors = total = 0.0
        for predictions, targets in self.batches():
            counts = TorchWordErrorRate(sync_on_compute=False)
            counts.update(as_text(predictions), as_text(targets))
            errors += counts.errors.item()
            total += counts.total.item()
        return self.scalar(100 * errors / total if total else math.nan)


class CharErrorRate(_ErrorRate):
    """Errors for each token of the targets, in percent, where tokens are characters."""

    def __init__(self, config: CharErrorRateConfig | None = None) -> None:
        found = config or CharErrorRateConfig()
        super().__init__(found.name or "CER", found.pad_token)


class WordErrorRate(_ErrorRate):
    """Errors for each token of the targets, in percent, where tokens are words."""

    def __init__(self, config: WordErrorRateConfig | None = None) -> None:
        found = config or WordErrorRateConfig()
        super().__init__(found.name or "WER", found.pad_token)
