"""Tasks with targets: classes of items or pixels, numbers, and models that give their loss."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from ...data.configs import NO_TARGET
from ...errors import ShapeError
from ...ops._divided import whole as whole_of_parts
from ..learner.steps import StepOutput
from ..metrics.outputs import with_both_classes
from .configs import ClassificationConfig, ModelLossConfig, RegressionConfig, SegmentationConfig
from .task import MeasuredTask, PaddedTask, Task, call, inputs_and_targets, inputs_of, logits_for_loss, logits_of
from .weighing import PLAIN, first_weighing, weighing_of, whole


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

    def take_data(self, data: Any) -> None:
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
            logits, scores = whole_of_parts(logits), whole_of_parts(scores)
        if several:
            goal = targets.to(whole(logits).dtype) * (1 - smoothing) + smoothing / 2
            loss, size = weighing.labels(logits, goal), len(targets)
        elif are_shares:
            loss, size = weighing.shares(scores, targets.to(whole(scores).dtype), smoothing), len(targets)
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

    def take_data(self, data: Any) -> None:
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

    Batches are `(inputs, targets)`, or mappings with `labels`. Metrics get the predictions and the targets.
    """

    def __init__(self, config: RegressionConfig | None = None) -> None:
        self.config = config or RegressionConfig()

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        inputs, targets = inputs_and_targets(batch)
        predictions = whole(logits_of(call(model, inputs)))
        if predictions.shape == (*targets.shape, 1):
            predictions = predictions.squeeze(-1)
        elif targets.shape == (*predictions.shape, 1):
            targets = targets.squeeze(-1)
        if predictions.shape != targets.shape:
            raise ShapeError(
                f"Regression: expected predictions and targets of one shape, got {list(predictions.shape)} and"
                f" {list(targets.shape)}"
            )
        loss = _LOSSES[self.config.loss](predictions, targets.to(predictions.dtype))
        return StepOutput(loss, len(targets), predictions.detach(), targets)

    def predict(self, model: nn.Module, batch: Any, facts: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The number of each item by the name of its target, as the data has it (`targets` of the facts)."""
        values = logits_of(call(model, inputs_of(batch))).double()
        rows = values.reshape(len(values), -1)
        names = [*(facts.get("targets") or ())]
        if len(names) != rows.shape[1]:
            names = ["value"] if rows.shape[1] == 1 else [f"value.{it}" for it in range(rows.shape[1])]
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
