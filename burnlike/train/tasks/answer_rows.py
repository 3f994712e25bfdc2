"""Prompts with several answers to each, and the log-probabilities of these, for which each prompt is read once."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from ..._torch_compat.modules import is_compiled
from ...data.configs import NO_TARGET
from ...errors import BurnlikeError
from ...interop.fused.heads import lazy_head
from ...models import DecoderLm
from ...module.torch_objects.wrappers import unwrap
from ...nn.attention.shared_prompts import SharedPrompts, prompts_shared
from ..learner.computing import CheckpointedForward
from ..learner.steps import evaluation_mode
from ..parallel.part_of_model import dependence_on_length, sharing_prompts
from .preferences import has_no_values, log_probabilities_of, token_log_probabilities
from .token_batches import logits_and_addition, logits_tolerance


class AnswerRows(NamedTuple):
    """Prompts and as many answers to each, one after the other, filled up on the right.

    Attributes:
        prompts: int64 `[n_prompts, longest]`.
        prompt_lengths: int64 `[n_prompts]`.
        answers: int64 `[n, longest]`.
        answer_lengths: int64 `[n]`.
        counts: bool `[n, longest]`, True where a token of an answer is in the loss.
    """

    prompts: Tensor
    prompt_lengths: Tensor
    answers: Tensor
    answer_lengths: Tensor
    counts: Tensor

    @classmethod
    def of(cls, prompts: Sequence[Tensor], answers: Sequence[Tensor], padding: int = 0) -> "AnswerRows":
        """Fill up prompts and answers `[tokens >= 1]` each; all tokens of answers count."""
        device = prompts[0].device
        lengths = [torch.tensor([*map(len, it)], device=device) for it in (prompts, answers)]
        filled = [
            nn.utils.rnn.pad_sequence([*it], batch_first=True, padding_value=padding) for it in (prompts, answers)
        ]
        counts = torch.arange(filled[1].shape[1], device=device) < lengths[1][:, None]
        return cls(filled[0], lengths[0], filled[1], lengths[1], counts)

    def repeated(self) -> dict[str, Tensor]:
        """The rows `[n, length]` of a batch in which each answer has its prompt before it, padded on the right."""
        copies = len(self.answers) // len(self.prompts)
        begins = self.prompt_lengths.repeat_interleave(copies)[:, None]
        ends = begins + self.answer_lengths[:, None]
        longest = self.prompts.shape[1] + self.answers.shape[1] if has_no_values(ends) else int(ends.max())
        places = torch.arange(longest, device=begins.device).expand(len(begins), -1)
        of_answers = (places - begins).clamp(0, self.answers.shape[1] - 1)
        prompts = self.prompts.repeat_interleave(copies, 0).gather(1, places.clamp(max=self.prompts.shape[1] - 1))
        is_answer = (places >= begins) & (places < ends)
        tokens = torch.where(is_answer, self.answers.gather(1, of_answers), prompts)
        tokens = torch.where(places < ends, tokens, tokens[:, :1])
        labels = tokens.masked_fill(~(is_answer & self.counts.gather(1, of_answers)), NO_TARGET)
        return {"input_ids": tokens, "labels": labels, "attention_mask": (places < ends).long()}


AnswerLogs = tuple[Tensor, Tensor | None]


class AnswerReader:
    """Reads answers by language models: each prompt once where that is found to give what a model gives for each
    answer behind a prompt of its own, which is tried on a few tokens.
    """

    def __init__(self) -> None:
        # By weak references: a model that its program has dropped is not kept in memory by what was tried with it.
        self._share: WeakKeyDictionary[nn.Module, bool] = WeakKeyDictionary()

    def log_probabilities(self, model: nn.Module, rows: AnswerRows, temperature: float = 1.0) -> AnswerLogs:
        """The log-probability of each token that counts, `[n, longest]`, 0 of others, and what a model in training adds
        to its loss; see `token_log_probabilities`.
        """
        if self._shares(model, rows):
            return _shared_log_probabilities(model, rows, temperature)
        return _repeated_log_probabilities(model, rows, temperature)

    def _shares(self, model: nn.Module, rows: AnswerRows) -> bool:
        if has_no_values(rows.answers) or len(rows.answers) == len(rows.prompts) or rows.prompts.shape[1] < 2:
            return False
        module = unwrap(model)
        if not _may_share(module):
            return False
        if module not in self._share:
            self._share[module] = _gives_the_same(module, rows)
        return self._share[module]


def _may_share(module: nn.Module) -> bool:
    """True for a model whose attention can be asked to, and which no wrapper calls again in its backward pass."""
    config: Any = getattr(module, "config", None)
    is_ours = isinstance(module, DecoderLm)
    if not is_ours and not hasattr(config, "get_text_config"):
        return False
    text = config if is_ours else config.get_text_config()
    # What they add to the loss is of all tokens, of a prompt as often as it has answers.
    if getattr(module, "has_balance", False) or getattr(text, "output_router_logits", False):
        return False
    if not is_ours and dependence_on_length(module):
        return False
    return not any(
        is_compiled(it)
        or getattr(it, "gradient_checkpointing", False)
        or isinstance(vars(it).get("forward"), CheckpointedForward)
        or getattr(it, "by_length", False)
        for it in module.modules()
    )


@torch.no_grad()
def _gives_the_same(module: Any, rows: AnswerRows) -> bool:
    """True if some tokens have the same log-probabilities in both ways, and attention is asked in each block."""
    tokens = rows.prompts[0, : int(rows.prompt_lengths[0])].repeat(16)
    prompts, answers = [tokens[:5], tokens[1:4]], [*tokens[2:16].flip(0).split((4, 3, 2, 5))]
    some = AnswerRows.of(prompts, answers)
    layout = _layout_of(some)
    with evaluation_mode(module), torch.autocast(tokens.device.type, enabled=False):
        try:
            expected, _ = _repeated_log_probabilities(module, some, 1.0)
            logs, _ = _shared_log_probabilities(module, some, 1.0, layout)
        except (BurnlikeError, RuntimeError, ValueError, TypeError):  # of a model that takes other arguments
            return False
    config = module.config
    blocks = config.n_layers if isinstance(module, DecoderLm) else config.get_text_config().num_hidden_layers
    apart = (logs - expected).abs().max().item()
    dtype = next(module.parameters()).dtype
    return layout.calls == blocks and apart <= logits_tolerance(dtype) * expected.abs().max().item()


def _repeated_log_probabilities(model: nn.Module, rows: AnswerRows, temperature: float) -> AnswerLogs:
    logs, _, addition = token_log_probabilities(model, rows.repeated(), temperature)
    copies = len(rows.answers) // len(rows.prompts)
    places = rows.prompt_lengths.repeat_interleave(copies)[:, None] - 1
    places = places + torch.arange(rows.answers.shape[1], device=places.device)
    return logs.gather(1, places.clamp(max=logs.shape[1] - 1)).where(rows.counts, 0.0), addition


def _layout_of(rows: AnswerRows) -> SharedPrompts:
    """The layout of rows whose answers begin with the last token of their prompt, which tells of their first one."""
    return SharedPrompts(rows.prompt_lengths - 1, rows.prompts.shape[1] - 1, *rows.answers.shape)


def _shared_log_probabilities(
    model: nn.Module, rows: AnswerRows, temperature: float, layout: SharedPrompts | None = None
) -> AnswerLogs:
    layout = _layout_of(rows) if layout is None else layout
    copies = len(rows.answers) // len(rows.prompts)
    last = rows.prompts.gather(1, rows.prompt_lengths[:, None] - 1).repeat_interleave(copies, 0)
    prompts = rows.prompts[:, :-1].flatten()
    tokens = torch.cat((prompts, torch.cat((last, rows.answers[:, :-1]), 1).flatten()))[None]
    targets = rows.answers.masked_fill(~rows.counts, NO_TARGET).flatten()
    targets = torch.cat((torch.full_like(prompts, NO_TARGET), targets))[None]
    module: Any = unwrap(model)
    sharing: AbstractContextManager[None] = (
        prompts_shared(layout) if isinstance(module, DecoderLm) else sharing_prompts(module, layout)
    )
    with lazy_head(module), sharing:
        logits, addition = logits_and_addition(model, {"input_ids": tokens, "position_ids": layout.positions})
    logs = log_probabilities_of(logits, targets, temperature)
    return logs[0, len(prompts) :].view(rows.answers.shape), addition
