"""The loss and the metrics over all batches of a loader, and over all processes."""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from ...errors import ConfigError
from ...ops._divided import whole
from .steps import LossWindow, StepOutput, add_batch_to_errors, evaluation_mode, output_of

if TYPE_CHECKING:
    from ..parallel.single_process import SingleProcess
    from .learner import Learner


_SHOWN_REASONS = 3


def part_means(window: LossWindow, parallel: "SingleProcess") -> dict[str, float]:
    """The means of the parts of a loss over all processes, as `loss.name`."""
    names = sorted({name for of_rank in parallel.gather([*window.parts]) for name in of_rank})
    if not names:
        return {}
    local_sums = [window.parts[name].sums() if name in window.parts else (0.0, 0) for name in names]
    sums = parallel.sums([it for pair in local_sums for it in pair])
    totals = zip(names, sums[::2], sums[1::2], strict=True)
    return {f"loss.{name}": total / size for name, total, size in totals if size}


def left_out_of(loader: Any, parallel: "SingleProcess", skipped_before: int) -> str:
    """How many items a loader has left out since then, in all processes, and why the first of them; empty for none."""
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
    losses = LossWindow()

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
                    losses.add(output.loss, output.size, output.parts)
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
    for metric in metrics.values():
        facts: Any = {name: getattr(output, name) for name in getattr(metric, "knows", ())}
        metric.update(predictions, output.targets, **facts)


def values_of(metrics: Mapping[str, Metric], parallel: "SingleProcess") -> dict[str, float]:
    """The values of all metrics over all processes; one that has several gives `name.part` for each."""
    values: dict[str, float] = {}
    for name, metric in metrics.items() if parallel.has_predictions else ():
        with _counted_over(parallel.data_group, metric):
            value = metric.compute()
        parts = {f"{name}.{part}": it for part, it in value.items()} if isinstance(value, Mapping) else {name: value}
        for key, part_value in parts.items():
            numbers = torch.as_tensor(part_value).double().flatten().tolist()
            one = len(numbers) == 1
            values |= {key if one else f"{key}.{place}": number for place, number in enumerate(numbers)}
    return parallel.with_predictions(values) if metrics else values


@contextmanager
def _counted_over(group: Any, metric: Any) -> Iterator[None]:
    """Let metrics of torchmetrics, and those nested in them, gather over `group`, unless the user chose another."""
    modules = metric.modules() if group is not None and isinstance(metric, nn.Module) else ()
    parts: list[Any] = [it for it in modules if getattr(it, "process_group", group) is None]
    for part in parts:
        part.process_group = group
    try:
        yield
    finally:
        for part in parts:  # a group can't be copied, as metrics are
            part.process_group = None


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


def detached(output: StepOutput) -> StepOutput:
    predictions = output.predictions
    return output._replace(predictions=predictions.detach()) if isinstance(predictions, Tensor) else output
