"""Tasks with targets: classes of items or pixels, numbers, and models that give their loss."""

from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from ...errors import ShapeError
from ...ops import cross_entropy
from ..learner.steps import StepOutput
from .configs import ClassificationConfig, ModelLossConfig, RegressionConfig, SegmentationConfig
from .task import SmoothedTask, Task, call, inputs_and_targets, logits_of


class Classification(SmoothedTask):
    """Cross-entropy of `[n, classes]` logits with `[n]` int64 classes; with several labels, binary cross-entropy with
    `[n, classes]` zeros and ones.

    Batches are `(inputs, targets)`, or mappings with `labels`, whose other entries are the model's arguments. Metrics
    get the logits and the targets.
    """

    def __init__(self, config: ClassificationConfig | None = None) -> None:
        self.config = config or ClassificationConfig()

    def step(self, model: nn.Module, batch: Any, smoothing: float) -> StepOutput:
        inputs, targets = inputs_and_targets(batch)
        logits = logits_of(call(model, inputs))
        expected = logits.shape if self.config.multi_label else logits.shape[:1]
        if logits.dim() != 2 or targets.shape != expected:
            kind = "[n, classes] zeros and ones" if self.config.multi_label else "[n] classes"
            raise ShapeError(
                f"Classification: expected [n, classes] logits and {kind} for targets, got logits of"
                f" {list(logits.shape)} and targets of {list(targets.shape)}"
            )
        if self.config.multi_label:
            goal = targets.to(logits.dtype) * (1 - smoothing) + smoothing / 2
            loss = functional.binary_cross_entropy_with_logits(logits, goal)
        else:
            loss = cross_entropy(logits, targets, label_smoothing=smoothing)
        return StepOutput(loss, len(targets), logits.detach(), targets)


_NONE = -100


class Segmentation(SmoothedTask):
    """Cross-entropy of `[n, classes, height, width]` logits with `[n, height, width]` int64 classes.

    Batches are `(inputs, targets)`, or mappings with `labels`. Metrics get the logits and the targets. The mean is over
    all pixels that count.
    """

    unit = "pixels"

    def __init__(self, config: SegmentationConfig | None = None) -> None:
        self.config = config or SegmentationConfig()

    def step(self, model: nn.Module, batch: Any, smoothing: float) -> StepOutput:
        inputs, targets = inputs_and_targets(batch)
        logits = logits_of(call(model, inputs))
        if logits.dim() < 3 or targets.shape != (logits.shape[0], *logits.shape[2:]):
            raise ShapeError(
                "Segmentation: expected [n, classes, height, width] logits and [n, height, width] classes for targets,"
                f" got logits of {list(logits.shape)} and targets of {list(targets.shape)}"
            )
        ignored = self.config.ignore_index
        rows = logits.movedim(1, -1).flatten(0, -2)
        loss = cross_entropy(
            rows, targets.flatten(), ignore_index=_NONE if ignored is None else ignored, label_smoothing=smoothing
        )
        size = targets.numel() if ignored is None else int((targets != ignored).sum())
        return StepOutput(loss, size, logits.detach(), targets)


_LOSSES = {"mse": functional.mse_loss, "mae": functional.l1_loss, "huber": functional.huber_loss}


class Regression(Task):
    """The mean error of predictions, of the shape of the targets; a last size of 1 may be missing in one of them.

    Batches are `(inputs, targets)`, or mappings with `labels`. Metrics get the predictions and the targets.
    """

    def __init__(self, config: RegressionConfig | None = None) -> None:
        self.config = config or RegressionConfig()

    def train_step(self, model: nn.Module, batch: Any) -> StepOutput:
        inputs, targets = inputs_and_targets(batch)
        predictions = logits_of(call(model, inputs))
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
