"""Speculative decoding: a small model drafts the next tokens, and the model checks several of them in one pass."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from .generation import in_evaluation, own_reader
from .sampling import Sampler, sampler_of


@dataclass(kw_only=True)
class DraftModel:
    """A small model that drafts tokens for `stream`, of the same vocabulary.

    The texts are those without it: the same tokens at temperature 0, else the same distribution (Leviathan et al.
    2023, algorithm 1). The options of draws change the probabilities of both models.

    Attributes:
        model: a DecoderLm, or a decoder of transformers, as the model that it drafts for.
        n_tokens: how many tokens it drafts at a time.
        proposed, accepted: how many tokens it has drafted so far, and how many of them were right.
    """

    model: nn.Module
    n_tokens: int = 4
    proposed: int = field(default=0, init=False)
    accepted: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.n_tokens < 1:
            raise ArgumentError(f"DraftModel: n_tokens: expected 1 or more, got {self.n_tokens}")

    @torch.no_grad()
    def tokens(
        self, model: nn.Module, prompt: Tensor, max_new_tokens: int, context_length: int | None, **options: Any
    ) -> Iterator[int]:
        """Each token that `model` adds to a prompt `[1, n]`; a stop token is the last one."""
        sampler, stops = sampler_of(options), {*options.get("stop_tokens", ())}
        stop_when, text = options.get("stop_when"), prompt
        target, draft = (_Text(it, prompt, max_new_tokens, context_length) for it in (model, self.model))
        with in_evaluation(model), in_evaluation(self.model):
            while (left := max_new_tokens - (text.shape[1] - prompt.shape[1])) > 0:
                drafted, guesses = text, list[Tensor]()
                # One token less than may come: the model writes one itself behind those that are right.
                for _ in range(min(self.n_tokens, left - 1)):
                    guesses.append(sampler.probabilities(draft.logits(drafted, 1)[:, 0], drafted, prompt.shape[1]))
                    drafted = torch.cat((drafted, _drawn(guesses[-1], sampler).to(text.device)), 1)
                logits = target.logits(drafted, len(guesses) + 1)
                if guesses and guesses[0].shape[-1] != logits.shape[-1]:
                    expected = f"a model of {logits.shape[-1]} tokens, as {type(model).__name__}"
                    raise ArgumentError(f"draft: expected {expected}, got one of {guesses[0].shape[-1]}")
                places = range(text.shape[1], drafted.shape[1] + 1)
                shares = [
                    sampler.probabilities(logits[:, number], drafted[:, :place], prompt.shape[1])
                    for number, place in enumerate(places)
                ]
                added = _kept(sampler, drafted[0, text.shape[1] :].tolist(), guesses, shares)
                self.proposed, self.accepted = self.proposed + len(guesses), self.accepted + len(added) - 1
                for token in added:
                    text = torch.cat((text, text.new_tensor([[token]])), 1)
                    yield token
                    if token in stops or (stop_when is not None and bool(stop_when(text[:, prompt.shape[1] :]))):
                        return


def _kept(sampler: Sampler, drafted: list[int], guesses: list[Tensor], shares: list[Tensor]) -> list[int]:
    """The drafted tokens up to the first that is refused, and the one that the model writes behind them.

    Args:
        guesses, shares: probabilities `[1, vocab_size]` of the draft and of the model, at each place.
    """
    for place, (token, guess, share) in enumerate(zip(drafted, guesses, shares, strict=False)):
        chance = torch.rand((), generator=sampler.generator, device=guess.device)
        if not bool(chance * guess[0, token] < share[0, token]):
            # Where both are equal but for rounding, nothing may be left to draw from.
            rest = (share - guess).clamp(min=0)
            return [*drafted[:place], int(_drawn(rest if bool(rest.any()) else share, sampler))]
    return [*drafted, int(_drawn(shares[-1], sampler))]


class _Text:
    """A model with the text that it has read, of which it forgets the end where another one comes."""

    def __init__(self, model: nn.Module, prompt: Tensor, max_new_tokens: int, context_length: int | None) -> None:
        reader = own_reader(model, prompt, max_new_tokens, context_length)
        if reader is None or reader.every_logits is None or reader.rewind is None:
            raise ArgumentError(f"draft: expected models whose reader can go back, got {type(model).__name__}")
        limits = [it for it in (reader.longest, context_length) if it is not None]
        if limits and prompt.shape[1] + max_new_tokens > min(limits):
            got = f"a prompt of {prompt.shape[1]} and max_new_tokens of {max_new_tokens}"
            raise ArgumentError(f"draft: expected at most {min(limits)} tokens together, got {got}")
        self._next, self._every, self._rewind = reader.next_logits, reader.every_logits, reader.rewind
        self._read = prompt[:, :0]

    def logits(self, text: Tensor, last: int) -> Tensor:
        """The logits after the last tokens of a text `[1, n]`, `[1, last, vocab_size]`."""
        same = min(self._read.shape[1], text.shape[1] - last)
        differs = (self._read[0, :same] != text[0, :same]).nonzero()
        same = int(differs[0]) if len(differs) else same
        if self._read.shape[1] > same:
            self._rewind(self._read.shape[1] - same)
        new, self._read = text[:, same:], text
        if last == 1:
            return self._next(new)[:, None]
        if new.shape[1] > last:  # of a prompt no logits are made but the last
            self._next(new[:, :-last])
        return self._every(new[:, -last:])


def _drawn(shares: Tensor, sampler: Sampler) -> Tensor:
    return torch.multinomial(shares, 1, generator=sampler.generator)
