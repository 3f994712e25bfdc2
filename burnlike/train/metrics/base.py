"""EpochMetric: the base of all metrics."""

import functools
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.distributed import gather_all_tensors

_NO_UPDATE = "The ``compute`` method of metric"


class EpochMetric(torchmetrics.Metric):
    """A value of all batches of an epoch, and of all ranks: never a mean of the values of batches.

    The states are sums in float64, or lists of what batches gave. So states of parts of an epoch can be merged, and
    `metric_state` and `restore_metric` keep them exactly. At the first update the states move to the device of the
    predictions; otherwise `update` does not wait for the device. The value is a float64 scalar, NaN before the first
    update. A NaN among the predictions makes it NaN. Predictions and targets whose shapes don't fit are a ShapeError,
    and dtypes that can't be meant a DTypeError.

    Attributes:
        name: what it is called; Burn's name unless the config gives another.
        unit: of the value, such as `%`; None for a plain number.
        compares: whether it looks at predictions and targets.
    """

    full_state_update = False
    compares = True
    unit: str | None = None

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._list_dtypes: dict[str, torch.dtype] = {}
        self.compute = _quiet(self, self.compute)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.compute = _quiet(self, self.compute)

    def add_sum(self, name: str, *shape: int) -> None:
        """Add a state of zeros, to which batches and ranks are added."""
        self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def add_list(self, name: str, dtype: torch.dtype) -> None:
        """Add a state to which batches append tensors of one dimension and of this dtype."""
        self.add_state(name, [], dist_reduce_fx="cat")
        self._list_dtypes[name] = dtype

    def joined(self, name: str) -> Tensor:
        """What all batches, and after a sync all ranks, have appended to a list: `[n]`."""
        state = getattr(self, name)
        return state if isinstance(state, Tensor) else torch.cat([self._empty(name), *state])

    def follow(self, predictions: Tensor) -> None:
        """Move the states to where the predictions are."""
        if predictions.device != self.device:
            self.to(predictions.device)

    def sync(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any | None = None,
        should_sync: bool = True,
        distributed_available: Callable[..., bool] | None = None,
    ) -> None:
        """Replace the states by those of all ranks together, as torchmetrics does; also if a rank has no batch."""
        available = distributed_available or self.distributed_available_fn
        if should_sync and available():
            gather = dist_sync_fn or gather_all_tensors
            self.prepare_sync(functools.partial(gather, group=process_group or self.process_group))
        super().sync(dist_sync_fn, process_group, should_sync, distributed_available)

    def prepare_sync(self, gather: Callable[[Tensor], list[Tensor]]) -> None:
        """Give the states the dtypes and shapes that they have on the other ranks.

        Args:
            gather: gives the tensors that all ranks call it with.
        """
        for name in self._list_dtypes:
            if getattr(self, name) == []:
                setattr(self, name, [self._empty(name)])

    def _empty(self, name: str) -> Tensor:
        return torch.empty(0, dtype=self._list_dtypes[name], device=self.device)


def _quiet(metric: EpochMetric, compute: Callable[[], Any]) -> Callable[[], Any]:
    """`compute` without torchmetrics' warning about a value before the first update: NaN says so."""

    @functools.wraps(compute)
    def computed() -> Any:
        if metric.update_called:
            return compute()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=_NO_UPDATE, category=UserWarning)
            return compute()

    return computed


def number_text(value: float) -> str:
    """The shortest text of a number, as Burn has it in the names of metrics: `255`, `0.5`."""
    return str(int(value)) if value.is_integer() else repr(value)
