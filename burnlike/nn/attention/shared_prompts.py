"""Attention of answers to the same prompts, each of which is read once for all of its answers.

A row of tokens `[1, n_prompts * prompt + n_answers * answer]` has first all prompts, then the answers to the first one,
those to the second one, and so on. What a prompt computes does not depend on its answers, so that the keys and values
of one serve all of them: an answer sees its prompt and what is before it in itself.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property

import torch
from torch import Tensor

from .attend import attend_visible


class SharedPrompts:
    """The places of prompts and answers in a row of tokens.

    Args:
        lengths: int64 `[n_prompts]`, tokens of each prompt; those behind them fill it up, and nothing sees them.
        prompt: tokens of a prompt that is filled up.
        n_answers: of all prompts, as many of each.
        answer: tokens of an answer that is filled up.
    """

    def __init__(self, lengths: Tensor, prompt: int, n_answers: int, answer: int) -> None:
        self._lengths, self._prompt, self._n_answers, self._answer = lengths, prompt, n_answers, answer
        self._masks: dict[int | None, tuple[Tensor | None, Tensor]] = {}
        self.calls = 0
        """How often something attended."""

    @property
    def longest(self) -> int:
        """Tokens of a prompt with an answer."""
        return self._prompt + self._answer

    @cached_property
    def positions(self) -> Tensor:
        """Places of tokens behind the beginning of their prompt, int64 `[1, all]`."""
        prompts, answers = self._places
        return torch.cat((prompts.expand(len(self._lengths), -1).flatten(), answers.flatten()))[None]

    @property
    def _places(self) -> tuple[Tensor, Tensor]:
        """The positions of a prompt `[prompt]`, and those of answers `[n_answers, answer]`."""
        prompt, answer = (torch.arange(it, device=self._lengths.device) for it in (self._prompt, self._answer))
        return prompt, self._lengths.repeat_interleave(self._copies)[:, None] + answer

    @property
    def _copies(self) -> int:
        return self._n_answers // len(self._lengths)

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        sliding_window: int | None = None,
        soft_cap: float | None = None,
        dropout: float = 0.0,
    ) -> Tensor:
        """As `attend_visible` of a causal model, of the row: `[1, heads, all, d_head] -> [1, all, heads * d_head]`."""
        self.calls += 1
        seen_by_prompts, seen_by_answers = self._visible(sliding_window)
        (query, answer_query), keys, values = map(self._parts, (query, key, value))
        options = {"soft_cap": soft_cap, "dropout": dropout}
        of_prompts = attend_visible(query, keys[0], values[0], seen_by_prompts, **options)
        key, value = (self._behind_prompts(*it) for it in (keys, values))
        of_answers = attend_visible(answer_query, key, value, seen_by_answers, **options)
        return torch.cat((of_prompts.flatten(0, 1), of_answers.flatten(0, 1)))[None]

    def _parts(self, heads: Tensor) -> tuple[Tensor, Tensor]:
        """Heads of the prompts `[n_prompts, heads, prompt, d_head]`, and of the answers `[n_answers, ...]`."""
        rows, n_prompts = heads[0].transpose(0, 1), len(self._lengths)
        prompts, answers = rows.split((n_prompts * self._prompt, self._n_answers * self._answer))
        answers = answers.unflatten(0, (self._n_answers, -1)).transpose(1, 2)
        return prompts.unflatten(0, (n_prompts, -1)).transpose(1, 2), answers

    def _behind_prompts(self, prompts: Tensor, answers: Tensor) -> Tensor:
        """Keys or values of each answer behind those of its prompt, `[n_answers, heads, prompt + answer, d_head]`."""
        copies = prompts[:, None].expand(-1, self._copies, -1, -1, -1)
        return torch.cat((copies, answers.unflatten(0, copies.shape[:2])), 3).flatten(0, 1)

    def _visible(self, window: int | None) -> tuple[Tensor | None, Tensor]:
        """The keys that queries see: of prompts, None for all before, and of answers `[rows, 1, answer, longest]`."""
        if window not in self._masks:
            prompt, answer = self._places
            is_hidden = (prompt >= self._lengths[:, None]).repeat_interleave(self._copies, 0)
            if bool((self._lengths == self._prompt).all()):  # one mask for all
                is_hidden, answer = is_hidden[:1], answer[:1]
            keys = torch.cat((prompt.expand(len(answer), -1), answer), 1)
            distance = answer[:, :, None] - keys[:, None]
            visible = (distance >= 0) & ~torch.nn.functional.pad(is_hidden, (0, self._answer))[:, None]
            of_prompts = None
            if window is not None:
                visible = visible & (distance < window)
                if window < self._prompt:
                    distance = prompt[:, None] - prompt
                    of_prompts = ((distance >= 0) & (distance < window))[None, None]
            self._masks[window] = of_prompts, visible[:, None]
        return self._masks[window]


# A context variable, as the model's own code is between who knows the layout and the attention.
_SHARED: ContextVar[SharedPrompts | None] = ContextVar("shared_prompts", default=None)


def shared_prompts() -> SharedPrompts | None:
    """The layout of the row that the model gets now; None of rows of one text each."""
    return None if torch.compiler.is_compiling() else _SHARED.get()


@contextmanager
def prompts_shared(layout: SharedPrompts) -> Iterator[None]:
    """Let attention take the rows of a model for prompts and their answers within the `with` block.

    Not for a model whose activations are computed again in the backward pass, which is behind the block.
    """
    token = _SHARED.set(layout)
    try:
        yield
    finally:
        _SHARED.reset(token)
