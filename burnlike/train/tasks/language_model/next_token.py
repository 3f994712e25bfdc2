"""The loss of a language model."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from ....errors import DataError
from ....ops import cross_entropy
from ...learner.steps import StepOutput
from ..task import logits_of


def next_token_loss(model: nn.Module, batch: Tensor) -> StepOutput:
    """Cross-entropy of each token given those before it, in nats.

    In training, a model that says `has_balance` is called `with_balance=True`, which adds what keeps the experts of a
    mixture in balance.

    Args:
        model: `[batch, n] -> [batch, n, vocab_size]` logits, or an object with such `logits`.
        batch: `[batch, n + 1]` integer tokens.

    Raises:
        DataError: the batch is none of tokens.
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
    return StepOutput(loss if balance is None else loss + balance, targets.numel(), logits.detach(), targets)


def loss_function(model: nn.Module) -> Callable[[Any, Any], StepOutput]:
    """The model's own `loss(batch) -> StepOutput` if it defines one, else `next_token_loss`."""
    if callable(getattr(type(model), "loss", None)):
        return lambda model, batch: model.loss(batch)
    return next_token_loss
