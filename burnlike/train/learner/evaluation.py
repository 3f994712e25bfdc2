"""Evaluation: the loss and the metrics of a model over all batches of a loader."""

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ...errors import ConfigError
from .steps import StepOutput, output_of, saying_where
from .window import LossWindow

if TYPE_CHECKING:
    from .learner import Learner


class Metric(Protocol):
    """A number that is computed of all predictions and targets of an epoch; `torchmetrics.Metric` is one."""

    def update(self, predictions: Any, targets: Any, /) -> Any: ...

    def compute(self) -> Any:
        """The value over all batches since the last reset: a scalar, or several by name."""
        ...

    def reset(self) -> Any: ...


@torch.no_grad()
def evaluate(learner: "Learner[Any]", loader: Any) -> dict[str, float]:
    """The loss, every value of equal weight, and the metrics over the loader's first epoch; nothing is changed."""
    model = learner.model
    learner.parallel.share_buffers(model)
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    loader.rewind()
    losses = LossWindow()
    try:
        with learner.final_weights():
            for batch in loader:
                with learner.autocast(), saying_where(batch, lambda: f"validation after step {learner.step}"):
                    result = learner.task.valid_step(model, batch)
                output = output_of(result, batch, is_training=False)
                if getattr(loader, "is_padding", False):
                    continue
                losses.add(output.loss, output.size)
                update_metrics(learner.metrics, output)
        total, size = learner.parallel.sums(losses.sums())
        return {"loss": total / size if size else math.nan, **values_of(learner.metrics)}
    finally:
        for metric in learner.metrics.values():
            metric.reset()
        for module, was_training in modes:
            module.training = was_training


def update_metrics(metrics: Mapping[str, Metric], output: StepOutput) -> None:
    """Give a batch to all metrics."""
    comparing = [name for name, metric in metrics.items() if getattr(metric, "compares", True)]
    if comparing and output.predictions is None:
        raise ConfigError(
            f"metrics: {', '.join(comparing)} compare predictions with targets, and the loss gives none; return"
            " StepOutput(loss, size, predictions, targets), or use a task such as Classification"
        )
    for metric in metrics.values():
        metric.update(output.predictions, output.targets)


def values_of(metrics: Mapping[str, Metric]) -> dict[str, float]:
    """The values of all metrics; one that has several gives `name.part` for each."""
    values: dict[str, float] = {}
    for name, metric in metrics.items():
        value = metric.compute()
        parts = {f"{name}.{part}": it for part, it in value.items()} if isinstance(value, Mapping) else {name: value}
        for key, it in parts.items():
            numbers = torch.as_tensor(it).double()
            if numbers.numel() == 1:
                values[key] = numbers.item()
            else:
                values |= {f"{key}.{place}": number for place, number in enumerate(numbers.flatten().tolist())}
    return values


def states_of(metric: Any) -> Any:
    """What a metric has gathered since its last reset: of torchmetrics, or by a `state_dict` of its own."""
    if hasattr(metric, "metric_state"):
        from ..metrics.states import metric_state  # torchmetrics is not needed by a program without metrics

        return metric_state(metric)
    return metric.state_dict()


def put_states(metric: Any, states: Any) -> None:
    if hasattr(metric, "metric_state"):
        from ..metrics.states import restore_metric

        restore_metric(metric, states)
    else:
        metric.load_state_dict(states)


def detached(output: StepOutput) -> StepOutput:
    predictions = output.predictions
    return output._replace(predictions=predictions.detach() if isinstance(predictions, Tensor) else predictions)
