"""Models that give their loss."""

from typing import Any

from torch import Tensor, nn

from ...errors import ShapeError
from ..learner.steps import StepOutput
from .configs import ModelLossConfig
from .task import Task, call, inputs_and_targets


class ModelLoss(Task):
    """The mean of a batch that the model gives: a number, or a tuple that begins with it.

    Batches are `(inputs, targets)`, or mappings with `labels`. Of a tuple, metrics compare the second value with the
    targets, or without `with_targets` with the inputs, as of an autoencoder.
    """

    def __init__(self, config: ModelLossConfig | None = None) -> None:
        self.config = config or ModelLossConfig()

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        """The result of a batch.

        Raises:
            DataError: the batch has no targets.
            ShapeError: the model gives no number.
        """
        inputs, targets = inputs_and_targets(batch)
        if self.config.with_targets:
            output = model(**inputs, labels=targets) if isinstance(inputs, dict) else model(inputs, targets)
        else:
            output = call(model, inputs)
        loss, *others = output if isinstance(output, tuple) else (output,)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise ShapeError(f"ModelLoss: expected a model that gives its loss, one number, got {got}")
        compared = targets if self.config.with_targets else inputs
        predictions = others[0].detach() if others else None
        return StepOutput(loss.reshape(()), len(targets), predictions, compared if others else None)
