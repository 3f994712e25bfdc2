"""Tasks with targets: classes of items or pixels, numbers, and models that give their loss; and how losses are weighed.

A training may give more weight to some classes, or to hard items; measured losses have no weights.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..._torch_compat.fake_tensors import is_fake
from ...data.batching import seeded
from ...data.configs import NO_TARGET
from ...data.loader import targets_of
from ...data.sources.splits import classes_of
from ...errors import ConfigError, DataError, ShapeError, nearest
from ...ops._divided import whole
from ...ops.cross_entropy import unrounded_loss
from ..learner.steps import StepOutput
from ..metrics.outputs import with_both_classes
from .configs import ClassificationConfig, ModelLossConfig, RegressionConfig, SegmentationConfig
from .task import MeasuredTask, PaddedTask, Task, call, inputs_and_targets, inputs_of, logits_for_loss, logits_of

_LEAST = 1e-8
"""Of 1 - p: for a gamma below 1 the derivative of 0^gamma is infinite."""


def promoted(values: Tensor) -> Tensor:
    """Values of 16 bits in float32, in which losses are computed."""
    return values.to(torch.promote_types(values.dtype, torch.float32))


class Weighing(NamedTuple):
    """The weights of the losses of items.

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
        logits = promoted(logits)
        weights = None if self.weights is None else self._weights(logits).to(logits.dtype)
        if self.focal_gamma == 0:
            return functional.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights)
        options: Any = {"reduction": "none"}
        plain = functional.binary_cross_entropy_with_logits(logits, targets, **options)
        weighed = functional.binary_cross_entropy_with_logits(logits, targets, pos_weight=weights, **options)
        return ((-torch.expm1(-plain)).clamp(min=_LEAST) ** self.focal_gamma * weighed).mean()

    def shares(self, logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
        """The mean cross-entropy of `[n, classes]` logits with shares of classes `[n, classes]`."""
        logits = promoted(logits)
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
        labels = [torch.as_tensor(it).double() for it in _targets(train)]
        above_and_items = [
            (len(labels) - it, it) for it in sum(labels, torch.zeros(len(names) if names else 1)).tolist()
        ]
    else:
        counts: Counter[int] = Counter(targets_of(train) if kind == "classes" else ())
        for mask in _targets(train) if kind == "pixels" else ():
            values, sizes = torch.as_tensor(mask).unique(return_counts=True)
            counts.update(dict(zip(values.tolist(), sizes.tolist(), strict=True)))
        if ignored is not None:
            del counts[ignored]  # of a Counter no error where it lacks it
        total, count = sum(counts.values()), len(names or ()) or max(counts, default=0) + 1
        above_and_items = [(total / count, counts.get(number, 0)) for number in range(count)]
    for number, (_, items) in enumerate(above_and_items):
        if items == 0:
            name, form = (number, "as a list") if names is None else (names[number], "by name")
            raise DataError(
                f"task.class_weights: balanced: the class {name} has no items to train on; give weights {form}"
            )
    return [above / items for above, items in above_and_items]


def _targets(train: Any) -> Iterator[Any]:
    """The targets of the items that can be read; what is wrong with others the loader says."""
    with seeded(0, 0, 0):  # a run that is resumed draws the same parts of masks
        for place in range(len(train)):
            try:
                target = _target(train[place])
            except DataError:
                continue
            yield target


def _target(item: Any) -> Any:
    return item["labels"] if isinstance(item, dict) else item[1]


class Classification(PaddedTask, MeasuredTask):
    """Cross-entropy of `[n, classes]` logits with `[n]` int64 classes, or `[n, classes]` shares of classes as MixUp
    gives them; with several labels, binary cross-entropy with `[n, classes]` zeros and ones.

    Logits of a single column say how likely class 1 of two is. Batches are `(inputs, targets)`, or mappings with
    `labels`, whose other entries are the model's arguments. Metrics get the logits and the targets, of shares the class
    with the largest.
    """

    def __init__(self, config: ClassificationConfig | None = None) -> None:
        self.config = config or ClassificationConfig()
        self.weighing = first_weighing(self.config)
        self.problem_type = "multi_label_classification" if self.config.multi_label else None

    def take_data(self, data: Any) -> None:
        if (getattr(data, "facts", None) or {}).get("targets"):  # numbers
            _expect_shares(data.train)

    def take_training_data(self, data: Any) -> None:
        self.weighing = weighing_of(self.config, data, "labels" if self.config.multi_label else "classes")

    def step(self, model: nn.Module, batch: Any, *, is_training: bool) -> StepOutput:
        smoothing, weighing = self.smoothing(is_training=is_training), self.weighing if is_training else PLAIN
        inputs, targets = inputs_and_targets(batch)
        logits = logits_for_loss(model, inputs)
        several = self.config.multi_label
        scores = logits if several or logits.dim() != 2 else with_both_classes(logits)
        are_shares = not several and targets.is_floating_point() and targets.shape == scores.shape
        if logits.dim() != 2 or targets.shape != (scores.shape if several or are_shares else logits.shape[:1]):
            kind = "[n, classes] zeros and ones" if several else "[n] classes"
            raise ShapeError(
                f"Classification: expected [n, classes] logits and {kind} for targets, got logits of"
                f" {list(logits.shape)} and targets of {list(targets.shape)}"
            )
        if several or are_shares:
            logits, scores = whole(logits), whole(scores)
        if several:
            goal = targets.to(promoted(logits).dtype) * (1 - smoothing) + smoothing / 2
            loss, size = weighing.labels(logits, goal), len(targets)
        elif are_shares:
            loss, size = weighing.shares(scores, targets.to(promoted(scores).dtype), smoothing), len(targets)
            targets = targets.argmax(1)
        else:
            loss, size = weighing.classes(scores, targets, smoothing)
        return StepOutput(loss, size, logits.detach(), targets, logits=True)

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The `class` of each item with its `probability` and all classes' probabilities; or the `labels` above 0.5."""
        logits = logits_of(call(model, inputs_of(batch))).double()
        several = self.config.multi_label
        probabilities = logits.sigmoid() if several else with_both_classes(logits).softmax(1)
        names = class_names(facts, probabilities.shape[1])
        rows: list[dict[str, Any]] = []
        for row in probabilities.tolist():
            best = max(range(len(names)), key=row.__getitem__)
            labels = [name for name, it in zip(names, row, strict=True) if it > 0.5]
            chosen = {"labels": labels} if several else {"class": names[best], "probability": row[best]}
            rows.append({**chosen, **{f"probabilities.{name}": it for name, it in zip(names, row, strict=True)}})
        return rows


_LOOKED_AT = 1000


def _expect_shares(train: Any) -> None:
    """Refuse targets that are numbers, but neither 0 and 1 nor shares that sum to 1."""
    for place in range(min(len(train), _LOOKED_AT)):
        target = torch.as_tensor(_target(train[place])).double()
        is_binary = bool(((target == 0) | (target == 1)).all())
        if not is_binary and not (target.dim() and (target >= 0).all() and abs(float(target.sum()) - 1) < 1e-3):
            raise ConfigError(
                "task: Classification takes classes, or shares of classes that sum to 1, and the data has numbers"
                f" (`kind: numbers`), such as {target.tolist()}; say `task: Regression`, or `kind: classes` in the data"
            )


def class_names(facts: Mapping[str, Any], count: int) -> list[str]:
    """Names for `count` classes: the data's, then numbers."""
    names = list(facts.get("classes") or ())[:count]
    return [*map(str, names), *map(str, range(len(names), count))]


class Segmentation(MeasuredTask):
    """Cross-entropy of `[n, classes, height, width]` logits with `[n, height, width]` int64 classes.

    Logits of a single channel say how likely class 1 of two is. Those of models of transformers, which are smaller than
    the masks, are interpolated to their size first (bilinear), as these models do for their own loss. Batches are
    `(inputs, targets)`, or mappings with `labels`. Metrics get the logits and the targets. The mean is over all pixels
    that count.
    """

    unit = "pixels"

    def __init__(self, config: SegmentationConfig | None = None) -> None:
        self.config = config or SegmentationConfig()
        self.weighing = first_weighing(self.config)

    def take_training_data(self, data: Any) -> None:
        self.weighing = weighing_of(self.config, data, "pixels")

    def step(self, model: nn.Module, batch: Any, *, is_training: bool) -> StepOutput:
        smoothing, weighing = self.smoothing(is_training=is_training), self.weighing if is_training else PLAIN
        inputs, targets = inputs_and_targets(batch)
        logits = _pixel_logits(model, inputs, targets)
        if logits.dim() < 3 or targets.shape != (logits.shape[0], *logits.shape[2:]):
            raise ShapeError(
                "Segmentation: expected [n, classes, height, width] logits and [n, height, width] classes for targets,"
                f" got logits of {list(logits.shape)} and targets of {list(targets.shape)}"
            )
        ignored = self.config.ignore_index
        rows = with_both_classes(logits.movedim(1, -1).flatten(0, -2))
        counted = targets if ignored is None else targets.long().masked_fill(targets == ignored, NO_TARGET)
        loss, size = weighing.classes(rows, counted.flatten(), smoothing)
        return StepOutput(loss, size, logits.detach(), counted, logits=True, class_dim=1)

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The `mask` of each image, `[height, width]` int64 classes, in the size that the model is shown."""
        logits = _pixel_logits(model, *inputs_and_targets(batch))
        masks = logits[:, 0] > 0 if logits.shape[1] == 1 else logits.argmax(1)
        return [{"mask": mask.long().cpu()} for mask in masks]


def _pixel_logits(model: nn.Module, inputs: Any, targets: Tensor) -> Tensor:
    output = call(model, inputs)
    logits = logits_of(output)
    size, smaller = targets.shape[1:], logits.shape[2:]
    is_smaller = len(smaller) == len(size) == 2 and smaller != size and smaller[0] <= size[0] and smaller[1] <= size[1]
    if isinstance(output, Tensor) or not is_smaller:
        return logits
    return functional.interpolate(logits, size=size, mode="bilinear", align_corners=False)


_LOSSES = {"mse": functional.mse_loss, "mae": functional.l1_loss, "huber": functional.huber_loss}


class Regression(PaddedTask):
    """The mean error of predictions, of the shape of the targets; a last size of 1 may be missing in one of them.

    Batches are `(inputs, targets)`, or mappings with `labels`. Metrics get the predictions and the targets. Of data
    with a `target_scale` the model gives standardized numbers and the loss is of these; metrics and predictions are in
    the unit of the data.
    """

    problem_type = "regression"

    def __init__(self, config: RegressionConfig | None = None) -> None:
        self.config = config or RegressionConfig()
        self._scale: Tensor | None = None

    def take_facts(self, facts: Mapping[str, Any]) -> None:
        super().take_facts(facts)
        scale = facts.get("target_scale")
        self._scale = None if scale is None else torch.tensor([scale["mean"], scale["std"]], dtype=torch.float64)

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        inputs, targets = inputs_and_targets(batch)
        predictions = promoted(logits_of(call(model, inputs)))
        if predictions.shape == (*targets.shape, 1):
            predictions = predictions.squeeze(-1)
        elif targets.shape == (*predictions.shape, 1):
            targets = targets.squeeze(-1)
        if predictions.shape != targets.shape:
            raise ShapeError(
                f"Regression: expected predictions and targets of one shape, got {list(predictions.shape)} and"
                f" {list(targets.shape)}"
            )
        wanted = targets
        if self._scale is not None:
            mean, std = self._scale.to(targets.device)
            wanted = (targets.double() - mean) / std
        loss = _LOSSES[self.config.loss](predictions, wanted.to(predictions.dtype))
        return StepOutput(loss, len(targets), self._in_own_unit(predictions.detach()), targets)

    def _in_own_unit(self, values: Tensor) -> Tensor:
        """Numbers `[n]` or `[n, targets]` that the model gave, as the data has them."""
        if self._scale is None:
            return values
        mean, std = self._scale.to(values.device)
        return values.double() * std + mean

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The number of each item by the name of its target, as the data has it (`targets` of the facts); by `value`
        where a target is called `name`, as the input is.
        """
        values = logits_of(call(model, inputs_of(batch))).double()
        rows = self._in_own_unit(values.reshape(len(values), -1))
        names = [*(facts.get("targets") or ())]
        if len(names) != rows.shape[1] or "name" in names:
            names = ["value"] if rows.shape[1] == 1 else [f"value.{index}" for index in range(rows.shape[1])]
        return [dict(zip(names, row, strict=True)) for row in rows.tolist()]


class ModelLoss(Task):
    """The mean of a batch that the model gives: a number, or a tuple that begins with it.

    Batches are `(inputs, targets)`, or mappings with `labels`. Of a tuple, metrics compare the second value with the
    targets, or without `with_targets` with the inputs, as of an autoencoder.
    """

    def __init__(self, config: ModelLossConfig | None = None) -> None:
        self.config = config or ModelLossConfig()

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        inputs, targets = inputs_and_targets(batch)
        if self.config.with_targets:
            output = model(**inputs, labels=targets) if isinstance(inputs, dict) else model(inputs, targets)
        else:
            output = call(model, inputs)
        loss, *others = output if isinstance(output, tuple) else (output,)
        if not isinstance(loss, Tensor) or loss.numel() != 1:
            got = list(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise ShapeError(f"ModelLoss: expected a model that gives its loss, one number, got {got}")
        compared = targets if self.config.with_targets else inputs
        predictions = others[0].detach() if others else None
        return StepOutput(loss.reshape(()), len(targets), predictions, compared if others else None)
