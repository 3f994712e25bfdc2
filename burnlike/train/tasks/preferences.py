"""Tasks of preferences: of two answers to a prompt the model is to find one likelier, or better.

Dpo and Kto compare the model with a reference, what it was before its training.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..._torch_compat.fake_tensors import is_fake
from ...data.chat.codec import template_of
from ...data.chat.configs import PreferencesConfig
from ...data.chat.preferences import AnsweredBatcher, Answers, answered_rows
from ...data.configs import NO_TARGET
from ...data.loader import DataLoader
from ...data.sources.rows import pieces
from ...errors import ConfigError, DataError, ModuleTreeError, ShapeError
from ...interop.fused.functions import unrounded_loss_of
from ...interop.fused.heads import lazy_head
from ...module.adapters.layers import Lora, adapters_off
from ...module.torch_objects.wrappers import local, unwrap
from ...ops._divided import divided_logits, rows_of
from ...record import Record, SafetensorsRecorder
from ..learner.steps import StepOutput, autocast, evaluation_mode
from ..parallel.single_process import SingleProcess
from .configs import DpoConfig, KtoConfig, OrpoConfig, RewardConfig, SimPoConfig
from .task import LoraFineTuning, PaddedTask, batch_text, call, logits_of
from .token_batches import PackedTask, most_positions, predicted, with_addition

if TYPE_CHECKING:
    from ..job.job import Job
    from ..job.loaded_run import LoadedRun


Rows = Mapping[str, Tensor]
PairLosses = tuple[Tensor, Tensor, Tensor]


class LogProbabilities(NamedTuple):
    """Log-probabilities of answers given their prompts, in nats, `[n]`: sums over tokens, and how many these are."""

    chosen: Tensor
    rejected: Tensor
    chosen_tokens: Tensor
    rejected_tokens: Tensor

    def means(self) -> "LogProbabilities":
        """The same as means over the tokens."""
        return self._replace(chosen=self.chosen / self.chosen_tokens, rejected=self.rejected / self.rejected_tokens)

    def cross_entropy(self) -> Tensor:
        """The mean over all tokens of the chosen answers, scalar."""
        return -self.chosen.sum() / self.chosen_tokens.sum()


def rows_of_pairs(batch: Any, task: str) -> dict[str, Tensor]:
    """The rows `[2 n, length]` of pairs `[n, 2, length]`, the chosen one at even places; packed pairs as they are."""
    if isinstance(batch, Mapping) and {"position_ids", "margin"} <= {*batch}:
        return dict(batch)
    names = ("input_ids", "labels", "attention_mask")
    shapes = {name: getattr(batch.get(name), "shape", ()) for name in names} if isinstance(batch, Mapping) else {}
    if not shapes or any(len(shape) != 3 or shape[1] != 2 for shape in shapes.values()):
        of_kto = "; answers with a label are for Kto" if isinstance(batch, Mapping) and "desirable" in batch else ""
        raise DataError(
            f"{task}: expected batches of pairs, of data `type: Preferences`, got {batch_text(batch)}{of_kto}"
        )
    return {name: batch[name].flatten(0, 1) for name in names}


def token_log_probabilities(
    model: nn.Module, rows: Mapping[str, Tensor], temperature: float = 1.0
) -> tuple[Tensor, Tensor, Tensor | None]:
    """The log-probability of each token that has a label, `[n, length]` at the place of the one before it, in float32,
    or float64 where the model's logits are; 0 elsewhere. And bool `[n, length]`, where there is one, and what a model
    in training adds to its loss.
    """
    with divided_logits(), lazy_head(unwrap(model)):
        logits, targets, addition = predicted(model, rows)
    return log_probabilities_of(logits, targets, temperature), targets != NO_TARGET, addition


def log_probabilities_of(logits: Tensor, targets: Tensor, temperature: float = 1.0) -> Tensor:
    """Log-probabilities of targets `[n, length]`, 0 for -100, by logits `[n, length, vocab_size]` / temperature."""
    logits = logits if temperature == 1 else logits / temperature
    return -unrounded_loss_of(rows_of(logits), targets.flatten(), NO_TARGET, "none").view_as(targets)


def answer_sums(model: nn.Module, rows: Mapping[str, Tensor]) -> tuple[Tensor, Tensor, Tensor | None]:
    """The log-probabilities `[answers]` of answers by a language model, how many tokens they have, and what the model
    in training adds to its loss.

    They are in the dtype of `token_log_probabilities`. Of packed rows they are of the documents, in order.
    """
    logs, has_target, addition = token_log_probabilities(model, rows)
    if "position_ids" not in rows:
        return logs.sum(1), has_target.sum(1), addition
    if has_no_values(has_target):
        count = 2 * len(rows["margin"])
        return logs.sum().expand(count), has_target.sum().expand(count), addition
    begins = (rows["position_ids"] == 0).flatten().nonzero()[:, 0].tolist()
    sizes = [end - begin for begin, end in pairwise([*begins, has_target.numel()])]
    of_documents = zip(logs.flatten().split(sizes), has_target.flatten().split(sizes), strict=True)
    sums, tokens = zip(*((log.sum(), count.sum()) for log, count in of_documents), strict=True)
    is_answer = torch.stack(tokens) > 0  # padding is a document of its own
    return torch.stack(sums)[is_answer], torch.stack(tokens)[is_answer], addition


def has_no_values(tensor: Tensor) -> bool:
    return tensor.is_meta or is_fake(tensor)


class AnswerTask(PackedTask, PaddedTask):
    """A task of answers to prompts, which may be packed."""

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        raise ConfigError(
            f"task: {type(self).__name__} prefers answers and has no predictions; burnlike generate RUN writes answers"
        )


class PairTask(AnswerTask):
    """A task of pairs: `loss_of` gives their loss and their rewards."""

    unit = "pairs"

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        self.expect_apart(model, batch)
        rows = rows_of_pairs(batch, type(self).__name__)
        sums, counts, addition = answer_sums(model, rows)
        policy = LogProbabilities(sums[0::2], sums[1::2], counts[0::2], counts[1::2])
        loss, chosen, rejected = self.loss_of(policy, model, rows, batch)
        return StepOutput(with_addition(loss, addition), len(chosen), parts=parts_of(chosen, rejected))

    @abstractmethod
    def loss_of(self, policy: LogProbabilities, model: nn.Module, rows: Rows, batch: Rows) -> PairLosses:
        """The loss of a batch, scalar, and the rewards of the chosen and of the rejected answers, `[n]` each."""


def parts_of(chosen: Tensor, rejected: Tensor) -> dict[str, Tensor]:
    """Means for lines of metrics, by the names of TRL, of the rewards of pairs `[n]`."""
    chosen, rejected = chosen.detach(), rejected.detach()
    return {
        "rewards_chosen": chosen.mean(),
        "rewards_rejected": rejected.mean(),
        "accuracies": (chosen > rejected).to(chosen.dtype).mean(),
    }


class Orpo(PairTask):
    """Odds ratio preference optimization: cross-entropy of the chosen answers - weight * log sigmoid(log odds ratio).

    Odds are p / (1 - p), p the geometric mean of an answer's token probabilities (Hong et al. 2024, eq. 6 and 7).
    """

    def __init__(self, config: OrpoConfig | None = None) -> None:
        super().__init__()
        self.config = config or OrpoConfig()

    def loss_of(self, policy: LogProbabilities, model: nn.Module, rows: Rows, batch: Rows) -> PairLosses:
        means = policy.means()
        # log1p: 1 - p of a probability near 0 rounds to 1, whose logarithm is 0.
        odds = [it - torch.log1p(-it.exp()) for it in (means.chosen, means.rejected)]
        loss = policy.cross_entropy() - self.config.weight * functional.logsigmoid(odds[0] - odds[1]).mean()
        return loss, self.config.weight * means.chosen, self.config.weight * means.rejected


class SimPo(PairTask):
    """Simple preference optimization: -log sigmoid(beta * (mean(chosen) - mean(rejected)) - gamma)."""

    def __init__(self, config: SimPoConfig | None = None) -> None:
        super().__init__()
        self.config = config or SimPoConfig()

    def loss_of(self, policy: LogProbabilities, model: nn.Module, rows: Rows, batch: Rows) -> PairLosses:
        config, means = self.config, policy.means()
        chosen, rejected = config.beta * means.chosen, config.beta * means.rejected
        loss = -functional.logsigmoid(chosen - rejected - config.gamma).mean()
        if config.sft_weight:
            loss = loss + config.sft_weight * policy.cross_entropy()
        return loss, chosen, rejected


class Reward(PaddedTask):
    """A reward model: -log sigmoid(reward(chosen) - reward(rejected) - margin); see `RewardConfig`."""

    unit = "pairs"
    problem_type = "regression"

    def __init__(self, config: RewardConfig | None = None) -> None:
        self.config = config or RewardConfig()

    def prepare(self, model: nn.Module) -> nn.Module:
        """Refuse a model of transformers that has several outputs."""
        if (outputs := getattr(getattr(model, "config", None), "num_labels", 1)) != 1:
            raise ConfigError(f"Reward: expected a model with one output, as of n_classes: 1, got one with {outputs}")
        return super().prepare(model)

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The `reward` of each conversation, or of a pair those of the `chosen` and the `rejected` answer."""
        rewards = iter(self.rewards(model, batch).tolist())
        return [{name: next(rewards) for name in columns} for columns in batch["columns"]]

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        if "position_ids" in batch:
            raise ConfigError("data.packing: expected false for Reward, whose models read the last token of a row")
        rewards = self.rewards(model, rows_of_pairs(batch, "Reward"))
        chosen, rejected = rewards[0::2], rewards[1::2]
        loss = -functional.logsigmoid(chosen - rejected - batch["margin"].to(chosen.dtype)).mean()
        if self.config.centered:
            loss = loss + self.config.centered * (chosen + rejected).square().mean()
        return StepOutput(loss, len(chosen), parts=parts_of(chosen, rejected))

    @staticmethod
    def rewards(model: nn.Module, rows: Mapping[str, Any]) -> Tensor:
        """The rewards `[n]` of conversations `[n, length]`, in float32, or float64 where the model's are."""
        logits = logits_of(call(model, {name: rows[name] for name in ("input_ids", "attention_mask")}))
        if logits.shape[1:] != (1,):
            raise ShapeError(
                f"Reward: expected one number for a conversation, got logits of {list(logits.shape)}; take a model with"
                " one output, such as Pretrained with n_classes: 1"
            )
        return (logits if logits.dtype == torch.float64 else logits.float())[:, 0]


@torch.no_grad()
def rewards_of(run: "LoadedRun", conversations: Sequence[Any], batch_size: int | None = None) -> Tensor:
    """The rewards of conversations by the model of a run of the task `Reward`, `[n]` float32 on the CPU.

    They are written by the run's own chat template, and are what `predictions` gives of the same in a file.

    Args:
        run: `load_run(RUN)`.
        conversations: each a list of messages of `role` and `content`, the last one an answer of the assistant.
        batch_size: conversations of a batch; None: that of the training.

    Raises:
        ConfigError: the run is of another task.
        DataError: one is no conversation with an answer at its end.
    """
    task = run.task.task if isinstance(run.task, LoraFineTuning) else run.task
    if not isinstance(task, Reward):
        raise ConfigError(f"{run.path}: expected a run of the task Reward, got {type(task).__name__}")
    config = run.config.data
    if not isinstance(config, PreferencesConfig):
        raise ConfigError(f"{run.path}: expected data of type Preferences, got {type(config).__name__}")
    template = template_of(config, run.directory)
    rows = [(f"conversations[{place}]", {"messages": conversation}) for place, conversation in enumerate(conversations)]
    items = [it for _, it in answered_rows(config, template, rows)]
    batcher, rewards = AnsweredBatcher(template.pad_token), [torch.zeros(0)]
    for some in pieces(items, batch_size or run.config.training.batch_size):
        with autocast(run.device, run.config.training.precision):
            rewards.append(task.rewards(run.model, batcher.batch(some, run.device)).cpu())
    return torch.cat(rewards)


REFERENCE_NAME = "reference.safetensors"


class ReferenceTask(AnswerTask):
    """A task that compares log-probabilities of answers with those by the model as it was before its training.

    These are computed with the adapters off; or with the first weights before the training, and kept in the run.
    """

    config: Any

    def try_out(self, model: nn.Module, parallel: SingleProcess | None = None) -> None:
        """Refuse a model, with its first weights, that is not what it computes with its adapters off."""
        super().try_out(model, parallel)
        if self.config.reference == "kept":
            return
        self._adapters_off(model)
        factors = [local(module.b.detach()) for module in model.modules() if isinstance(module, Lora)]
        if any(bool(factor.any()) for factor in factors if not has_no_values(factor)):
            raise ConfigError(
                f"task: {type(self).__name__}: the adapters begin with values, so that the model with its adapters off"
                " is not the one that is trained further; set `reference: kept`, which takes the first weights"
            )

    def _adapters_off(self, model: nn.Module) -> AbstractContextManager[None]:
        try:
            return adapters_off(unwrap(model))
        except ModuleTreeError as error:
            raise ConfigError(
                f"task: {type(self).__name__}: {error}; take `model: {{type: LoRA, of: ...}}` without dora, or"
                " `reference: kept`"
            ) from error

    def reference_sums(self, model: nn.Module, rows: Mapping[str, Tensor], kept: Tensor | None = None) -> Tensor:
        """The log-probabilities `[answers]` of the answers of rows; `kept` are those that the batch has."""
        if kept is not None:
            return kept.flatten()
        if self.config.reference == "kept":
            if not has_no_values(rows["input_ids"]):
                raise ConfigError(
                    f"task: {type(self).__name__}: the reference is kept for the items of the training's data alone,"
                    " whose validations are in metrics.jsonl; with `reference: computed` other data can be measured"
                )
            count = 2 * len(rows["margin"]) if "position_ids" in rows else len(rows["input_ids"])
            return rows["input_ids"].new_zeros(count, dtype=torch.float32)
        # Dropout would make another reference of each step.
        with torch.no_grad(), evaluation_mode(model), self._adapters_off(model):
            return answer_sums(model, rows)[0]

    def start(self, job: "Job", directory: Path) -> None:
        """Give the items of a job's data their log-probabilities by its model, which has its first weights.

        They are read from the directory of the run, if they are of this data, or computed and written there.
        """
        if self.config.reference != "kept":
            return
        if not all(isinstance(value, Answers) for value in _answers_of(job.data).values()):
            raise ConfigError("task.reference: expected computed, since what is kept is of data `type: Preferences`")
        if not self.recall(job.data, directory):
            with torch.no_grad(), evaluation_mode(job.model), job.learner.autocast():
                tensors = {name: self._computed(job, value) for name, value in _answers_of(job.data).items()}
            record = Record(tensors, {"fingerprint": job.data.fingerprint})
            SafetensorsRecorder().save(record, directory / REFERENCE_NAME)
            self.recall(job.data, directory)

    def recall(self, data: Any, directory: Path) -> bool:
        file = directory / REFERENCE_NAME
        if self.config.reference != "kept" or not file.exists():
            return False
        record = SafetensorsRecorder().load(file)
        if record.values.get("fingerprint") != getattr(data, "fingerprint", None):
            return False
        for name, dataset in _answers_of(data).items():
            dataset.reference = record.tensors[name]
        return True

    @staticmethod
    def _computed(job: "Job", dataset: Any) -> Tensor:
        """The log-probabilities `[items, answers]` of the answers of a data set, on the CPU."""
        batcher = job.data.batcher_type(job.data.template.pad_token)
        sums = []
        for batch in DataLoader(dataset, batcher, batch_size=job.training.batch_size, device=job.device):
            rows = rows_of_pairs(batch, "Dpo") if "margin" in batch else batch
            sums.append(answer_sums(job.model, rows)[0].view(len(batch["input_ids"]), -1).cpu())
        return torch.cat(sums)


def _answers_of(data: Any) -> dict[str, Any]:
    """The parts of preferences by name, those that are packed as they were before."""
    datasets = {"train": data.train, "valid": data.valid, **getattr(data, "splits", {})}
    return {name: getattr(dataset, "conversations", dataset) for name, dataset in datasets.items()}


class Dpo(PairTask, ReferenceTask):
    """Direct preference optimization; see `DpoConfig`.

    With l the log-probability of an answer by the model minus that by the reference, and d = l(chosen) - l(rejected):
    sigmoid -log sigmoid(beta d), hinge max(0, 1 - beta d), ipo (d - 1 / (2 beta))^2.
    """

    def __init__(self, config: DpoConfig | None = None) -> None:
        super().__init__()
        self.config = config or DpoConfig()

    def loss_of(self, policy: LogProbabilities, model: nn.Module, rows: Rows, batch: Rows) -> PairLosses:
        config = self.config
        sums = self.reference_sums(model, rows, batch.get("reference"))
        reference = policy._replace(chosen=sums[0::2], rejected=sums[1::2])
        measured, base = policy, reference
        if config.length_normalized or config.loss == "ipo":
            measured, base = policy.means(), reference.means()
        chosen, rejected = measured.chosen - base.chosen, measured.rejected - base.rejected
        scaled = config.beta * (chosen - rejected)
        if config.loss == "hinge":
            losses = (1 - scaled).relu()
        elif config.loss == "ipo":
            losses = (chosen - rejected - 1 / (2 * config.beta)).square()
        else:
            smoothing = config.label_smoothing
            losses = -(1 - smoothing) * functional.logsigmoid(scaled) - smoothing * functional.logsigmoid(-scaled)
        loss = losses.mean()
        if config.sft_weight:
            loss = loss + config.sft_weight * policy.cross_entropy()
        rewards = (policy.chosen - reference.chosen, policy.rejected - reference.rejected)
        return loss, config.beta * rewards[0], config.beta * rewards[1]


class Kto(ReferenceTask):
    """Kahneman-Tversky optimization of single answers; see `KtoConfig`.

    With l the log-probability of an answer by the model minus that by the reference, and k the mean of l over answers
    to other prompts of the batch, at least 0: 1 - sigmoid(beta (l - k)) for a desirable answer, 1 - sigmoid(beta
    (k - l)) for another (Ethayarajh et al. 2024, eq. 7).
    """

    unit = "answers"

    def __init__(self, config: KtoConfig | None = None) -> None:
        super().__init__()
        self.config = config or KtoConfig()
        self._most_tokens: int | None = None

    def take_facts(self, facts: Mapping[str, Any]) -> None:
        super().take_facts(facts)
        self._most_tokens = facts.get("max_length")

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        rows, desirable, kept = rows_of_answers(batch)
        config = self.config
        policy, _, addition = answer_sums(model, rows)
        ratios = policy - self.reference_sums(model, rows, kept)
        divergence = torch.zeros_like(ratios[0]).detach()
        if config.loss == "kto" and len(ratios) > 1:  # else there is no other prompt
            limits = [it for it in (self._most_tokens, most_positions(unwrap(model))) if it is not None]
            others = mismatched(rows, min(limits, default=None))
            with torch.no_grad():
                others_policy = answer_sums(model, others)[0]
            divergence = (others_policy - self.reference_sums(model, others)).mean().clamp(min=0)
        share = desirable.to(policy.dtype)  # 1 or 0
        weights = share * config.desirable_weight + (1 - share) * config.undesirable_weight
        loss = (weights * (1 - torch.sigmoid(config.beta * (2 * share - 1) * (ratios - divergence)))).mean()
        loss = with_addition(loss, addition)
        rewards = config.beta * ratios.detach()
        if has_no_values(rewards):
            return StepOutput(loss, len(ratios))
        # Of which a batch may have none.
        kinds = {"rewards_chosen": rewards[desirable > 0], "rewards_rejected": rewards[desirable == 0]}
        parts = {"kl": divergence} | {name: kind.mean() for name, kind in kinds.items()}
        return StepOutput(loss, len(ratios), parts=parts, part_sizes={name: len(kind) for name, kind in kinds.items()})


def rows_of_answers(batch: Any) -> tuple[dict[str, Tensor], Tensor, Tensor | None]:
    """The rows `[n, length]` of answers, which of them are desirable, and their kept log-probabilities; of pairs first
    those of all chosen answers, so that each answer is before one to another prompt.
    """
    if isinstance(batch, Mapping) and "margin" in batch:
        if "position_ids" in batch:
            raise ConfigError("data.packing: expected false for Kto, which puts answers behind other prompts")
        rows = rows_of_pairs(batch, "Kto")
        order = torch.arange(len(batch["margin"]) * 2, device=rows["input_ids"].device).view(-1, 2).T.flatten()
        desirable = (order % 2 == 0).float()
        kept = batch["reference"].flatten()[order] if "reference" in batch else None
        return {name: row[order] for name, row in rows.items()}, desirable, kept
    names = ("input_ids", "labels", "attention_mask", "desirable")
    if not (isinstance(batch, Mapping) and {*names} <= {*batch}):
        raise DataError(
            f"Kto: expected batches of answers with labels, of data `type: Preferences`, got {batch_text(batch)}"
        )
    return {name: batch[name] for name in names[:3]}, batch["desirable"], batch.get("reference")


def mismatched(rows: Mapping[str, Tensor], most: int | None = None) -> dict[str, Tensor]:
    """Each prompt of the rows with the answer of the row before it, that of the last for the first; `most` tokens."""
    tokens, labels = rows["input_ids"], rows["labels"]
    counted, places = labels != NO_TARGET, torch.arange(tokens.shape[1], device=tokens.device)
    begins = counted.int().argmax(1, keepdim=True)
    ends = (places * counted).amax(1, keepdim=True) + 1
    others, other_begins, other_sizes = (it.roll(1, 0) for it in (tokens, begins, ends - begins))
    sizes = begins + other_sizes
    length = tokens.shape[1] if has_no_values(tokens) else int(sizes.max())
    places = torch.arange(length if most is None else min(length, most), device=tokens.device).expand(len(tokens), -1)
    of_prompt, last = places < begins, tokens.shape[1] - 1
    from_prompt = tokens.gather(1, places.clamp(max=last))
    from_answer = (places - begins + other_begins).clamp(0, last)
    inside = places < sizes
    mixed = torch.where(of_prompt, from_prompt, others.gather(1, from_answer))
    targets = labels.roll(1, 0).gather(1, from_answer).masked_fill(of_prompt | ~inside, NO_TARGET)
    return {"input_ids": mixed.where(inside, tokens[:, :1]), "labels": targets, "attention_mask": inside.long()}
