"""The state of a metric in the middle of an epoch, as tensors that can be saved."""

from collections.abc import Mapping

import torchmetrics
from torch import Tensor

from ...errors import RecordMismatchError, nearest


def metric_state(metric: torchmetrics.Metric) -> dict[str, Tensor | list[Tensor]]:
    """Copies of what any metric of torchmetrics has gathered since its last reset, by the names of its states."""
    return {name: _copied(state) for name, state in metric.metric_state.items()}


def restore_metric(metric: torchmetrics.Metric, state: Mapping[str, Tensor | list[Tensor]]) -> None:
    """Make a metric go on from what `metric_state` gave: further batches are added to it.

    Args:
        metric: made as the one whose state it is. What it has gathered is forgotten; it stays on its device.
        state: of `metric_state`. Its tensors are copied.

    Raises:
        RecordMismatchError: it is the state of another metric; nothing was changed.
    """
    own = metric.metric_state
    kind = type(metric).__name__
    for name in own:
        if name not in state:
            raise RecordMismatchError(f"{kind}: the state has no '{name}'{nearest(name, [*state])}")
    for name, value in state.items():
        if name not in own:
            raise RecordMismatchError(f"{kind}: the state has '{name}', and the metric has not")
        if isinstance(value, Tensor) != isinstance(own[name], Tensor):
            expected = "a tensor" if isinstance(own[name], Tensor) else "a list of tensors"
            raise RecordMismatchError(f"{kind}: the state '{name}': expected {expected}, got {type(value).__name__}")
    metric.reset()
    for name, value in state.items():
        on_device = value.to(metric.device) if isinstance(value, Tensor) else [it.to(metric.device) for it in value]
        setattr(metric, name, _copied(on_device))


def _copied(state: Tensor | list[Tensor]) -> Tensor | list[Tensor]:
    return state.detach().clone() if isinstance(state, Tensor) else [it.detach().clone() for it in state]
