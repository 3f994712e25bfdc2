"""What a Learner calls for each batch, and what it gets."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn


class StepOutput(NamedTuple):
    """The result of one batch.

    Attributes:
        loss: scalar, a mean; differentiable in training.
        size: how many values it is the mean of: its weight when batches are averaged.
        predictions: what metrics compare with the targets; None if there is nothing to compare.
        targets: what was expected.
    """

    loss: Tensor
    size: int
    predictions: Any = None
    targets: Any = None


class TrainStep(Protocol):
    """The forward pass and the loss of a training batch."""

    def train_step(self, model: nn.Module, batch: Any, /) -> StepOutput:
        """The result of `batch`; the Learner calls `backward` and updates the weights."""
        ...


class ValidStep(Protocol):
    """The forward pass and the loss of a batch that the model is only measured on."""

    def valid_step(self, model: nn.Module, batch: Any, /) -> StepOutput:
        """The result of `batch`; no gradients are recorded."""
        ...


LossFunction = Callable[[Any, Any], Tensor | StepOutput]
"""`(model, batch) -> loss`: a mean over the items of the batch, or a StepOutput that says of how many values."""
