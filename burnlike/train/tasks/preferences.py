"""Tasks of pairs without a reference: of two answers to a prompt the model is to find one likelier, or better."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..._torch_compat.fake_tensors import is_fake
from ...data.chat.codec import template_of
from ...data.chat.configs import PreferencesConfig
from ...data.chat.preferences import AnsweredBatcher, answered_rows
from ...data.configs import NO_TARGET
from ...data.sources.rows import pieces
from ...errors import ConfigError, DataError, ShapeError
from ...interop.fused.functions import unrounded_loss_of
from ...interop.fused.heads import lazy_head
from ...module.torch_objects.wrappers import unwrap
from ...ops._divided import divided_logits, rows_of
from ..learner.steps import StepOutput, autocast
from .configs import OrpoConfig, RewardConfig, SimPoConfig
from .task import LoraFineTuning, PaddedTask, batch_text, call, logits_of
from .token_batches import PackedTask, predicted, with_addition

if TYPE_CHECKING:
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

    def __init__(self, config: RewardConfig | None = None) -> None:
        self.config = config or RewardConfig()

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
