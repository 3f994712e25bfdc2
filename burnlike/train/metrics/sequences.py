"""Metrics of sequences of tokens and of spans, which are compared at the end of an epoch, on the CPU.

Edits, n-grams and subsequences are counted by torchmetrics. It takes text, so tokens become words of digits; its floats
have 32 bits, so only whole numbers are taken of it, and the values are computed here in float64.
"""

import math
from collections.abc import Iterator
from itertools import takewhile
from typing import Any

import torch
from torch import Tensor
from torchmetrics.text import BLEUScore, ROUGEScore, WordErrorRate as TorchWordErrorRate

from ...data.configs import NO_TARGET
from ...errors import ConfigError, ShapeError
from ...ops.cross_entropy import check_targets
from . import configs
from .base import ConfiguredMetric, expect, shape_error
from .outputs import spans_of

Sequences = list[list[int]]


class TokenMetric(ConfiguredMetric, unit="%"):
    """A metric of `[n, length]` tokens, integers; predictions and targets may differ in length.

    The list `tokens` has for each batch n, the two lengths, then all predictions and all targets.
    """

    tokens: list[Tensor]

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.padding = {NO_TARGET, self.config.pad_token}
        self.add_list("tokens", torch.int64)

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        expect(self, "a tensor", predictions=predictions, targets=targets)
        if predictions.dim() != 2 or targets.dim() != 2 or len(predictions) != len(targets):
            remedy = "; set task.validation_tokens, by which a model writes tokens" if predictions.dim() == 3 else ""
            error = shape_error(self, "predictions [n, length] and targets [n, length]", predictions, targets)
            raise ShapeError(f"{error}{remedy}")
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


class _ErrorRate(TokenMetric):
    """100 * (substitutions + deletions + insertions) / tokens of the targets (Levenshtein 1966).

    Pad tokens count nowhere, also between others.
    """

    def kept(self, tokens: list[int]) -> list[int]:
        return [token for token in tokens if token not in self.padding]

    def compute(self) -> Tensor:
        """The rate in percent, a float64 scalar; NaN if the targets are empty."""
        errors = total = 0.0
        for predictions, targets in self.batches():
            # Tokens of all ranks are here already: a sync of torchmetrics would count them once for each.
            counts = TorchWordErrorRate(sync_on_compute=False)
            counts.update(as_text(predictions), as_text(targets))
            errors += counts.errors.item()
            total += counts.total.item()
        return self.scalar(100 * errors / total if total else math.nan)


class CharErrorRate(_ErrorRate, of=configs.CharErrorRateConfig, title="CER"):
    """Errors for each token of the targets, in percent, where tokens are characters."""


class WordErrorRate(_ErrorRate, of=configs.WordErrorRateConfig, title="WER"):
    """Errors for each token of the targets, in percent, where tokens are words."""


class Bleu(TokenMetric, of=configs.BleuConfig, title="BLEU-{max_n}"):
    """BLEU of all sentences of the epoch together, in percent (Papineni et al. 2002, section 2.3).

    exp(min(0, 1 - r / c)) * (p_1 * ... * p_N)^(1 / N), with the precision p_n of n-grams, and c and r tokens of the
    predictions and of the targets. What is behind the first pad token does not count.
    """

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


class _Rouge(TokenMetric):
    """The mean over all sentences of F1 = 2 * common / (predicted + true), in percent (Lin 2004).

    Two empty sequences have 100. What is behind the first pad token does not count. `key` is torchmetrics' name of it.
    """

    key = ""

    def compute(self) -> Tensor:
        batch_values = [self._f1(predictions, targets) for predictions, targets in self.batches()]
        values = torch.cat([torch.empty(0, dtype=torch.float64), *batch_values])
        return 100 * values.mean().to(self.device)

    def _f1(self, predictions: Sequences, targets: Sequences) -> Tensor:
        if not predictions:
            return torch.empty(0, dtype=torch.float64)
        key, n = self.with_fields(self.key), getattr(self.config, "n", 1)
        rouge = ROUGEScore(rouge_keys=(key,), normalizer=str, tokenizer=str.split, sync_on_compute=False)
        rouge.update(as_text(predictions), as_text(targets))
        rounded = torch.stack([*rouge.metric_state[f"{key}_fmeasure"]]).double()
        ngrams = [sum(max(0, len(it) - n + 1) for it in pair) for pair in zip(predictions, targets, strict=True)]
        sizes = torch.tensor(ngrams).double()
        common = (rounded * sizes / 2).round()  # torchmetrics has F1 in float32, and what is common is a whole number
        return torch.where(sizes == 0, 1.0, 2 * common / sizes)


class RougeL(_Rouge, of=configs.RougeLConfig, title="ROUGE-L", key="rougeL"):
    """F1 of the longest common subsequence, in percent: the mean over all sentences (Lin 2004, section 3.1)."""


class RougeN(_Rouge, of=configs.RougeNConfig, title="ROUGE-{n}", key="rouge{n}"):
    """F1 of common n-grams, in percent: the mean over all sentences (Lin 2004, section 2)."""


_END = -1
"""Stands behind the classes of a sequence."""
_NAN = -2
"""The class of scores of which one is no number."""


class SpanF1(ConfiguredMetric, of=configs.SpanF1Config, title="Span F1", unit="%"):
    """2 * right / (predicted + true) spans of all sequences together, in percent; a span is right where its label,
    start and end are.

    Takes `[n, length, classes]` floats and `[n, length]` integers; tokens without a target are left out. The classes of
    the epoch are kept, and compared at its end.
    """

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.add_list("found", torch.int64)
        self.add_list("true", torch.int64)

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        expect(self, "a tensor", predictions=predictions, targets=targets)
        if predictions.dim() != 3 or targets.shape != predictions.shape[:2]:
            raise shape_error(self, "predictions [n, length, classes] and targets [n, length]", predictions, targets)
        expect(self, "floats", predictions=predictions)
        expect(self, "integers", targets=targets)
        classes = self.config.classes
        if classes is None:
            raise ConfigError("SpanF1: expected the tags by their numbers in `classes`; this data has no names")
        if predictions.shape[2] != len(classes):
            raise ShapeError(f"SpanF1: expected {len(classes)} classes, as many as names, got {predictions.shape[2]}")
        check_targets("SpanF1", targets.long(), len(classes), NO_TARGET)
        self.follow(predictions)
        end = targets.new_full((len(targets), 1), _END).long()
        best = torch.where(predictions.isnan().any(), _NAN, predictions.argmax(2))
        states: Any = self  # `found` and `true` are their names in checkpoints
        states.found.append(torch.cat([best, end], 1).flatten())
        states.true.append(torch.cat([targets.long(), end], 1).flatten())

    def compute(self) -> Tensor:
        right = spans = 0
        if (self.joined("found") == _NAN).any():
            return torch.full((), torch.nan, dtype=torch.float64, device=self.device)
        names: Any = self.config.classes
        rows: tuple[list[str], list[str]] = ([], [])
        for best, true in zip(self.joined("found").tolist(), self.joined("true").tolist(), strict=True):
            if true == _END:
                predicted, expected = (spans_of(row) for row in rows)
                right += len({*predicted} & {*expected})
                spans += len(predicted) + len(expected)
                rows = ([], [])
            elif true != NO_TARGET:
                rows[0].append(names[best])
                rows[1].append(names[true])
        value = 200 * right / spans if spans else float("nan")
        return torch.tensor(value, dtype=torch.float64, device=self.device)
