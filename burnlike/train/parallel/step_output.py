"""What a step of a task gives of a batch."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
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


def counting_nothing(loss: Tensor) -> Tensor:
    """The loss of no items as 0, whose backward pass gives each parameter a gradient of 0.

    Multiplying it by 0 is not enough: a masked mean is 0 / 0 there, its derivative is NaN, and the mean over the
    processes would bring that into the weights of all. So each node of the graph passes zeros on.
    """
    nodes, found = [loss.grad_fn], set()
    while nodes:
        node = nodes.pop()
        if node is not None and node not in found:
            found.add(node)
            _pass_zeros_on(node)
            nodes += [it for it, _ in node.next_functions]
    return loss.nan_to_num() * 0


def _pass_zeros_on(node: Any) -> None:
    """Let a node of a graph get zeros in the next backward pass; those of parameters outlive it."""

    def zeros(grads: Any) -> Any:
        handle.remove()
        return tuple(it if it is None else torch.zeros_like(it) for it in grads)

    handle = node.register_prehook(zeros)
