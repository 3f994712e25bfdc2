"""What a step of a task gives of a batch."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor

from ..._torch_compat.pytree import tree_map


class StepOutput(NamedTuple):
    """The result of one batch.

    Attributes:
        loss: scalar, a mean; differentiable in training.
        size: how many values it is the mean of, or the sum of their weights: its weight when batches are averaged.
        predictions: what metrics compare with the targets; None if there is nothing to compare.
        targets: what was expected; a class of -100 does not count.
        logits: whether the predictions are scores of classes that no softmax or sigmoid was taken of.
        class_dim: the dimension of the classes in the predictions; None: the last.
        parts: what the loss consists of, scalars by name, for the lines of metrics.
    """

    loss: Tensor
    size: float
    predictions: Any = None
    targets: Any = None
    logits: bool = False
    class_dim: int | None = None
    parts: Mapping[str, Tensor] = MappingProxyType({})


def items_of(batch: Any) -> int:
    """How many items a batch has: the first size of its first tensor; 1 where there is none."""
    sizes: list[int] = []
    tree_map(lambda it: sizes.append(len(it)) if isinstance(it, Tensor) and it.dim() else None, batch)
    return sizes[0] if sizes else 1
