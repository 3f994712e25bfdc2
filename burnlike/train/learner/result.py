"""What a training gives."""

from collections.abc import Mapping
from typing import NamedTuple

from ..checkpoint.checkpointer import Checkpoint


class LearningResult(NamedTuple):
    """The result of a training.

    Attributes:
        steps: optimizer steps taken in all.
        train_loss: mean of the last logged steps; None if nothing was logged.
        valid_loss: of the last validation; None if there was none. `best_valid_loss` is the lowest one so far.
        checkpoint: the last one, if they are written; `best` that of the best validation, with `keep_best`.
        metrics: of the last validation, by name.
    """

    steps: int
    train_loss: float | None
    valid_loss: float | None
    best_valid_loss: float | None
    checkpoint: Checkpoint | None
    metrics: Mapping[str, float] = {}
    stopped_early: bool = False
    best: Checkpoint | None = None
