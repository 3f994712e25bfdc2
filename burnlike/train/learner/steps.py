"""What a Learner calls for each batch, and what it gets."""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from ...errors import ConfigError


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


class _Task:
    """Two functions of a model and a batch."""

    def __init__(self, train_step: LossFunction, valid_step: LossFunction) -> None:
        self.train_step = train_step
        self.valid_step = valid_step


def task_of(model: nn.Module, loss: LossFunction | None, task: TrainStep | None) -> Any:
    """What has both `train_step(model, batch)` and `valid_step(model, batch)`: a validation that is not defined is what
    training computes.

    Raises:
        ConfigError: there is nothing to train with, or there are two.
    """
    if loss is not None and task is not None:
        raise ConfigError("a Learner takes a loss or a task, not both")
    if loss is not None:
        return _Task(loss, loss)
    if task is not None:
        if not callable(getattr(task, "train_step", None)):
            raise ConfigError(f"task: expected an object with train_step(model, batch), got {task!r:.80}")
        return task if callable(getattr(task, "valid_step", None)) else _Task(task.train_step, task.train_step)
    if callable(getattr(type(model), "train_step", None)):
        name = "valid_step" if callable(getattr(type(model), "valid_step", None)) else "train_step"
        return _Task(lambda model, batch: model.train_step(batch), lambda model, batch: getattr(model, name)(batch))
    raise ConfigError(
        "expected a loss: `loss=lambda model, batch: ...`, a `task=` with train_step(model, batch), or a"
        f" {type(model).__name__} that defines train_step(batch)"
    )
