"""Segmentation: the class of each pixel."""

from typing import Any

from torch import nn

from ...errors import ShapeError
from ...ops import cross_entropy
from ..learner.steps import StepOutput
from .configs import SegmentationConfig
from .task import SmoothedTask, call, inputs_and_targets, logits_of

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
