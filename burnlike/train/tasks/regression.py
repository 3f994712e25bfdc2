"""Regression: numbers for each item."""

from typing import Any

from torch import nn
from torch.nn import functional

from ...errors import ShapeError
from ..learner.steps import StepOutput
from .configs import RegressionConfig
from .task import Task, call, inputs_and_targets, logits_of

_LOSSES = {"mse": functional.mse_loss, "mae": functional.l1_loss, "huber": functional.huber_loss}


class Regression(Task):
    """The mean error of predictions, of the shape of the targets; a last size of 1 may be missing in one of them.

    Batches are `(inputs, targets)`, or mappings with `labels`. Metrics get the predictions and the targets.
    """

    def __init__(self, config: RegressionConfig | None = None) -> None:
        self.config = config or RegressionConfig()

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        """The result of a batch.

        Raises:
            DataError: the batch has no targets.
            ShapeError: predictions and targets don't fit each other.
        """
        inputs, targets = inputs_and_targets(batch)
        predictions = logits_of(call(model, inputs))
        if predictions.shape == (*targets.shape, 1):
            predictions = predictions.squeeze(-1)
        elif targets.shape == (*predictions.shape, 1):
            targets = targets.squeeze(-1)
        if predictions.shape != targets.shape:
            raise ShapeError(
                f"Regression: expected predictions and targets of one shape, got {list(predictions.shape)} and"
                f" {list(targets.shape)}"
            )
        loss = _LOSSES[self.config.loss](predictions, targets.to(predictions.dtype))
        return StepOutput(loss, len(targets), predictions.detach(), targets)
