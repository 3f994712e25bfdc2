"""Losses: the value that a Learner minimizes, with the number of values of which it is the mean."""

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor


class Loss(NamedTuple):
    """The loss of one batch.

    Attributes:
        mean: scalar, differentiable.
        size: how many values `mean` is the mean of; its weight when batches are averaged.
    """

    mean: Tensor
    size: int


LossFunction = Callable[[Any, Any], Loss]
"""`(model, batch) -> Loss`."""
