"""EpochMetric, the base of all metrics; the checks of what they take; their states as tensors that can be saved."""

import functools
import warnings
from collections.abc import Callable, Mapping
from string import Formatter
from typing import Any, NamedTuple

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.distributed import gather_all_tensors

from ...backend.tables.reductions import TorchSortOps
from ...config import MetricConfig
from ...data.configs import NO_TARGET
from ...errors import DTypeError, RecordMismatchError, ShapeError, nearest
from ...ops.cross_entropy import check_targets
from .outputs import with_both_classes


def shape_error(metric: object, expected: str, predictions: Tensor, targets: Tensor) -> ShapeError:
    return ShapeError(
        f"{type(metric).__name__}: expected {expected}, got predictions of {list(predictions.shape)} and targets of"
        f" {list(targets.shape)}"
    )


_KINDS: dict[str, Callable[[Any], bool]] = {
    "a tensor": lambda it: isinstance(it, Tensor),
    "floats": Tensor.is_floating_point,
    "integers": lambda it: not (it.is_floating_point() or it.is_complex()),
}


def expect(metric: object, kind: str, **values: Any) -> None:
    """Raise DTypeError unless values are `a tensor`, `floats` (scores, images) or `integers` (classes, tokens)."""
    for what, value in values.items():
        if not _KINDS[kind](value):
            got = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise DTypeError(f"{type(metric).__name__}: {what}: expected {kind}, got {got}")


def scores_and_classes(
    metric: object,
    predictions: Any,
    targets: Any,
    class_dim: int | None,
    least: int = 2,
    *,
    logits: bool = False,
    pad: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The scores as `[n, classes]` and the targets as `[n]` int64: integers of the scores' shape without `class_dim`.

    A single column of `logits` says how likely class 1 is, beside class 0 with the logit 0. Targets of `pad` become
    `NO_TARGET`; on the CPU, others that are no class are a TargetError.
    """
    class_dim = class_dim or -1
    scores = _scores(metric, predictions, targets, class_dim, 1 if logits else least, may_be_one_hot=False)
    expect(metric, "integers", targets=targets)
    scores = with_both_classes(scores) if logits else scores
    classes = targets.flatten().long()  # -100 as uint8 would be class 156
    classes = classes if pad is None else classes.masked_fill(classes == pad, NO_TARGET)
    check_targets(type(metric).__name__, classes, scores.shape[1], NO_TARGET)
    return scores, classes


def best_classes(scores: Tensor, k: int) -> Tensor:
    """The classes with the k highest of `[n, classes]` scores, `[n, k]`, NaN before all; of equal ones the first.

    `torch.topk` takes any of equal ones, so that its choice of tied scores may be another on each device.
    """
    if k == 1:
        return scores.max(dim=1, keepdim=True).indices
    return TorchSortOps.argtopk(scores, k, 1, torch.int64)


class Truth(NamedTuple):
    """The truth about scores `[n, classes]`.

    Attributes:
        holds: whether a class is one of the item's: `[n, classes]` bool.
        counts: whether that is known: bool, `[n, classes]` or `[n, 1]`.
        is_exclusive: whether each item has one of several classes.
    """

    holds: Tensor
    counts: Tensor
    is_exclusive: bool


def scores_and_truth(metric: object, predictions: Any, targets: Any, class_dim: int | None) -> tuple[Tensor, Truth]:
    """The scores as `[n, classes]`, and the truth about them.

    The targets are zeros and ones of the shape of the scores; or integers of this shape without `class_dim`: the class
    of each item, or with a single column of scores 0 or 1. A target of `NO_TARGET` does not count; on the CPU, others
    that are none of these are a TargetError.
    """
    class_dim = class_dim or -1
    scores = _scores(metric, predictions, targets, class_dim, 1, may_be_one_hot=True)
    if targets.shape == predictions.shape:
        labels = _rows(targets.detach(), class_dim)
        check_targets(type(metric).__name__, labels, 2, NO_TARGET)
        return scores, Truth(labels > 0.5, labels != NO_TARGET, is_exclusive=False)
    expect(metric, "integers", targets=targets)
    classes = targets.flatten().long()
    check_targets(type(metric).__name__, classes, max(2, scores.shape[1]), NO_TARGET)
    classes = classes.unsqueeze(1)
    counts = classes != NO_TARGET
    if scores.shape[1] == 1:
        return scores, Truth(classes > 0, counts, is_exclusive=False)
    return scores, Truth(classes == classes.new_ones(scores.shape[1]).cumsum(0) - 1, counts, is_exclusive=True)


def _scores(
    metric: object, predictions: Any, targets: Any, class_dim: int, least: int, *, may_be_one_hot: bool
) -> Tensor:
    expect(metric, "a tensor", predictions=predictions, targets=targets)
    sizes = [*predictions.shape]
    fits = len(sizes) >= 2 and sizes.pop(class_dim) >= least
    is_one_hot = may_be_one_hot and targets.shape == predictions.shape
    if not fits or not (is_one_hot or [*targets.shape] == sizes):
        order = "[n, ..., classes]" if class_dim == -1 else "[n, classes, ...]"
        several = f" with at least {least} classes" if least > 1 else ""
        classes = f"targets [n, ...] of classes or {order} of zeros and ones" if may_be_one_hot else "targets [n, ...]"
        expected = f"predictions {order}{several} and {classes} (class_dim is {class_dim})"
        raise shape_error(metric, expected, predictions, targets)
    expect(metric, "floats", predictions=predictions)
    return _rows(predictions, class_dim)


def _rows(values: Tensor, class_dim: int) -> Tensor:
    return values.movedim(class_dim, -1).flatten(0, -2)


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
        knows: keywords of `update` that a task may know: `logits`, whether predictions are no probabilities, and
            `class_dim`, the dimension of their classes.
    """

    full_state_update = False
    compares = True
    knows: tuple[str, ...] = ()
    unit: str | None = None

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self._list_dtypes: dict[str, torch.dtype] = {}
        # Of the object: torchmetrics puts a wrapped `compute` there, too, which warns, before that of the class.
        self.compute = _quiet(self, self.compute)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)  # which wraps the `compute` of the class anew
        self.compute = _quiet(self, self.compute)

    def add_sum(self, name: str, *shape: int) -> None:
        """Add a state of zeros, to which batches and ranks are added."""
        self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def add_list(self, name: str, dtype: torch.dtype) -> None:
        """Add a state to which batches append tensors of this dtype, which are joined along their first dimension."""
        self.add_state(name, [], dist_reduce_fx="cat")
        self._list_dtypes[name] = dtype

    def joined(self, name: str) -> Tensor:
        """The values that all batches, and after a sync all ranks, have appended to a list: `[n, ...]`."""
        state = getattr(self, name)
        # An empty one first: torch.cat takes no empty list, and a rank may have had no batch.
        empty = torch.empty(0, dtype=self._list_dtypes[name], device=self.device)
        return state if isinstance(state, Tensor) else torch.cat([empty, *state])

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
        """Replace the states by those of all ranks together, as torchmetrics does, even if a rank has no batch."""
        available = distributed_available or self.distributed_available_fn
        if should_sync and available():
            gather = dist_sync_fn or gather_all_tensors
            self.prepare_sync(functools.partial(gather, group=process_group or self.process_group))
        super().sync(dist_sync_fn, process_group, should_sync, distributed_available)

    def prepare_sync(self, gather: Callable[[Tensor], list[Tensor]]) -> None:
        """Give the states the dtypes and shapes of the other ranks; `gather` gives what all ranks call it with."""
        for name in self._list_dtypes:
            if getattr(self, name) == []:
                setattr(self, name, [self.joined(name)])


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


class ConfiguredMetric(EpochMetric):
    """A metric of a config: `of`, without fields of its own, where none is given.

    A class of one family is a row of its table: the keywords of the class line are attributes (or functions) of it.

    Attributes:
        title: its name in Burn, with fields of the config in braces.
        sums: names of states that are scalars, added over batches and ranks.
    """

    title = ""
    sums: tuple[str, ...] = ()
    config: Any
    _default: type[MetricConfig]

    def __init_subclass__(cls, of: type[MetricConfig] | None = None, **row: Any) -> None:
        super().__init_subclass__()
        if of is not None:
            cls._default, cls.higher_is_better = of, of.higher_is_better
        for name, value in row.items():
            setattr(cls, name, staticmethod(value) if callable(value) else value)

    def __init__(self, config: MetricConfig | None = None) -> None:
        self.config = config or self._default()
        super().__init__(self.config.name or self.with_fields(self.title))
        for name in self.sums:
            self.add_sum(name)

    def with_fields(self, text: str) -> str:
        """A text with the config's values for their names in braces, numbers as Burn writes them: `1`, `0.5`."""
        values: dict[str, Any] = {}
        for name in (name for _, name, _, _ in Formatter().parse(text) if name):
            value = getattr(self.config, name)
            values[name] = f"{value:.0f}" if isinstance(value, float) and value.is_integer() else value
        return text.format_map(values)


class MeanMetric(ConfiguredMetric):
    """total / weight."""

    sums = ("total", "weight")
    total: Tensor
    weight: Tensor

    def add(self, total: Tensor | float, weight: Tensor | float) -> None:
        self.total = self.total + total
        self.weight = self.weight + weight

    def compute(self) -> Tensor:
        return self.total / self.weight


def metric_state(metric: torchmetrics.Metric) -> dict[str, Tensor | list[Tensor]]:
    """Copies of what any metric of torchmetrics has gathered since its last reset, by the names of its states.

    Those of metrics in it, of a collection or a wrapper, are there by their paths.
    """
    return {name: _copied(getattr(part, attribute)) for name, (part, attribute) in _states_in(metric).items()}


def _states_in(metric: torchmetrics.Metric) -> dict[str, tuple[torchmetrics.Metric, str]]:
    parts = [(path, part) for path, part in metric.named_modules() if isinstance(part, torchmetrics.Metric)]
    return {f"{path}.{name}" if path else name: (part, name) for path, part in parts for name in part.metric_state}


def restore_metric(metric: torchmetrics.Metric, state: Mapping[str, Tensor | list[Tensor]]) -> None:
    """Restore a metric, on its own device, from a copy of its `metric_state`; its present state is dropped.

    The state of another metric is a RecordMismatchError; nothing was changed.
    """
    places, kind = _states_in(metric), type(metric).__name__
    states = {name: getattr(part, attribute) for name, (part, attribute) in places.items()}
    if missing := next((name for name in states if name not in state), None):
        raise RecordMismatchError(f"{kind}: the state has no '{missing}'{nearest(missing, [*state])}")
    for name, value in state.items():
        if name not in states:
            raise RecordMismatchError(f"{kind}: the state has '{name}', and the metric has not")
        if isinstance(value, Tensor) != isinstance(states[name], Tensor):
            expected = "a tensor" if isinstance(states[name], Tensor) else "a list of tensors"
            raise RecordMismatchError(f"{kind}: the state '{name}': expected {expected}, got {type(value).__name__}")
    metric.reset()
    for name, value in state.items():
        part, attribute = places[name]
        on_device = value.to(part.device) if isinstance(value, Tensor) else [it.to(part.device) for it in value]
        setattr(part, attribute, _copied(on_device))


def _copied(state: Tensor | list[Tensor]) -> Tensor | list[Tensor]:
    return state.detach().clone() if isinstance(state, Tensor) else [tensor.detach().clone() for tensor in state]
