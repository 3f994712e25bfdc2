"""What a Learner calls for each batch, and what it gets."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from ..._torch_compat.pytree import tree_map
from ...errors import AutodiffError, ConfigError, ShapeError, TableIndexError, TargetError


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
    """The forward pass and the loss of a training batch; the Learner calls `backward` and updates the weights."""

    def train_step(self, model: nn.Module, batch: Any, /) -> StepOutput: ...


class ValidStep(Protocol):
    """The forward pass and the loss of a batch that the model is only measured on; no gradients are recorded."""

    def valid_step(self, model: nn.Module, batch: Any, /) -> StepOutput: ...


LossFunction = Callable[[Any, Any], Tensor | StepOutput]
"""`(model, batch) -> loss`: a mean over the items of the batch, or a StepOutput that says of how many values."""


class _Task(NamedTuple):
    """Two functions of a model and a batch."""

    train_step: LossFunction
    valid_step: LossFunction


def task_of(model: nn.Module, loss: LossFunction | None, task: TrainStep | None) -> Any:
    """What has both `train_step(model, batch)` and `valid_step(model, batch)`: a validation that is not defined is what
    training computes.
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


def output_of(result: Any, batch: Any, *, is_training: bool) -> StepOutput:
    """What a step gave as a StepOutput, with a scalar loss."""
    output = result if isinstance(result, StepOutput) else StepOutput(result, items_of(batch))
    loss: Any = output.loss
    if not isinstance(loss, Tensor):
        raise ConfigError(
            f"loss: expected a scalar tensor, or a StepOutput with one, got {type(loss).__name__}, {loss!r:.40}; return"
            " what the model's parameters can be trained by, such as functional.cross_entropy(model(inputs), targets)"
        )
    if loss.numel() != 1:
        raise ShapeError(
            f"loss: expected a scalar, the mean over the items of the batch, got a tensor of {list(loss.shape)}; take"
            " its mean(), or leave out reduction='none'"
        )
    if is_training and not loss.requires_grad:
        raise AutodiffError(
            "loss: expected one that depends on parameters that are trained, got one without a graph; compute it from"
            " the model's output without detach(), item() or no_grad, and with a parameter whose requires_grad is True"
        )
    return output._replace(loss=loss.reshape(())) if loss.dim() else output


@contextmanager
def saying_where(batch: Any, where: Callable[[], str]) -> Iterator[None]:
    """Say of an index without a row in a table, and of a target that is no class, in which batch it was met."""
    try:
        yield
    except IndexError as error:
        if isinstance(error, TableIndexError | TargetError):
            kind = type(error)
        elif any(it in str(error) for it in _OUT_OF_RANGE):
            kind = TableIndexError
        else:
            raise
        raise kind(f"{where()}: {error}; the whole numbers of the batch are {_ranges(batch)}") from error


_OUT_OF_RANGE = ("index out of range in self", "is out of bounds")
"""What torch's embedding and its losses say on the CPU; CUDA devices are not waited for."""


def _ranges(batch: Any) -> str:
    found: list[str] = []

    def note(value: Any) -> None:
        if isinstance(value, Tensor) and value.numel() and not value.is_floating_point() and not value.is_complex():
            found.append(f"{int(value.min())}..{int(value.max())}")

    tree_map(note, batch)
    return " and ".join(found) or "not known"


def items_of(batch: Any) -> int:
    """How many items a batch has: the first size of its first tensor; 1 where there is none."""
    sizes: list[int] = []
    tree_map(lambda it: sizes.append(len(it)) if isinstance(it, Tensor) and it.dim() else None, batch)
    return sizes[0] if sizes else 1
