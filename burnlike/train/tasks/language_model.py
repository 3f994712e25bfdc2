"""LanguageModel: each token of a text from those before it; its loss, a baseline, and samples."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from ...data.configs import NO_TARGET
from ...errors import ConfigError
from ...models.generation import shown_length, stop_tokens, stream
from ...module.printing.values import type_text
from ...module.torch_objects.wrappers import unwrap
from ...nn.divided_sequence import divided
from ...ops._divided import divided_logits, rows_of
from ...ops.cross_entropy import unrounded_loss
from ..learner.steps import StepOutput
from .configs import LanguageModelConfig
from .task import MeasuredTask
from .token_batches import PackedTask, predicted, with_addition

if TYPE_CHECKING:
    from ..job.job import Job


_BYTES = 256
_LARGEST_TABLE = 4096
"""The table has as many numbers as the square of this."""


class LanguageModel(PackedTask, MeasuredTask):
    """Cross-entropy of each token given those before it, in nats; see `next_token_loss`.

    Batches are `[n, length + 1]` int64 tokens, or mappings of `input_ids`, `labels` and more: see `token_batches`. A
    model may define the loss itself, `loss(batch) -> StepOutput`. One that is trained on packed documents is first
    tried on some, and refused by a ConfigError if it does not keep them apart.
    """

    unit = "tokens"

    def __init__(self, config: LanguageModelConfig | None = None) -> None:
        super().__init__()
        self.config = config or LanguageModelConfig()

    def step(self, model: nn.Module, batch: Any, *, is_training: bool) -> StepOutput:
        self.expect_apart(model, batch)
        with noisy_tokens(model, self.config.neftune if is_training else 0.0):
            if not callable(getattr(type(model), "loss", None)):
                return next_token_loss(model, batch, self.smoothing(is_training=is_training))
            if self.config.label_smoothing:
                kind = type_text(unwrap(model))
                raise ConfigError(f"task.label_smoothing: {kind} has a loss of its own; leave it out")
            return model.loss(batch)  # pyright: ignore[reportCallIssue]

    @torch.no_grad()
    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The `answer` to each prompt of a chat, or the `text` that begins with it, of the likeliest tokens:
        `sample_length` at most.
        """
        codec = batch.get("codec") if isinstance(batch, Mapping) else None
        if codec is None:
            raise ConfigError("task: LanguageModel predicts what follows texts, and this data is none")
        continues = batch.get("continues", False)
        options: Any = {"length": self.config.sample_length, "temperature": 0.0}
        options |= {"context_length": shown_length(model, codec), "stops": stop_tokens(model, codec)}
        rows = []
        for prompt in batch["input_ids"]:
            added = sample(model, prompt, device=prompt.device, **options)
            shown = torch.cat((prompt.cpu(), added)) if continues else added
            rows.append({"text" if continues else "answer": codec.decode(shown)})
        return rows

    def finish(self, job: "Job", model: nn.Module) -> Mapping[str, Any]:
        """The loss of a bigram table on the same text, and a sample drawn with the written model."""
        data, notes = job.data, {}
        config: Any = job.config.data
        length = getattr(data.valid, "length", None)
        has_tokens = all(hasattr(data, name) for name in ("train_tokens", "valid_tokens", "vocab_size"))
        has_all = all(hasattr(part, "length") for part in (data.train, data.valid))  # not some, by a transform
        if has_tokens and has_all and data.vocab_size <= _LARGEST_TABLE:
            predicted = data.valid_tokens[: len(data.valid) * data.valid.length + 1]
            notes["bigram"] = bigram_loss(data.train_tokens, predicted, data.vocab_size)
        if not self.config.sample_length:
            return notes
        text, codec = self.config.prompt, getattr(data, "codec", None)
        if all(callable(getattr(data, name, None)) for name in ("encode", "decode")):
            prompt, context_length, decode = data.encode(text), length or config.context_length, data.decode
        elif codec is not None and "pictured" not in (item := data.valid[0]):
            prompt = item["input_ids"][: int((item["labels"] != NO_TARGET).nonzero()[0])]
            text, context_length, decode = codec.decode(prompt), shown_length(model, codec), codec.decode
        else:
            return notes
        tokens = sample(
            model,
            prompt,
            length=self.config.sample_length,
            context_length=context_length,
            temperature=self.config.temperature,
            seed=job.config.seed,
            device=job.device,
            stops=stop_tokens(model, codec),
        )
        notes["sample"] = text + decode(tokens)
        return notes

    def describe(self, values: Mapping[str, Mapping[str, float]], notes: Mapping[str, Any]) -> list[str]:
        lines = []
        if "bigram" in notes:
            gain = notes["bigram"].loss - values["valid"]["loss"]
            lines.append(f"bigram table     {notes['bigram'].loss:.4f} (counted on the same training text)")
            unit = "byte" if notes["bigram"].vocab_size == _BYTES else "token"
            lines.append(f"{'better by' if gain >= 0 else 'worse by':<17}{abs(gain):.4f} nats per {unit}")
        if "sample" in notes:
            lines += ["", "sample, drawn with the written model:", notes["sample"]]
        return lines


@contextmanager
def noisy_tokens(model: nn.Module, alpha: float) -> Iterator[None]:
    """Add noise to the vectors of tokens of a model in training: uniform, within alpha / sqrt(length * d_model)
    (NEFTune, Jain et al. 2023, arXiv:2310.05914, algorithm 1).

    The length is that of the batch, with padding. Raises a ConfigError if the model has no table of tokens.
    """
    if not alpha:
        yield
        return
    module: Any = unwrap(model)
    ask = getattr(module, "get_input_embeddings", None)
    table = ask() if callable(ask) else getattr(module, "embedding", None)
    if not isinstance(table, nn.Module):
        raise ConfigError(f"task.neftune: {type_text(module)} has no table of tokens to add noise to; leave it out")

    def with_noise(layer: nn.Module, _: Any, vectors: Tensor) -> Tensor:
        if not layer.training:
            return vectors
        largest = alpha / (vectors.shape[1] * vectors.shape[2]) ** 0.5
        return vectors + torch.empty_like(vectors).uniform_(-largest, largest)

    hook = table.register_forward_hook(with_noise)
    try:
        yield
    finally:
        hook.remove()


def next_token_loss(model: nn.Module, batch: Any, label_smoothing: float = 0.0) -> StepOutput:
    """Cross-entropy of each token given those before it, in nats.

    In training, a model that says `has_balance` is called `with_balance=True`, which adds what keeps the experts of a
    mixture in balance; of a model of transformers, what its own loss adds to cross-entropy is added (`added_loss`).

    Args:
        model: `[batch, n] -> [batch, n, vocab_size]` logits, or an object with such `logits`.
        batch: see `token_batches`.
        label_smoothing: share of the target that is spread over all tokens.
    """
    with divided_logits():
        logits, targets, balance = predicted(model, batch)
    rows, goals = rows_of(logits), targets.flatten()
    loss = unrounded_loss(rows, goals, ignore_index=NO_TARGET, label_smoothing=label_smoothing)
    loss = with_addition(loss, balance)
    counts_all = (isinstance(batch, Tensor) and divided(unwrap(model)) is None) or targets.is_meta
    size = targets.numel() if counts_all else int((targets != NO_TARGET).sum())
    return StepOutput(loss, size, logits.detach(), targets, logits=True)


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
    # In pieces: numbers of pairs are int64, eight times as large as a text of bytes.
    for start in range(0, len(tokens) - 1, _CHUNK):
        piece = tokens[start : start + _CHUNK + 1].long()
        counts += torch.bincount(piece[:-1] * vocab_size + piece[1:], minlength=vocab_size * vocab_size)
    return counts.view(vocab_size, vocab_size).double()


def sample(
    model: nn.Module,
    prompt: Tensor,
    *,
    length: int,
    context_length: int | None,
    temperature: float = 1.0,
    seed: int = 0,
    device: torch.device | str = "cpu",
    stops: tuple[int, ...] = (),
) -> Tensor:
    """Continue a prompt by up to `[length]` int64 tokens, on the CPU, where they are drawn.

    Args:
        model: `[1, n] -> [1, n, vocab_size]` logits.
        prompt: `[n]` int64 tokens, n >= 1.
        context_length: how many of the last tokens the model is shown; None for all.
        temperature: divides the logits; 0 takes the likeliest token.
        device: where the model is.
        stops: the tokens before which the text ends.
    """
    options: Any = {"temperature": temperature, "generator": torch.Generator().manual_seed(seed)}
    added = stream(model, prompt.to(device), length, context_length=context_length, stop_tokens=stops, **options)
    return torch.tensor([it for it in added if it not in stops], dtype=torch.int64)
