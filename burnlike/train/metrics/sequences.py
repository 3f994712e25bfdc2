"""Metrics of sequences of tokens, which are compared at the end of an epoch, on the CPU."""

import math
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, TypeVar

import torch
from torch import Tensor
from torchmetrics.text import BLEUScore, ROUGEScore, WordErrorRate as TorchWordErrorRate

from ...data.configs import NO_TARGET
from .base import ConfiguredMetric, expect, shape_error
from .configs import (
    BleuConfig,
    CharErrorRateConfig,
    RougeLConfig,
    RougeNConfig,
    WordErrorRateConfig,
    _TokensConfig,
)

Sequences = list[list[int]]
Tokens = TypeVar("Tokens", bound=_TokensConfig[Any])


class TokenMetric(ConfiguredMetric[Tokens]):
    """A metric of `[n, length]` tokens, integers; predictions and targets may differ in length.

    The list `tokens` has for each batch n, the two lengths, then all predictions and all targets.
    """

    unit = "%"
    tokens: list[Tensor]

    def __init__(self, config: Tokens | None = None) -> None:
        super().__init__(config)
        self.padding = {NO_TARGET, self.config.pad_token}
        self.add_list("tokens", torch.int64)

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        expect(self, "a tensor", predictions=predictions, targets=targets)
        if predictions.dim() != 2 or targets.dim() != 2 or len(predictions) != len(targets):
            raise shape_error(self, "predictions [n, length] and targets [n, length]", predictions, targets)
        expect(self, "integers", predictions=predictions, targets=targets)
        self.follow(predictions)
        sizes = (*predictions.shape, targets.shape[1])
        header = [torch.full((1,), size, dtype=torch.int64, device=predictions.device) for size in sizes]
        self.tokens.append(torch.cat([*header, predictions.flatten().long(), targets.flatten().long()]))

    def kept(self, tokens: list[int]) -> list[int]:
        """A sequence up to its first pad token."""
        return [*takewhile(lambda token: token not in self.padding, tokens)]

    def batches(self) -> Iterator[tuple[Sequences, Sequences]]:
        """The predicted and the true sequences of each batch, without padding."""
        tokens, start = self.joined("tokens").tolist(), 0
        while start < len(tokens):
            n, *lengths = tokens[start : start + 3]
            start += 3
            pair: list[Sequences] = []
            for length in lengths:
                rows = [tokens[at : at + length] for at in range(start, start + n * length, length or 1)]
                pair.append([self.kept(row) for row in rows] if length else [[] for _ in range(n)])
                start += n * length
            yield pair[0], pair[1]

    def scalar(self, value: float) -> Tensor:
        return torch.tensor(value, dtype=torch.float64, device=self.device)


def as_text(sequences: Sequences) -> list[str]:
    """Sequences as torchmetrics takes them: tokens as words."""
    return [" ".join(map(str, tokens)) for tokens in sequences]


class _ErrorRate(TokenMetric[Tokens]):
    """100 * (substitutions + deletions + insertions) / tokens of the targets (Levenshtein 1966).

    Pad tokens count nowhere, also between others.
    """

    def kept(self, tokens: list[int]) -> list[int]:
        return [token for token in tokens if token not in self.padding]

    def compute(self) -> Tensor:
        """The rate in percent, a float64 scalar; NaN if the targets are empty."""
        errors = total = 0.0
        for predictions, targets in self.batches():
            counts = TorchWordErrorRate(sync_on_compute=False)
            counts.update(as_text(predictions), as_text(targets))
            errors += counts.errors.item()
            total += counts.total.item()
        return self.scalar(100 * errors / total if total else math.nan)


class CharErrorRate(_ErrorRate[CharErrorRateConfig], of=CharErrorRateConfig):
    """Errors for each token of the targets, in percent, where tokens are characters."""

    title = "CER"


class WordErrorRate(_ErrorRate[WordErrorRateConfig], of=WordErrorRateConfig):
    """Errors for each token of the targets, in percent, where tokens are words."""

    title = "WER"


class Bleu(TokenMetric[BleuConfig], of=BleuConfig):
    """BLEU of all sentences of the epoch together, in percent (Papineni et al. 2002, section 2.3).

    exp(min(0, 1 - r / c)) * (p_1 * ... * p_N)^(1 / N), with the precision p_n of n-grams, and c and r tokens of the
    predictions and of the targets. What is behind the first pad token does not count.
    """

    title = "BLEU-{max_n}"

    def compute(self) -> Tensor:
        n = self.config.max_n
        matches, ngrams = torch.zeros(2, n, dtype=torch.float64)
        predicted = true = 0.0
        sentences = 0
        for predictions, targets in self.batches():
            counts = BLEUScore(n_gram=n, sync_on_compute=False)
            counts.update(as_text(predictions), [[text] for text in as_text(targets)])
            matches += counts.numerator
            ngrams += counts.denominator
            predicted += counts.preds_len.item()
            true += counts.target_len.item()
            sentences += len(predictions)
        if not sentences:
            return self.scalar(math.nan)
        precisions = self._precisions(matches.tolist(), ngrams.tolist())
        if not predicted or not all(precisions):
            return self.scalar(0.0)
        brevity = math.exp(min(0.0, 1 - true / predicted))
        return self.scalar(100 * brevity * math.exp(sum(map(math.log, precisions)) / n))

    def _precisions(self, matches: list[float], ngrams: list[float]) -> list[float]:
        precisions, halved = [], 1.0
        for matched, counted in zip(matches, ngrams, strict=True):
            if not matched and self.config.smoothing == "epsilon":
                matched = self.config.epsilon
            elif not matched and self.config.smoothing == "exponential":  # method 3 of Chen & Cherry 2014
                halved /= 2
                matched = halved
            precisions.append(matched / counted if counted else 0.0)
        return precisions


class _Rouge(TokenMetric[Tokens]):
    """The mean over all sentences of F1 = 2 * common / (predicted + true), in percent (Lin 2004).

    Two empty sequences have 100. What is behind the first pad token does not count.
    """

    _key, _n = "rougeL", 1

    def compute(self) -> Tensor:
        batch_values = [self._f1(predictions, targets) for predictions, targets in self.batches()]
        values = torch.cat([torch.empty(0, dtype=torch.float64), *batch_values])
        return 100 * values.mean().to(self.device)

    def _f1(self, predictions: Sequences, targets: Sequences) -> Tensor:
        if not predictions:
            return torch.empty(0, dtype=torch.float64)
        rouge = ROUGEScore(rouge_keys=(self._key,), normalizer=str, tokenizer=str.split, sync_on_compute=False)
        rouge.update(as_text(predictions), as_text(targets))
        rounded = torch.stack([*rouge.metric_state[f"{self._key}_fmeasure"]]).double()
        pairs = zip(predictions, targets, strict=True)
        sizes = torch.tensor([[self._units(one), self._units(other)] for one, other in pairs]).sum(1).double()
        common = (rounded * sizes / 2).round()  # torchmetrics has F1 in float32, and what is common is a whole number
        return torch.where(sizes == 0, 1.0, 2 * common / sizes)

    def _units(self, tokens: list[int]) -> int:
        return max(0, len(tokens) - self._n + 1)


class RougeL(_Rouge[RougeLConfig], of=RougeLConfig):
    """F1 of the longest common subsequence, in percent: the mean over all sentences (Lin 2004, section 3.1)."""

    title = "ROUGE-L"


class RougeN(_Rouge[RougeNConfig], of=RougeNConfig):
    """F1 of common n-grams, in percent: the mean over all sentences (Lin 2004, section 2)."""

    title = "ROUGE-{n}"

    def __init__(self, config: RougeNConfig | None = None) -> None:
        super().__init__(config)
        self._key, self._n = f"rouge{self.config.n}", self.config.n
