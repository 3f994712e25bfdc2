"""Grpo: a model answers prompts while it trains, and answers with more reward than others become likelier."""

import copy
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ...data.batching import to_device
from ...errors import DataError
from ...interop.adapters.adding import merge_adapters
from ...interop.adapters.layers import has_adapters
from ...models.completions import complete
from ...models.generation import Completions, stop_tokens
from ...module import materialize, valid
from ...module.adapters.layers import adapters_off
from ...module.torch_objects.wrappers import parametrizations_of, unwrap
from ..learner.steps import StepOutput, evaluation_mode
from ..parallel.single_process import SingleProcess
from .answer_rows import AnswerReader, AnswerRows
from .grpo_configs import GrpoConfig
from .rewards import Answers, rewards_by
from .task import PaddedTask, batch_text
from .token_batches import expect_positions, longest_of, with_addition

if TYPE_CHECKING:
    from ..job.job import Job

_SHOWN_SAMPLES = 4
_LEAST_DEVIATION = 1e-4
"""Added to a standard deviation before it divides, as TRL does."""


class Samples(NamedTuple):
    """Answers of one batch, `answers` for each prompt one after the other, and what their loss is computed of.

    Attributes:
        rows: of prompts and answers.
        advantages: `[n]`.
        before: log-probability of each token when the answers were written, `[n, longest]`; None where these are those
            of this step.
        reference: the same by the model with its adapters off; None without `beta`.
        parts: means for lines of metrics.
        part_sizes: the numbers of answers with a reward that some are means of.
    """

    rows: AnswerRows
    advantages: Tensor
    before: Tensor | None
    reference: Tensor | None
    parts: dict[str, Tensor]
    part_sizes: Mapping[str, float] = MappingProxyType({})


class Grpo(PaddedTask):
    """Group relative policy optimization; see `GrpoConfig`.

    With r the ratio of a token's probability to that when the answer was written, and A its answer's advantage, the
    loss of a token is -min(r A, clip(r, 1 - epsilon, 1 + epsilon_high) A) + beta * (e^d - d - 1), where d is the
    log-probability by the reference minus that by the model (Schulman 2020). A is the answer's reward minus the mean of
    its group, of `rloo` minus the mean of the others.
    """

    def __init__(self, config: GrpoConfig) -> None:
        self.config = config
        self.unit = "tokens" if config.loss == "dapo" else "answers"
        self.uncounted = f"no answer got a reward from {' or '.join(config.reward_names)}"
        self._functions = {name: it.init() for name, it in zip(config.reward_names, config.rewards, strict=True)}
        self._codec: Any = None
        self._longest = 0
        self._step = 0
        self._samples: Samples | None = None
        self._reader = AnswerReader()

    def begin_step(self, step: int) -> None:
        self._step = step

    def take_data(self, data: Any) -> None:
        self._codec = getattr(data, "codec", None)
        self._longest = longest_of(data)

    def try_out(self, model: nn.Module, parallel: SingleProcess | None = None) -> None:
        """Refuse a model that does not read the longest prompt with an answer of `max_tokens`."""
        expect_positions(model, self._longest, self.config.max_tokens)

    def training_state(self) -> dict[str, Any]:
        """The answers that the next steps still learn from; empty where they write new ones."""
        return {} if self._samples is None else {**self._samples._asdict(), "rows": self._samples.rows._asdict()}

    def load_training_state(self, state: Mapping[str, Any]) -> None:
        self._samples = Samples(**{**state, "rows": AnswerRows(**state["rows"])}) if state else None

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        prompts = self._prompts(batch)
        if self._step % self.config.updates == 0 or self._samples is None:
            self._samples = self._written(model, prompts, batch)
        samples = to_device(self._samples, prompts[0].device)  # those of a checkpoint are on the CPU
        if (self._step + 1) % self.config.updates == 0:
            self._samples = None
        return self._output(model, samples)

    @torch.no_grad()
    def valid_step(self, model: nn.Module, batch: Any) -> StepOutput:
        """The negative mean reward of the likeliest answers."""
        prompts = self._prompts(batch)
        if prompts[0].is_meta:
            return StepOutput(torch.zeros((), device="meta"), len(prompts))
        answers = self._answers(model, prompts, batch, 1, temperature=0.0)
        rewards = rewards_by(self._functions, answers)
        parts, part_sizes = self._parts(rewards)
        return StepOutput(-parts["reward"], part_sizes["reward"], parts=parts, part_sizes=part_sizes)

    @torch.no_grad()
    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The `answer` to each prompt, of the likeliest tokens."""
        codec, prompts = batch["codec"], batch["input_ids"]
        stops = stop_tokens(model, codec)
        written = complete(unwrap(model), prompts, self.config.max_tokens, stop_tokens=stops)
        return [{"answer": codec.decode(_without_end(it, stops))} for it in _rows_of(written)]

    def finish(self, job: "Job", model: nn.Module) -> Mapping[str, Any]:
        """The likeliest answers to the first prompts of the validation data, with their rewards."""
        items = [job.data.valid[index] for index in range(min(_SHOWN_SAMPLES, len(job.data.valid)))]
        batch = job.data.batcher.batch(items, job.device)
        with evaluation_mode(model):
            answers = self._answers(model, batch["input_ids"], batch, 1, temperature=0.0)
        rewards = rewards_by(self._functions, answers)
        notes: dict[str, Any] = {}
        for number, (prompt, text) in enumerate(zip(answers.messages, answers.texts, strict=True), start=1):
            shown = ", ".join(
                f"{name} {'-' if math.isnan(it) else f'{it:g}'}"
                for name, it in zip(self._functions, rewards[number - 1].tolist(), strict=True)
            )
            notes[f"sample {number}"] = f"{prompt[-1]['content']}\n---\n{text}\n---\n{shown}"
        return notes

    def _prompts(self, batch: Any) -> list[Tensor]:
        if not isinstance(batch, Mapping) or not {"input_ids", "messages", "rows"} <= {*batch}:
            raise DataError(f"Grpo: expected batches of prompts, of data `type: Prompts`, got {batch_text(batch)}")
        return batch["input_ids"]

    def _answers(self, model: nn.Module, prompts: Sequence[Tensor], batch: Any, count: int, **options: Any) -> Answers:
        """`count` answers to each prompt, one after the other; their texts begin with a thought that is open."""
        stops = stop_tokens(model, self._codec)
        writer = _writer(unwrap(model))
        with torch.autocast("cpu", enabled=False):  # in which native steps don't run
            written = complete(writer, prompts, self.config.max_tokens, n_samples=count, stop_tokens=stops, **options)
        tokens = _rows_of(written)
        opened = [it for prompt in prompts for it in [self._codec.template.opened_thought(prompt.tolist())] * count]
        texts = [begin + self._codec.decode(_without_end(it, stops)) for begin, it in zip(opened, tokens, strict=True)]
        rows = [it for it in batch["rows"] for _ in range(count)]
        messages = [it for it in batch["messages"] for _ in range(count)]
        return Answers(rows, messages, texts, tokens)

    @torch.no_grad()
    def _written(self, model: nn.Module, prompts: Sequence[Tensor], batch: Any) -> Samples:
        """New answers to prompts, with their advantages."""
        config = self.config
        if prompts[0].is_meta or next(model.parameters()).is_meta:  # a trial without values: of the longest answers
            tokens = [prompt.new_zeros(config.max_tokens) for prompt in prompts for _ in range(config.answers)]
            return self._samples_of(model, prompts, tokens, torch.zeros(len(tokens), len(self._functions)), ())
        sampling = {name: getattr(config, name) for name in ("temperature", "top_k", "top_p", "min_p")}
        answers = self._answers(model, prompts, batch, config.answers, **sampling)
        rewards = rewards_by(self._functions, answers)
        return self._samples_of(model, prompts, answers.tokens, rewards, stop_tokens(model, self._codec))

    def _samples_of(
        self, model: nn.Module, prompts: Sequence[Tensor], answers: Sequence[Tensor], rewards: Tensor, stops: Any
    ) -> Samples:
        """The samples of answers to prompts; rewards are `[n, functions]`."""
        config, device = self.config, prompts[0].device
        are_ended = torch.tensor([bool(len(it)) and not it.is_meta and int(it[-1]) in stops for it in answers])
        rows = AnswerRows.of(prompts, answers)
        if config.mask_cut:
            rows.counts[(~are_ended).to(device)] = False
        before = reference = None
        if config.updates > 1 or (config.loss == "rloo" and config.beta):
            before, _ = self._reader.log_probabilities(model, rows, config.temperature)
        if config.beta:
            with evaluation_mode(model), adapters_off(unwrap(model)):  # dropout is no part of the reference
                reference, _ = self._reader.log_probabilities(model, rows, config.temperature)
        parts, part_sizes = self._parts(rewards)
        parts["length"] = torch.tensor([float(len(answer)) for answer in answers]).mean()
        parts["ended"] = are_ended.float().mean()
        total = self._total(rewards).to(device)
        if config.loss == "rloo" and before is not None and reference is not None:
            total = total - config.beta * (before - reference).sum(1)
        before = before if config.updates > 1 else None
        return Samples(rows, self._advantages(total), before, reference, parts, part_sizes)

    def _total(self, rewards: Tensor) -> Tensor:
        """The weighted sum of the rewards of each answer, `[n]`; NaN for one of which no function says anything."""
        weights = torch.tensor([reward.weight for reward in self.config.rewards], dtype=rewards.dtype)
        total = (rewards * weights).nansum(1)
        return total.masked_fill(rewards.isnan().all(1), torch.nan)

    def _advantages(self, rewards: Tensor) -> Tensor:
        """The advantages of answers `[n]` by their groups; 0 for one without a reward."""
        groups = rewards.view(-1, self.config.answers)
        counts = (~groups.isnan()).sum(1, keepdim=True)
        if self.config.loss == "rloo":
            others = (groups.nansum(1, keepdim=True) - groups) / (counts - 1).clamp(min=1)
            advantages = torch.where(counts > 1, groups - others, 0.0)
        else:
            advantages = groups - groups.nanmean(1, keepdim=True)
        if self.config.is_scaled:
            squares = advantages.square().nansum(1, keepdim=True) / (counts - 1).clamp(min=1)
            advantages = advantages / (squares.sqrt() + _LEAST_DEVIATION)
        return advantages.nan_to_num(0.0).flatten()

    def _parts(self, rewards: Tensor) -> tuple[dict[str, Tensor], dict[str, float]]:
        """Means of the rewards of a batch, for lines of metrics, and how many answers each is of; NaN is of none."""
        columns = {"reward": self._total(rewards)}
        if len(self._functions) > 1:
            columns |= {f"reward.{name}": rewards[:, place] for place, name in enumerate(self._functions)}
        sizes: dict[str, float] = {name: int((~column.isnan()).sum()) for name, column in columns.items()}
        return {name: column.nanmean() for name, column in columns.items()}, sizes

    def _output(self, model: nn.Module, samples: Samples) -> StepOutput:
        """The loss of answers, and parts of it for lines of metrics."""
        config = self.config
        logs, addition = self._reader.log_probabilities(model, samples.rows, config.temperature)
        counts = samples.rows.counts
        before = logs.detach() if samples.before is None else samples.before
        ratio, advantages = logs - before, samples.advantages.to(logs.dtype)[:, None]
        if config.loss == "rloo":
            ratio = ratio.sum(1, keepdim=True)
        ratio = ratio.exp()
        high = config.epsilon if config.epsilon_high is None else config.epsilon_high
        clipped = ratio.clamp(1 - config.epsilon, 1 + high)
        losses = -torch.minimum(ratio * advantages, clipped * advantages)
        n_answers, n_tokens = len(counts), counts.sum()
        parts = dict(samples.parts)
        is_clipped = ((ratio < 1 - config.epsilon) & (advantages < 0)) | ((ratio > 1 + high) & (advantages > 0))
        parts["clip_ratio"] = (is_clipped & counts).sum() / counts.sum().clamp(min=1)
        if samples.reference is not None:
            apart = samples.reference - logs
            divergence = apart.exp() - apart - 1
            parts["kl"] = (divergence.detach() * counts).sum() / n_tokens.clamp(min=1)
            if config.loss != "rloo":
                losses = losses + config.beta * divergence
        token_count = n_answers if counts.is_meta else int(n_tokens)
        part_sizes: dict[str, float] = {**dict.fromkeys(parts, n_answers), **samples.part_sizes}
        part_sizes |= dict.fromkeys(("clip_ratio", "kl"), token_count)
        if config.loss == "rloo":
            loss = losses.mean()
        elif config.loss == "grpo":
            loss = ((losses * counts).sum(1) / counts.sum(1).clamp(min=1)).mean()
        elif config.loss == "dr_grpo":
            loss = (losses * counts).sum() / (n_answers * config.max_tokens)
        else:
            loss = (losses * counts).sum() / n_tokens.clamp(min=1)
        parts = {name: part.to(loss.device) for name, part in parts.items()}
        size = token_count if config.loss == "dapo" else n_answers
        return StepOutput(with_addition(loss, addition), size, parts=parts, part_sizes=part_sizes)


def _writer(model: nn.Module) -> nn.Module:
    """A model that writes what `model` does, its adapters added to its weights. All other tensors are shared."""
    if has_adapters(model):
        shared = {id(it): nn.Parameter(it.detach(), requires_grad=False) for it in model.parameters()}
        return merge_adapters(copy.deepcopy(model, shared))
    return materialize(valid(model)) if any(map(parametrizations_of, model.modules())) else model


def _rows_of(written: Completions) -> list[Tensor]:
    """The tokens of each row, `[n]`."""
    return [row[:length] for row, length in zip(written.tokens, written.lengths.tolist(), strict=True)]


def _without_end(tokens: Tensor, stops: Any) -> Tensor:
    return tokens[:-1] if len(tokens) and int(tokens[-1]) in stops else tokens
