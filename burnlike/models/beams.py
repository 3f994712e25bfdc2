"""Search with beams for the likeliest texts after prompts, by the rules of transformers' `generate`."""

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn

from ..errors import ArgumentError
from .generation import Completions, GenerateOptions, Reader, in_evaluation
from .sampling import sampler_of

_NEVER = -1e9
"""The score of what is not to be chosen."""


@dataclass(frozen=True, kw_only=True)
class Beams:
    """A search that goes on with the `num_beams` likeliest texts of each prompt at each step.

    Attributes:
        length_penalty: the sum of a text's log-probabilities is divided by its length to this power; more than 0 is
            for longer texts.
        early_stopping: when the search of a prompt ends, after as many texts have: True for at once; False if the
            likeliest one that goes on is worse, at its length now; "never" if it is at any length.
    """

    num_beams: int
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False

    def __post_init__(self) -> None:
        if self.num_beams < 1:
            raise ArgumentError(f"num_beams: expected 1 or more, got {self.num_beams}")
        if self.early_stopping not in (True, False, "never"):
            raise ArgumentError(f"early_stopping: expected True, False or 'never', got {self.early_stopping!r}")

    def check(self, n_samples: int, options: GenerateOptions) -> None:
        """Raise an ArgumentError for options that a search does not have."""
        if n_samples > self.num_beams:
            raise ArgumentError(f"n_samples: expected at most the {self.num_beams} of num_beams, got {n_samples}")
        if temperature := options.get("temperature"):
            raise ArgumentError(f"temperature: expected 0 with num_beams, as a search draws nothing, got {temperature}")

    @torch.no_grad()
    def search(
        self, model: nn.Module, reader: Reader, max_new_tokens: int, n_samples: int, **options: Any
    ) -> Completions:
        """The `n_samples` best texts of each prompt, of a reader that has each `num_beams` times."""
        if max_new_tokens < 1:
            raise ArgumentError(f"max_new_tokens: expected 1 or more with num_beams, got {max_new_tokens}")
        if reader.reorder is None:
            raise ArgumentError(f"num_beams: the reader of {type(model).__name__} has no reorder, which a search needs")
        width, tokens = self.num_beams, reader.first
        sampler, prompt_length = sampler_of(options), tokens.shape[1]
        stops, stop_when = {*options.get("stop_tokens", ())}, options.get("stop_when")
        next_logits = reader.next_between(sampler, stop_when)
        searches = [_Search(self) for _ in range(len(tokens) // width)]
        scores = torch.full((len(tokens), 1), _NEVER, device=tokens.device)
        scores[::width] = 0  # the beams of a prompt are equal at first
        last = tokens
        with in_evaluation(model):
            for length in range(1, max_new_tokens + 1):
                logs = next_logits(last).float().log_softmax(-1)
                summed = sampler.changed(logs, tokens, prompt_length) + scores
                # As many as in transformers: with each stop token among the likeliest, `num_beams` still go on.
                count = min(width * max(2, 1 + len(stops)), width * summed.shape[1])
                best, places = summed.view(len(searches), -1).topk(count)
                first_rows = torch.arange(0, len(tokens), width, device=tokens.device)[:, None]
                rows, added = places // summed.shape[1] + first_rows, places % summed.shape[1]
                is_end = torch.isin(added, torch.tensor([*stops], dtype=torch.int64, device=tokens.device))
                if stop_when is not None:
                    texts = torch.cat((tokens[rows.flatten()], added.view(-1, 1)), 1)[:, prompt_length:]
                    is_end |= stop_when(texts).to(tokens.device).view_as(is_end)
                chosen: list[_Candidate] = []
                # As lists: each number read by itself would wait for the GPU.
                facts = (best.tolist(), rows.tolist(), added.tolist(), is_end.tolist())
                for search, *columns in zip(searches, *facts, strict=True):
                    candidates = [_Candidate(*it) for it in zip(*columns, strict=True)]
                    chosen += search.step(candidates, tokens[:, prompt_length:], length, max_new_tokens)
                kept = torch.tensor([it.row for it in chosen], device=tokens.device)
                last = torch.tensor([[it.token] for it in chosen], device=tokens.device)
                scores = torch.tensor([[it.score] for it in chosen], device=tokens.device)
                tokens = torch.cat((tokens[kept], last), 1)
                if all(it.is_over for it in searches):
                    break
                reader.reorder(kept)
        texts = [text for search in searches for text in search.ended[:n_samples]]
        return _completions(texts, tokens, options.get("pad_token", 0))


@dataclass(frozen=True)
class _Candidate:
    """A text that is one token longer than that of a row, by the sum of its log-probabilities."""

    score: float
    row: int
    token: int
    is_end: bool


@dataclass(frozen=True)
class _Text:
    """A text that has ended, or that `max_new_tokens` cut off."""

    score: float
    tokens: Tensor
    finished: bool


@dataclass
class _Search:
    """The search of one prompt: the texts that have ended, the best first."""

    beams: Beams
    ended: list[_Text] = field(default_factory=list)
    is_over: bool = False

    def step(self, candidates: list[_Candidate], texts: Tensor, length: int, longest: int) -> list[_Candidate]:
        """Take up texts of `length` that end, and give those that go on; candidates come the best first."""
        width, penalty = self.beams.num_beams, self.beams.length_penalty
        is_last = length == longest
        if not self.is_over:
            for candidate in candidates[:width]:
                if candidate.is_end or is_last:
                    tokens = torch.cat((texts[candidate.row], texts.new_tensor([candidate.token])))
                    self.ended.append(_Text(candidate.score / length**penalty, tokens, candidate.is_end))
            self.ended = sorted(self.ended, key=lambda text: -text.score)[:width]
        going = [it for it in candidates if not it.is_end][:width]
        # The batch keeps its rows: those that are lacking get a score with which none is chosen.
        going += [_Candidate(_NEVER, it.row, it.token, False) for it in candidates if it.is_end][: width - len(going)]
        if len(self.ended) == width:
            reach = longest if self.beams.early_stopping == "never" and penalty > 0 else length
            is_worse = going[0].score / reach**penalty <= self.ended[-1].score
            self.is_over |= is_worse or self.beams.early_stopping is True
        self.is_over |= is_last
        return going


def _completions(texts: list[_Text], like: Tensor, pad_token: int) -> Completions:
    lengths = torch.tensor([len(text.tokens) for text in texts], device=like.device)
    tokens = nn.utils.rnn.pad_sequence([text.tokens for text in texts], batch_first=True, padding_value=pad_token)
    finished = torch.tensor([text.finished for text in texts], device=like.device)
    return Completions(tokens, lengths, finished, torch.tensor([text.score for text in texts], device=like.device))
