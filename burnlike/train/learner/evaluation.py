"""Evaluation: the loss and the metrics of a model over all batches of a loader."""

import math
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor

from ...errors import ConfigError
from .steps import StepOutput, output_of, saying_where

if TYPE_CHECKING:
    from .learner import Learner


class LossWindow:
    """Collects losses without waiting for the device that they are on, until their mean is asked for."""

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._device = device
        self._means: list[Tensor] = []
        self._sizes: list[int] = []
        self.restart_clock()

    def restart_clock(self) -> None:
        """Measure the rate from now on: what was done before this moment was not training."""
        self._started_at = time.perf_counter()
        self._timed_size = 0

    def add(self, loss: Tensor, size: int) -> None:
        # That of nothing is NaN, and has no weight.
        self._means.append(loss.detach() if size else torch.zeros_like(loss))
        self._sizes.append(size)
        self._timed_size += size

    def sums(self) -> tuple[float, int]:
        """The sum of all values that were added, and their number."""
        if not self._means:
            return 0.0, 0
        sizes = torch.tensor(self._sizes, dtype=torch.float64)
        means = torch.stack(self._means).double().cpu()
        return (means * sizes).sum().item(), sum(self._sizes)

    def close(self) -> tuple[float, int, float]:
        """The sums, and the values per second; the window is empty afterwards."""
        total, size = self.sums()
        rate = self._timed_size / (time.perf_counter() - self._started_at)
        self.clear()
        self.restart_clock()
        return total, size, rate

    def clear(self) -> None:
        self._means, self._sizes = [], []

    def state_dict(self) -> dict[str, Tensor]:
        means = torch.stack(self._means).double().cpu() if self._means else torch.zeros(0, dtype=torch.float64)
        return {"means": means, "sizes": torch.tensor(self._sizes, dtype=torch.int64)}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self._means, self._sizes = list(state["means"].to(self._device).unbind()), state["sizes"].tolist()


class Metric(Protocol):
    """A number, or several by name, of all predictions and targets of an epoch; `torchmetrics.Metric` is one."""

    def update(self, predictions: Any, targets: Any, /) -> Any: ...
    def compute(self) -> Any: ...
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
            numbers = torch.as_tensor(it).double().flatten().tolist()
            one = len(numbers) == 1
            values |= {key if one else f"{key}.{place}": number for place, number in enumerate(numbers)}
    return values


def states_of(metric: Any) -> Any:
    """What a metric has gathered since its last reset: of torchmetrics, or by a `state_dict` of its own."""
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
