"""StepOutput: the result of a task's step on a batch; and micro-batches, whose results are joined to it."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._torch_compat.pytree import tree_map
from ...errors import DataError


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
        part_sizes: how many values a part is the mean of, by its name, where that is not `size`.
    """

    loss: Tensor
    size: float
    predictions: Any = None
    targets: Any = None
    logits: bool = False
    class_dim: int | None = None
    parts: Mapping[str, Tensor] = MappingProxyType({})
    part_sizes: Mapping[str, float] = MappingProxyType({})


def items_of(batch: Any) -> int:
    """The number of items of a batch: the first size of its first tensor; 1 where there is none."""
    sizes: list[int] = []
    tree_map(lambda it: sizes.append(len(it)) if isinstance(it, Tensor) and it.dim() else None, batch)
    return sizes[0] if sizes else 1


def counting_nothing(loss: Tensor) -> Tensor:
    """The loss of no items as 0, whose backward pass gives each parameter a gradient of 0.

    Multiplying it by 0 is not enough: a masked mean is 0 / 0 there, its derivative is NaN, and the mean over the
    processes would bring that into the weights of all. So each node of the graph gives zeros.
    """
    nodes, seen = [loss.grad_fn], set()
    while nodes:
        node = nodes.pop()
        # Nodes of parameters have no next ones. Graphs share them: those of micro-batches that count are not to get 0.
        if node is not None and node not in seen and node.next_functions:
            seen.add(node)
            node.register_hook(_zeros)
            nodes += [it for it, _ in node.next_functions]
    return loss.nan_to_num() * 0


def _zeros(grads: Any, _: Any) -> Any:
    return tuple(grad if grad is None else torch.zeros_like(grad) for grad in grads)


class MicroBatch(NamedTuple):
    """Some items of a batch.

    Attributes:
        number: its place among the micro-batches.
        size: how many items there are.
        counts: whether they count; an item that is there in place of none does not.
    """

    batch: Any
    number: int
    size: int
    counts: bool


def micro_batches(batch: Any, count: int) -> list[MicroBatch]:
    """A batch in `count` parts of about equal size, the larger ones first; with fewer items, some parts hold a stand-
    in.

    Raises:
        DataError: tensors of the batch differ in the number of items, their first size.
    """
    items = items_of(batch)
    bounds = [items * place // count for place in range(count + 1)]
    sizes = sorted((end - begin for begin, end in pairwise(bounds)), reverse=True)
    parts, begin = [], 0
    for number, size in enumerate(sizes):
        rows = slice(begin, begin + size) if size else slice(0, 1)
        parts.append(MicroBatch(_rows(batch, rows, items), number, size or 1, size > 0))
        begin += size
    return parts


def _rows(value: Any, rows: slice, items: int) -> Any:
    if isinstance(value, Tensor):
        if value.dim() and len(value) != items:
            raise DataError(
                f"distributed.pipeline: expected tensors of one number of items, their first size, in a batch, which is"
                f" to be cut into micro-batches; got one of {items} and one of {list(value.shape)}"
            )
        return value[rows] if value.dim() else value
    if isinstance(value, Mapping):
        return {name: _rows(it, rows, items) for name, it in value.items()}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(_rows(it, rows, items) for it in value))
    if isinstance(value, tuple | list):
        if len(value) == items and not any(isinstance(it, Tensor) for it in value):
            return value[rows]
        return type(value)(_rows(it, rows, items) for it in value)
    return value


def joined(outputs: Sequence[StepOutput]) -> StepOutput | None:
    """The result of a batch, joined from its micro-batches; None without any."""
    if not outputs:
        return None
    counted = [output for output in outputs if output.size]
    size = sum(it.size for it in counted)

    def mean(values: Sequence[Tensor]) -> Tensor:
        sums = [value.detach().double() * of.size for value, of in zip(values, counted, strict=True)]
        return torch.stack(sums).sum() / size if sums else torch.tensor(torch.nan, dtype=torch.float64)

    names = {name: None for it in counted for name in it.parts}
    return (counted or outputs)[0]._replace(
        loss=mean([it.loss for it in counted]),
        size=size,
        predictions=_joined([it.predictions for it in counted]),
        targets=_joined([it.targets for it in counted]),
        parts={name: mean([it.parts[name] for it in counted]) for name in names},
    )


def _joined(values: Sequence[Any]) -> Any:
    first = values[0] if values else None
    if isinstance(first, Tensor):
        return torch.cat([value.detach() for value in values]) if first.dim() else torch.stack([*values])
    if isinstance(first, Mapping):
        return {name: _joined([value[name] for value in values]) for name in first}
    if isinstance(first, list):
        return [it for value in values for it in value]
    if isinstance(first, tuple):
        return tuple(_joined([value[place] for value in values]) for place in range(len(first)))
    return first
