"""The functions that a Learner calls for each batch, their results, and losses and metrics over many batches."""

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from ..._torch_compat.pytree import tree_leaves
from ...errors import AutodiffError, BurnlikeError, ConfigError, ShapeError, TableIndexError, TargetError
from ...ops._divided import whole
from ..parallel.step_output import StepOutput as StepOutput, items_of
from .configs import ComputePrecision

if TYPE_CHECKING:
    from ..parallel.single_process import SingleProcess
    from .learner import Learner


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
    """An object with `train_step(model, batch)` and `valid_step(model, batch)`: without a validation of its own, it
    computes there what training computes.
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
    """The result of a step as a StepOutput, with a scalar loss."""
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
def add_batch_to_errors(batch: Any, where: Callable[[], str]) -> Iterator[None]:
    """Add the place and numbers of a batch to errors of an index without a row, and of a target that is no class."""
    try:
        yield
    except IndexError as error:
        if isinstance(error, TableIndexError | TargetError):
            kind = type(error)
        elif any(it in str(error) for it in _OUT_OF_RANGE):
            kind = TableIndexError
        else:
            raise
        ranges = [
            f"{int(leaf.min())}..{int(leaf.max())}"
            for leaf in tree_leaves(batch)
            if isinstance(leaf, Tensor) and leaf.numel() and not (leaf.is_floating_point() or leaf.is_complex())
        ]
        numbers = " and ".join(ranges) or "not known"
        raise kind(f"{where()}: {error}; the whole numbers of the batch are {numbers}") from error


_OUT_OF_RANGE = ("index out of range in self", "is out of bounds")
"""What torch's embedding and its losses say on the CPU; CUDA devices are not waited for."""


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """The model is in evaluation mode within the `with` block; each module gets its own mode back."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, was_training in modes:
            module.training = was_training


class LossWindow:
    """Collects losses without waiting for the device that they are on, until their mean is asked for.

    Attributes:
        rate: values per second of this process, when the window was closed last.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = device
        self._means: list[Tensor] = []
        self._sizes: list[float] = []
        self.parts: dict[str, LossWindow] = {}
        self.rate = 0.0
        self.restart_clock()

    def restart_clock(self) -> None:
        """Restart the clock of the rate: time before this moment was not spent on training."""
        self._started_at = time.perf_counter()
        self._timed_size = 0.0

    def add(self, output: StepOutput) -> None:
        self._add(output.loss, output.size)
        for name, part in output.parts.items():
            size = output.part_sizes.get(name, output.size)
            self.parts.setdefault(name, LossWindow(self._device))._add(part, size)

    def _add(self, loss: Tensor, size: float) -> None:
        # That of nothing is NaN, and has no weight.
        self._means.append(loss.detach() if size else torch.zeros_like(loss))
        self._sizes.append(size)
        self._timed_size += size

    def sums(self) -> tuple[float, float]:
        """The sum of all values that were added, and their number."""
        if not self._means:
            return 0.0, 0
        # In float64: the sum of a long epoch's losses would round in float32.
        sizes = torch.tensor(self._sizes, dtype=torch.float64)
        means = torch.stack(self._means).double().cpu()
        return (means * sizes).sum().item(), sum(self._sizes)

    def close(self) -> tuple[float, float, float]:
        """The sums, and the values per second; the window is empty afterwards."""
        total, size = self.sums()
        self.rate = self._timed_size / (time.perf_counter() - self._started_at)
        self.clear()
        self.restart_clock()
        return total, size, self.rate

    def clear(self) -> None:
        self._means, self._sizes, self.parts = [], [], {}

    def state_dict(self) -> dict[str, Any]:
        means = torch.stack(self._means).double().cpu() if self._means else torch.zeros(0, dtype=torch.float64)
        kind = torch.int64 if all(isinstance(size, int) for size in self._sizes) else torch.float64
        state = {"means": means, "sizes": torch.tensor(self._sizes, dtype=kind)}
        return state | ({"parts": {name: part.state_dict() for name, part in self.parts.items()}} if self.parts else {})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._means, self._sizes = list(state["means"].to(self._device).unbind()), state["sizes"].tolist()
        self.parts = {}
        for name, part in state.get("parts", {}).items():
            self.parts[name] = LossWindow(self._device)
            self.parts[name].load_state_dict(part)


def autocast(device: torch.device, precision: ComputePrecision) -> AbstractContextManager[Any]:
    """Within it, torch computes in a precision; in float32 in the types of the weights."""
    if precision == "float32":
        return nullcontext()
    return torch.autocast(device.type, torch.float16 if precision == "float16" else torch.bfloat16)


_SHOWN_REASONS = 3


def part_means(window: LossWindow, parallel: "SingleProcess") -> dict[str, float]:
    """The means of the parts of a loss over all processes, as `loss.name`."""
    names = sorted({name for of_rank in parallel.gather([*window.parts]) for name in of_rank})
    if not names:
        return {}
    local_sums = [window.parts[name].sums() if name in window.parts else (0.0, 0) for name in names]
    sums = parallel.sums([it for pair in local_sums for it in pair])
    totals = zip(names, sums[::2], sums[1::2], strict=True)
    means = {name: total / size for name, total, size in totals if size}
    # A difference of means of different numbers of answers is no mean of differences.
    if {"rewards_chosen", "rewards_rejected"} <= {*means}:
        means["margins"] = means["rewards_chosen"] - means["rewards_rejected"]
    return {f"loss.{name}": means[name] for name in sorted(means)}


def left_out_of(loader: Any, parallel: "SingleProcess", skipped_before: int) -> str:
    """The number of items left out since then, in all processes, and the reason for the first; empty for none."""
    if getattr(loader, "on_bad_item", "raise") != "skip":
        return ""
    skipped = loader.skipped - skipped_before, loader.left_out
    # Processes that read the same items count once.
    skipped_by_rank = dict(parallel.gather((parallel.data_rank, skipped)))
    total = sum(count for count, _ in skipped_by_rank.values())
    reasons = [text for _, texts in skipped_by_rank.values() for text in texts][:_SHOWN_REASONS]
    told = "; ".join([*reasons, *["..."] * (total > len(reasons))])
    return f"left out {total} items that can't be read: {told}" if total else ""


class Metric(Protocol):
    """A number, or several by name, of all predictions and targets of an epoch; `torchmetrics.Metric` is one."""

    def update(self, predictions: Any, targets: Any, /) -> Any: ...
    def compute(self) -> Any: ...
    def reset(self) -> Any: ...


@torch.no_grad()
def evaluate(learner: "Learner[Any]", loader: Any) -> dict[str, float]:
    """The loss, every value of equal weight, and the metrics over the loader's first epoch; nothing is changed."""
    model = learner.model
    # Running statistics differ among processes, each of its own items; all measure with those that are saved.
    learner.parallel.share_buffers(model)
    loader.rewind()
    losses = LossWindow()  # not the learner's, which has the losses since the last line of the training

    def compute(batch: Any) -> StepOutput:
        with learner.autocast(), add_batch_to_errors(batch, lambda: f"validation after step {learner.step}"):
            return output_of(learner.task.valid_step(model, batch), batch, is_training=False)

    try:
        with evaluation_mode(model):
            with learner.final_weights():
                for batch in loader:
                    output = learner.parallel.measure(compute, batch)
                    if getattr(loader, "is_padding", False):
                        continue
                    losses.add(output)
                    if learner.parallel.has_predictions:
                        update_metrics(learner.metrics, output)
            total, size = learner.parallel.sums(losses.sums())
            parts = part_means(losses, learner.parallel)
            values = values_of(learner.metrics, learner.parallel)
            return {"loss": total / size if size else math.nan, **parts, **values}
    finally:
        for metric in learner.metrics.values():
            metric.reset()


def update_metrics(metrics: Mapping[str, Metric], output: StepOutput) -> None:
    if output.predictions is None and not output.size:  # of a pipeline, in whose micro-batches nothing counts
        return
    comparing = [name for name, metric in metrics.items() if getattr(metric, "compares", True)]
    if comparing and output.predictions is None:
        raise ConfigError(
            f"metrics: {', '.join(comparing)} compare predictions with targets, and the loss gives none; return"
            " StepOutput(loss, size, predictions, targets), or use a task such as Classification"
        )
    predictions = whole(output.predictions) if comparing else output.predictions  # logits may be divided
    predictions = predictions.detach() if isinstance(predictions, Tensor) else predictions  # metrics keep no graph
    for metric in metrics.values():
        facts: Any = {name: getattr(output, name) for name in getattr(metric, "knows", ())}
        metric.update(predictions, output.targets, **facts)


def values_of(metrics: Mapping[str, Metric], parallel: "SingleProcess") -> dict[str, float]:
    """The values of all metrics over all processes; one that has several gives `name.part` for each, `name` for that of
    the part ''.
    """
    values: dict[str, float] = {}
    for name, metric in metrics.items() if parallel.has_predictions else ():
        try:
            with _counted_over(parallel.data_group, metric):
                value = metric.compute()
        except Exception as error:
            if isinstance(error, BurnlikeError) or parallel.world_size > 1:  # that of a lost process is explained
                raise
            raise ConfigError(f"metrics: {name}: compute() failed: {type(error).__name__}: {error}") from error
        for names, numbers in named_numbers(name, value):
            values |= zip(names, numbers.tolist(), strict=True)
    return parallel.with_predictions(values) if metrics else values


def named_numbers(name: str, value: Any) -> Iterator[tuple[list[str], Tensor]]:
    """The names and the numbers of each part of the value of the metric `name`, those of a list by their places."""
    for part, numbers in value.items() if isinstance(value, Mapping) else [("", value)]:
        key = f"{name}.{part}" if part else name
        try:
            flat = torch.as_tensor(numbers).double().flatten()
        except (RuntimeError, TypeError, ValueError) as error:
            got = f"{type(numbers).__name__}, {numbers!r:.40}"
            wanted = "a number, a tensor of numbers, or several by name"
            raise ConfigError(f"metrics: {key}: expected {wanted} from compute(), got {got}") from error
        yield [key] if len(flat) == 1 else [f"{key}.{place}" for place in range(len(flat))], flat


@contextmanager
def _counted_over(group: Any, metric: Any) -> Iterator[None]:
    """Let metrics of torchmetrics, and those nested in them, gather over `group`, unless the user chose another."""
    modules = metric.modules() if group is not None and isinstance(metric, nn.Module) else ()
    parts: list[Any] = [module for module in modules if getattr(module, "process_group", group) is None]
    for part in parts:
        part.process_group = group
    try:
        yield
    finally:
        for part in parts:  # a group can't be copied, as metrics are
            part.process_group = None


def expect_methods(where: str, metrics: Any, *methods: str) -> None:
    """Refuse metrics without names, and those that lack a method."""
    if not isinstance(metrics, Mapping):
        raise ConfigError(f"{where}: expected metrics by their names, such as {{'accuracy': ...}}, got {metrics!r:.60}")
    for name, metric in metrics.items():
        if isinstance(metric, type) or not all(callable(getattr(metric, it, None)) for it in methods):
            raise ConfigError(f"{where}: expected {name} to be an object with {', '.join(methods)}, got {metric!r:.60}")


def states_of(metric: Any) -> Any:
    """States that a metric has gathered since its last reset: of torchmetrics, or its own `state_dict`."""
    if hasattr(metric, "metric_state"):
        from ..metrics.base import metric_state  # torchmetrics is not needed by a program without metrics

        return metric_state(metric)
    return metric.state_dict()


def put_states(metric: Any, states: Any) -> None:
    if hasattr(metric, "metric_state"):
        from ..metrics.base import restore_metric

        restore_metric(metric, states)
    else:
        metric.load_state_dict(states)
