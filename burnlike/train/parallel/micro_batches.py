"""Micro-batches: the parts of a batch that go through a pipeline, and their results as that of the batch."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import DataError
from .step_output import StepOutput, items_of


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
    """A batch in so many parts of about equal size, the larger ones first; of fewer items, some stand in for none.

    Raises:
        DataError: tensors of the batch differ in the number of items, their first size.
    """
    items = items_of(batch)
    bounds = [items * place // count for place in range(count + 1)]
    sizes = sorted((end - begin for begin, end in pairwise(bounds)), reverse=True)
    found, begin = [], 0
    for number, size in enumerate(sizes):
        rows = slice(begin, begin + size) if size else slice(0, 1)
        found.append(MicroBatch(_rows(batch, rows, items), number, size or 1, size > 0))
        begin += size
    return found


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
    """The result of a batch, by those of its micro-batches; None for none."""
    if not outputs:
        return None
    counted = [it for it in outputs if it.size]
    size = sum(it.size for it in counted)

    def mean(values: Sequence[Tensor]) -> Tensor:
        sums = [it.detach().double() * of.size for it, of in zip(values, counted, strict=True)]
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
        return torch.cat([it.detach() for it in values]) if first.dim() else torch.stack([*values])
    if isinstance(first, Mapping):
        return {name: _joined([it[name] for it in values]) for name in first}
    if isinstance(first, list):
        return [it for value in values for it in value]
    if isinstance(first, tuple):
        return tuple(_joined([it[place] for it in values]) for place in range(len(first)))
    return first
