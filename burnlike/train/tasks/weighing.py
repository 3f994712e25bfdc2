"""Losses of a training that give more weight to some classes, or to hard items; measured losses have none."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from ..._torch_compat.fake_tensors import is_fake
from ...data.configs import NO_TARGET
from ...data.orders import targets_of
from ...data.sources.splits import classes_of
from ...errors import ConfigError, DataError, nearest
from ...ops.cross_entropy import unrounded_loss

_LEAST = 1e-8
"""Of 1 - p: for a gamma below 1 the derivative of 0^gamma is infinite."""


def whole(values: Tensor) -> Tensor:
    """Values of 16 bits in float32, in which losses are computed."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


class Weighing(NamedTuple):
    """How the losses of items are weighed.

    Attributes:
        weights: float32 `[classes]`; None: all 1.
        focal_gamma: the loss is multiplied by (1 - p)^gamma, where p is the probability of what is right (Lin et al.
            2017, eq. 4).
    """

    weights: Tensor | None = None
    focal_gamma: float = 0.0

    def classes(self, logits: Tensor, targets: Tensor, smoothing: float) -> tuple[Tensor, float]:
        """The cross-entropy of `[n, classes]` logits with `[n]` classes (-100 does not count), and its weight.

        The loss is a mean by the weights of the targets, as torch's. Its weight is their sum, where the mean weight of
        a class is 1; without weights the count.
        """
        weights = None if self.weights is None else self._weights(logits)
        options: Any = {"ignore_index": NO_TARGET}
        if self.focal_gamma == 0:
            loss = unrounded_loss(logits, targets, weight=weights, label_smoothing=smoothing, **options)
        else:
            plain = unrounded_loss(logits, targets, reduction="none", **options)
            rows = (-torch.expm1(-plain)).clamp(min=_LEAST) ** self.focal_gamma * plain
            shares = self._shares(targets, weights, rows.dtype)
            loss = (rows * shares).sum() / shares.sum()
        if targets.is_meta or is_fake(targets):
            return loss, targets.numel()
        shares = self._shares(targets, weights, torch.float64)
        total = float(shares.sum())
        return loss, int(total) if weights is None else total / float(weights.double().mean())

    def _shares(self, targets: Tensor, weights: Tensor | None, dtype: torch.dtype) -> Tensor:
        counts = targets != NO_TARGET
        return counts.to(dtype) if weights is None else weights.to(dtype)[targets.masked_fill(~counts, 0)] * counts

    def labels(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The mean binary cross-entropy of `[n, classes]` logits with shares `[n, classes]`; a label that is there has
        the weight of its class.
        """
        logits = whole(logits)
        weights = None if self.weights is None else self._weights(logits).to(logits.dtype)
        if self.focal_gamma == 0:
            return functional.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights)
        options: Any = {"reduction": "none"}
        plain = functional.binary_cross_entropy_with_logits(logits, targets, **options)
        weighed = functional.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights, **options)
        return ((-torch.expm1(-plain)).clamp(min=_LEAST) ** self.focal_gamma * weighed).mean()

    def shares(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """The mean cross-entropy of `[n, classes]` logits with shares of classes `[n, classes]`."""
        logits = whole(logits)
        weights = None if self.weights is None else self._weights(logits).to(logits.dtype)
        return functional.cross_entropy(logits, targets, weight=weights, label_smoothing=smoothing)

    def _weights(self, logits: Tensor) -> Tensor:
        assert self.weights is not None
        if len(self.weights) != logits.shape[1]:
            raise ConfigError(
                f"task.class_weights: expected a weight for each of the {logits.shape[1]} classes of the logits, got"
                f" {len(self.weights)}"
            )
        return self.weights.to(logits.device)


PLAIN = Weighing()


def first_weighing(config: Any) -> Weighing:
    """The weighing of a task before it has seen its data: a list of weights as given."""
    class_weights = config.class_weights
    return Weighing(torch.tensor(class_weights) if isinstance(class_weights, tuple) else None, config.focal_gamma)


def weighing_of(config: Any, data: Any, kind: str) -> Weighing:
    """The weighing of a task's config for a data set, whose items have one class, any `labels`, or a class a `pixel`.

    Raises:
        ConfigError: a weight is of no class, or their number is not that of the classes.
        DataError: a class that is to be balanced has no items.
    """
    class_weights, names = config.class_weights, classes_of(data)
    if class_weights is None:
        return Weighing(None, config.focal_gamma)
    if class_weights == "balanced":
        weights = _balanced(data.train, names, kind, getattr(config, "ignore_index", None))
    elif isinstance(class_weights, dict):
        if names is None:
            raise ConfigError("task.class_weights: the data has no names of classes; give a list of weights")
        for name in class_weights:
            if name not in names:
                hint = nearest(name, names) or f"; there are {', '.join(names[:20])}"
                raise ConfigError(f"task.class_weights: the data has no class '{name}'{hint}")
        weights = [class_weights.get(name, 1.0) for name in names]
    else:
        weights = [*class_weights]
        if names is not None and len(names) != len(weights):
            raise ConfigError(
                f"task.class_weights: expected {len(names)} weights, one for each of {', '.join(names[:20])}, got"
                f" {len(weights)}"
            )
    return Weighing(torch.tensor(weights), config.focal_gamma)


def _balanced(train: Any, names: Sequence[str] | None, kind: str, ignored: int | None) -> list[float]:
    """Weights with which all classes count the same: n / (classes * items of the class); of labels, the items without
    one by those with it.
    """
    if kind == "labels":
        total = sum((torch.as_tensor(_target(train[place])).double() for place in range(len(train))), torch.zeros(()))
        above_and_items = [(len(train) - it, it) for it in total.tolist()]
    else:
        counts: Counter[int] = Counter(targets_of(train) if kind == "classes" else ())
        for place in range(len(train)) if kind == "pixels" else ():
            values, sizes = torch.as_tensor(_target(train[place])).unique(return_counts=True)
            counts.update(dict(zip(values.tolist(), sizes.tolist(), strict=True)))
        if ignored is not None:
            del counts[ignored]  # of a Counter no error where it lacks it
        whole, count = sum(counts.values()), len(names or ()) or max(counts, default=0) + 1
        above_and_items = [(whole / count, counts.get(number, 0)) for number in range(count)]
    for number, (_, items) in enumerate(above_and_items):
        if items == 0:
            name = names[number] if names is not None else number
            raise DataError(
                f"task.class_weights: balanced: the class {name} has no items to train on; give weights by name"
            )
    return [above / items for above, items in above_and_items]


def _target(item: Any) -> Any:
    return item["labels"] if isinstance(item, dict) else item[1]
