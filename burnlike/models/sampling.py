"""The choice of the next token from logits: what is penalized, what is left out, and the draw."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

import torch
from torch import Tensor

from ..errors import ArgumentError, ShapeError

COLDEST = 1e-30
"""A temperature below this takes the likeliest token: the logits divided by it would be no float32."""

LogitsProcessor = Callable[[Tensor, Tensor], Tensor]
"""Function of the tokens so far, int64 `[batch, n]`, and the logits `[batch, vocab_size]`, that gives new logits."""


class SamplingOptions(TypedDict, total=False):
    """The options of a draw, in the order in which they change the logits; none of them does by default.

    Attributes:
        logit_bias: number added to the logit of a token; -inf leaves the token out.
        repetition_penalty: logits of tokens in the prompt or the text are divided by it, negative ones multiplied
            (Keskar et al. 2019, section 4.1).
        presence_penalty: subtracted from the logit of each token that was added.
        frequency_penalty: subtracted from it as often as it was added.
        no_repeat_ngram: tokens that would end a run of so many tokens that is there already are left out.
        logits_processor: changes the logits after all of these: one of transformers, or of a library of grammars.
        temperature: divides the logits; 0 takes the likeliest token.
        top_k: how many of the likeliest tokens are drawn from.
        top_p: the likeliest tokens that together have this probability are drawn from (Holtzman et al. 2020, section
            3.1), the first of them in any case.
        min_p: tokens less probable than this share of the likeliest one's probability are left out (Nguyen et al.
            2024).
        typical_p: the tokens whose information is nearest to the entropy, and that together have this probability, are
            drawn from (Meister et al. 2022).
        generator: of the draws; None for torch's.
    """

    logit_bias: Mapping[int, float]
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    no_repeat_ngram: int | None
    logits_processor: LogitsProcessor | None
    temperature: float
    top_k: int | None
    top_p: float | None
    min_p: float | None
    typical_p: float | None
    generator: torch.Generator | None


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Draws of next tokens with fixed options; see `SamplingOptions`.

    Raises:
        ArgumentError: an option is outside of its range.
    """

    logit_bias: Mapping[int, float] = field(default_factory=dict)
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    no_repeat_ngram: int | None = None
    logits_processor: LogitsProcessor | None = None
    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    typical_p: float | None = None
    generator: torch.Generator | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise ArgumentError(f"temperature: expected a finite number, 0 or more, got {self.temperature}")
        if not all(bias < math.inf for bias in self.logit_bias.values()):
            raise ArgumentError(f"logit_bias: expected finite numbers or -inf, got {dict(self.logit_bias)}")
        for name in ("presence_penalty", "frequency_penalty"):
            if not math.isfinite(value := getattr(self, name)):
                raise ArgumentError(f"{name}: expected a finite number, got {value}")
        if not 0 < self.repetition_penalty < math.inf:
            raise ArgumentError(f"repetition_penalty: expected more than 0, got {self.repetition_penalty}")
        for name in ("top_k", "no_repeat_ngram"):
            if (count := getattr(self, name)) is not None and count < 1:
                raise ArgumentError(f"{name}: expected 1 or more, got {count}")
        for name in ("top_p", "min_p", "typical_p"):
            if (share := getattr(self, name)) is not None and not 0 < share <= 1:
                raise ArgumentError(f"{name}: expected more than 0 and at most 1, got {share}")

    @property
    def reads_tokens(self) -> bool:
        """True if a draw depends on the tokens so far, and not on the logits alone."""
        penalizes = (self.repetition_penalty, self.presence_penalty, self.frequency_penalty) != (1.0, 0.0, 0.0)
        return penalizes or self.no_repeat_ngram is not None or self.logits_processor is not None

    def draw(
        self, logits: Tensor, tokens: Tensor | None = None, prompt_length: int = 0, ended: Tensor | None = None
    ) -> Tensor:
        """Draw a token for each row of `[batch, vocab_size]`, int64 `[batch]` on the device of the logits.

        Args:
            tokens: those so far, int64 `[batch, n]`; needed where `reads_tokens`.
            prompt_length: how many of them are the prompt's.
            ended: bool `[batch]`, True for rows whose token is not used: a grammar may leave nothing to draw from.
        """
        device, logits = logits.device, self._prepared(logits, tokens, prompt_length)
        if self.temperature < COLDEST:
            return logits.argmax(-1).to(device)
        return _drawn(self._drawn_from(logits), self.generator, ended).to(device)

    def probabilities(self, logits: Tensor, tokens: Tensor | None = None, prompt_length: int = 0) -> Tensor:
        """The probability with which `draw` takes each token, float32 `[batch, vocab_size]`, where it draws."""
        logits = self._prepared(logits, tokens, prompt_length)
        if self.temperature < COLDEST:
            return torch.zeros_like(logits, dtype=torch.float32).scatter_(-1, logits.argmax(-1, keepdim=True), 1)
        return self._drawn_from(logits).softmax(-1)

    def _prepared(self, logits: Tensor, tokens: Tensor | None, prompt_length: int) -> Tensor:
        """The logits after what changes them, on the generator's device."""
        if tokens is None and self.reads_tokens:
            raise ArgumentError("expected the tokens so far, which penalties and the logits_processor read; got none")
        draws_on = logits.device if self.generator is None else self.generator.device
        logits = logits.to(draws_on)
        if self.logit_bias or self.reads_tokens:
            return self.changed(logits.float(), None if tokens is None else tokens.to(draws_on), prompt_length)
        return logits

    def changed(self, logits: Tensor, tokens: Tensor | None, prompt_length: int) -> Tensor:
        """Logits, or log-probabilities, after the bias, the penalties and the processor; arguments as of `draw`."""
        if self.logit_bias:
            if (least := min(self.logit_bias)) < 0 or max(self.logit_bias) >= logits.shape[-1]:
                got = least if least < 0 else max(self.logit_bias)
                raise ArgumentError(f"logit_bias: expected tokens of 0 to {logits.shape[-1] - 1}, got {got}")
            places = torch.tensor([*self.logit_bias], device=logits.device)
            biases = torch.tensor([*self.logit_bias.values()], dtype=logits.dtype, device=logits.device)
            logits = logits.index_add(-1, places, biases.expand(len(logits), -1))
        if tokens is None or not self.reads_tokens:
            return logits
        if self.repetition_penalty != 1:
            score = logits.gather(-1, tokens)
            by = self.repetition_penalty
            logits = logits.scatter(-1, tokens, torch.where(score < 0, score * by, score / by))
        if self.no_repeat_ngram is not None:
            logits = logits.masked_fill(_ends_of_runs(tokens, self.no_repeat_ngram, logits.shape[-1]), -torch.inf)
        if self.presence_penalty or self.frequency_penalty:
            added = tokens[:, prompt_length:]
            counts = torch.zeros_like(logits).scatter_add(-1, added, torch.ones_like(added, dtype=logits.dtype))
            logits = logits - self.presence_penalty * (counts > 0) - self.frequency_penalty * counts
        if self.logits_processor is not None:
            shape, logits = logits.shape, self.logits_processor(tokens, logits)
            if not isinstance(logits, Tensor) or logits.shape != shape:
                got = list(logits.shape) if isinstance(logits, Tensor) else type(logits).__name__
                raise ShapeError(f"logits_processor: expected logits of {list(shape)}, got {got}")
        return logits

    def _drawn_from(self, logits: Tensor) -> Tensor:
        """Logits divided by the temperature, -inf for tokens that are left out."""
        scores = logits.float()
        if self.temperature != 1:
            # The largest is 0, so that nothing overflows.
            scores = (scores - scores.amax(-1, keepdim=True)) / self.temperature
        if self.top_k is not None and self.top_k < scores.shape[-1]:
            scores = scores.masked_fill(scores < scores.topk(self.top_k, -1).values[..., -1:], -torch.inf)
        if self.top_p is not None:
            ordered, places = scores.sort(-1, descending=True)
            probabilities = ordered.softmax(-1)
            before = probabilities.cumsum(-1) - probabilities
            left_out = before >= self.top_p
            left_out[..., 0] = False
            scores = scores.masked_fill(left_out.scatter(-1, places, left_out), -torch.inf)
        if self.min_p is not None:
            probabilities = scores.softmax(-1)
            scores = scores.masked_fill(probabilities < self.min_p * probabilities.amax(-1, keepdim=True), -torch.inf)
        if self.typical_p is not None:
            logs = scores.log_softmax(-1)
            entropy = -(logs * logs.exp()).nansum(-1, keepdim=True)
            ordered, places = (-logs - entropy).abs().sort(-1)
            probabilities = logs.exp().gather(-1, places)
            left_out = probabilities.cumsum(-1) - probabilities >= self.typical_p
            # Those as far from the entropy as the last that is kept stay as well.
            last = (~left_out).sum(-1, keepdim=True) - 1
            left_out = ordered > ordered.gather(-1, last)
            scores = scores.masked_fill(left_out.scatter(-1, places, left_out), -torch.inf)
        return scores


def _drawn(scores: Tensor, generator: torch.Generator | None, ended: Tensor | None) -> Tensor:
    """A token for each row of scores `[batch, vocab_size]`, with the probabilities of their softmax.

    It takes one random number for each row, where `torch.multinomial` takes one for each score: the first token whose
    probability, added to those before it, is above the number.
    """
    # In float32 the sum over a large vocabulary is off by more than a rare token has.
    sums = scores.softmax(-1).cumsum(-1, dtype=torch.float64)
    total = sums[:, -1:]
    # Of NaN it would be a token behind the last. A GPU is not waited for.
    if total.device.type == "cpu" and total.isnan().any():
        used = total if ended is None else total[~ended.to(total.device)]
        if used.isnan().any():
            raise ArgumentError("expected logits to draw from in each row, got NaN, infinity, or -inf for all tokens")
    drawn = torch.rand(len(sums), 1, dtype=torch.float64, device=sums.device, generator=generator) * total
    # Rounded up to the total it would be behind the last token.
    drawn = drawn.minimum(total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(sums, drawn, right=True).squeeze(-1)


def sampler_of(options: Mapping[str, Any]) -> Sampler:
    """A Sampler with those of the options that are of draws."""
    return Sampler(**{name: value for name, value in options.items() if name in SamplingOptions.__annotations__})


def next_tokens(
    logits: Tensor, tokens: Tensor | None = None, prompt_length: int = 0, **options: Unpack[SamplingOptions]
) -> Tensor:
    """Draw a token for each row of `[batch, vocab_size]`, int64 `[batch]`; see `SamplingOptions`.

    Args:
        tokens: those so far, int64 `[batch, n]`, for penalties and the logits_processor.
        prompt_length: how many of them are the prompt's.
        options: without a temperature it is 1.
    """
    return Sampler(**{"temperature": 1.0, **options}).draw(logits, tokens, prompt_length)


def _ends_of_runs(tokens: Tensor, size: int, vocab_size: int) -> Tensor:
    """bool `[batch, vocab_size]`: tokens that would end a run of `size` tokens that each row has already."""
    banned = torch.zeros(len(tokens), vocab_size, dtype=torch.bool, device=tokens.device)
    if tokens.shape[1] < size:
        return banned
    runs = tokens.unfold(1, size, 1)
    last = tokens[:, tokens.shape[1] - size + 1 :]
    is_same = (runs[..., :-1] == last[:, None]).all(-1)
    rows = torch.arange(len(tokens), device=tokens.device)[:, None].expand_as(is_same)
    banned[rows[is_same], runs[..., -1][is_same]] = True
    return banned
