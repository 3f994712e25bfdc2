"""How many spans of tagged tokens are found."""

from typing import Any

import torch
from torch import Tensor

from ...data.configs import NO_TARGET
from ...errors import ConfigError, ShapeError
from .base import ConfiguredMetric, expect, shape_error
from .configs import SpanF1Config
from .outputs import spans_of

_END = -1
"""Stands behind the classes of a sequence."""
_NAN = -2
"""The class of scores of which one is no number."""


class SpanF1(ConfiguredMetric[SpanF1Config], of=SpanF1Config):
    """2 * right / (predicted + true) spans of all sequences together, in percent; a span is right where its label,
    start and end are.

    Takes `[n, length, classes]` floats and `[n, length]` integers; tokens without a target are left out. The classes of
    the epoch are kept, and compared at its end.
    """

    title, unit = "Span F1", "%"

    def __init__(self, config: SpanF1Config | None = None) -> None:
        super().__init__(config)
        self.add_list("found", torch.int64)
        self.add_list("true", torch.int64)

    def update(self, predictions: Tensor, targets: Tensor) -> None:
        expect(self, "a tensor", predictions=predictions, targets=targets)
        if predictions.dim() != 3 or targets.shape != predictions.shape[:2]:
            raise shape_error(self, "predictions [n, length, classes] and targets [n, length]", predictions, targets)
        expect(self, "floats", predictions=predictions)
        expect(self, "integers", targets=targets)
        classes = self.config.classes
        if classes is None:
            raise ConfigError("SpanF1: expected the tags by their numbers in `classes`; this data has no names")
        if predictions.shape[2] != len(classes):
            raise ShapeError(f"SpanF1: expected {len(classes)} classes, as many as names, got {predictions.shape[2]}")
        self.follow(predictions)
        end = targets.new_full((len(targets), 1), _END).long()
        best = torch.where(predictions.isnan().any(), _NAN, predictions.argmax(2))
        states: Any = self  # `found` and `true` are their names in checkpoints
        states.found.append(torch.cat([best, end], 1).flatten())
        states.true.append(torch.cat([targets.long(), end], 1).flatten())

    def compute(self) -> Tensor:
        right = spans = 0
        if (self.joined("found") == _NAN).any():
            return torch.full((), torch.nan, dtype=torch.float64, device=self.device)
        names: Any = self.config.classes
        rows: tuple[list[str], list[str]] = ([], [])
        for best, true in zip(self.joined("found").tolist(), self.joined("true").tolist(), strict=True):
            if true == _END:
                predicted, expected = (spans_of(row) for row in rows)
                right += len({*predicted} & {*expected})
                spans += len(predicted) + len(expected)
                rows = ([], [])
            elif true != NO_TARGET:
                rows[0].append(names[best])
                rows[1].append(names[true])
        value = 200 * right / spans if spans else float("nan")
        return torch.tensor(value, dtype=torch.float64, device=self.device)
