"""LanguageModel: each token of a text from those before it; its loss, a baseline, and samples."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ...errors import DataError
from ...models.generation import stream
from ...ops import cross_entropy
from ..learner.steps import StepOutput
from .configs import LanguageModelConfig
from .task import Task, logits_of

if TYPE_CHECKING:
    from ..job.job import Job


_BYTES = 256
_LARGEST_TABLE = 4096
"""The table has as many numbers as the square of this."""


class LanguageModel(Task):
    """Cross-entropy of each token given those before it, in nats; see `next_token_loss`.

    Batches are `[n, length + 1]` int64 tokens. A model may define the loss itself, `loss(batch) -> StepOutput`.
    """

    unit = "tokens"

    def __init__(self, config: LanguageModelConfig | None = None) -> None:
        self.config = config or LanguageModelConfig()

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        own = callable(getattr(type(model), "loss", None))
        return model.loss(batch) if own else next_token_loss(model, batch)  # pyright: ignore[reportCallIssue]

    def finish(self, job: "Job", model: nn.Module) -> Mapping[str, Any]:
        """The loss of a bigram table on the same text, and a sample drawn with the written model."""
        data, said = job.data, {}
        config: Any = job.config.data
        has_tokens = all(hasattr(data, name) for name in ("train_tokens", "valid_tokens", "vocab_size"))
        has_all = all(hasattr(part, "length") for part in (data.train, data.valid))  # not some, by a transform
        if has_tokens and has_all and data.vocab_size <= _LARGEST_TABLE:
            predicted = data.valid_tokens[: len(data.valid) * data.valid.length + 1]
            said["bigram"] = bigram_loss(data.train_tokens, predicted, data.vocab_size)
        if all(callable(getattr(data, name, None)) for name in ("encode", "decode")) and self.config.sample_length:
            tokens = sample(
                model,
                data.encode(self.config.prompt),
                length=self.config.sample_length,
                context_length=getattr(data.valid, "length", None) or config.context_length,
                temperature=self.config.temperature,
                seed=job.config.seed,
                device=job.device,
            )
            said["sample"] = self.config.prompt + data.decode(tokens)
        return said

    def describe(self, values: Mapping[str, Mapping[str, float]], said: Mapping[str, Any]) -> list[str]:
        lines = []
        if "bigram" in said:
            gain = said["bigram"].loss - values["valid"]["loss"]
            lines.append(f"bigram table     {said['bigram'].loss:.4f} (counted on the same training text)")
            unit = "byte" if said["bigram"].vocab_size == _BYTES else "token"
            lines.append(f"{'better by' if gain >= 0 else 'worse by':<17}{abs(gain):.4f} nats per {unit}")
        if "sample" in said:
            lines += ["", "sample, drawn with the written model:", said["sample"]]
        return lines


def next_token_loss(model: nn.Module, batch: Tensor) -> StepOutput:
    """Cross-entropy of each token given those before it, in nats.

    In training, a model that says `has_balance` is called `with_balance=True`, which adds what keeps the experts of a
    mixture in balance.

    Args:
        model: `[batch, n] -> [batch, n, vocab_size]` logits, or an object with such `logits`.
        batch: `[batch, n + 1]` integer tokens; else a DataError.
    """
    if not isinstance(batch, Tensor) or batch.is_floating_point() or batch.dim() != 2 or batch.shape[1] < 2:
        got = f"{batch.dtype}{list(batch.shape)}" if isinstance(batch, Tensor) else type(batch).__name__
        raise DataError(f"LanguageModel: expected batches of [n, length + 1] integer tokens, got {got}")
    targets, balance = batch[:, 1:], None
    if model.training and getattr(model, "has_balance", False):
        logits, balance = model(batch[:, :-1], with_balance=True)
    else:
        logits = logits_of(model(batch[:, :-1]))
    loss = cross_entropy(logits.flatten(0, 1), targets.flatten())
    loss = loss if balance is None else loss + balance
    return StepOutput(loss, targets.numel(), logits.detach(), targets, logits=True)


ALPHAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
_CHUNK = 1 << 24


class BigramLoss(NamedTuple):
    """Loss of a bigram table, in nats per token, and the smoothing that gave it."""

    loss: float
    alpha: float
    vocab_size: int = 256


def bigram_loss(train: Tensor, valid: Tensor, vocab_size: int = 256) -> BigramLoss:
    """Cross-entropy on `valid` of a table p(next | token) that was counted on `train`, with add-alpha smoothing.

    p(b | a) = (n(a, b) + alpha) / (n(a) + alpha * vocab_size). Of several alphas the one that is best on `valid` is
    taken, which favours the table.

    Both are `[n]` tokens of any integer dtype; n >= 2 for `valid`.
    """
    counts, wanted = _count_pairs(train, vocab_size), _count_pairs(valid, vocab_size)
    totals = counts.sum(1, keepdim=True)

    def loss(alpha: float) -> float:
        log_probabilities = ((counts + alpha) / (totals + alpha * vocab_size)).log()
        return -(wanted * log_probabilities).sum().item() / wanted.sum().item()

    return min(BigramLoss(loss(alpha), alpha, vocab_size) for alpha in ALPHAS)


def _count_pairs(tokens: Tensor, vocab_size: int) -> Tensor:
    """`[vocab_size, vocab_size]` float64: how often the second token follows the first."""
    counts = torch.zeros(vocab_size * vocab_size, dtype=torch.int64)
    for start in range(0, len(tokens) - 1, _CHUNK):
        piece = tokens[start : start + _CHUNK + 1].long()
        counts += torch.bincount(piece[:-1] * vocab_size + piece[1:], minlength=vocab_size * vocab_size)
    return counts.view(vocab_size, vocab_size).double()


def sample(
    model: nn.Module,
    prompt: Tensor,
    *,
    length: int,
    context_length: int,
    temperature: float = 1.0,
    seed: int = 0,
    device: torch.device | str = "cpu",
) -> Tensor:
    """Continue a prompt by `[length]` int64 tokens, on the CPU, where they are drawn.

    Args:
        model: `[1, n] -> [1, n, vocab_size]` logits.
        prompt: `[n]` int64 tokens, n >= 1.
        context_length: how many of the last tokens the model is shown.
        temperature: divides the logits; 0 takes the likeliest token.
        device: where the model is.
    """
    options = {"temperature": temperature, "generator": torch.Generator().manual_seed(seed)}
    added = stream(model, prompt.to(device), length, context_length=context_length, **options)
    return torch.tensor([*added], dtype=torch.int64)
