"""Classification: the class of each item, or its classes."""

from typing import Any

from torch import nn
from torch.nn import functional

from ...errors import ShapeError
from ...ops import cross_entropy
from ..learner.steps import StepOutput
from .configs import ClassificationConfig
from .task import SmoothedTask, call, inputs_and_targets, logits_of


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
