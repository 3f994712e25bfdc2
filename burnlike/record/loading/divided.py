"""Fills a tensor that is divided among processes: each reads the part of the file that it has."""

from collections.abc import Iterator
from itertools import pairwise, product
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...module.torch_objects.wrappers import part_of
from ..bytes.workers import bytes_at
from ..files.stored_tensors import FileValues

_PIECE_BYTES = 4 << 20


class Box(NamedTuple):
    """A part of a tensor that this process has: where it begins in the whole and in its own part, and its sizes."""

    offsets: tuple[int, ...]
    own_offsets: tuple[int, ...]
    sizes: tuple[int, ...]


class _Run(NamedTuple):
    """Consecutive indices of one dimension: the first in the whole, the first in the own part, how many."""

    first: int
    own_first: int
    length: int


def boxes_of(tensor: Any) -> Iterator[Box]:
    """The boxes of a DTensor that this process has; nearly always one, and none where its part is empty."""
    for runs in product(*(_runs(tensor, dim) for dim in range(tensor.ndim))):
        yield Box(tuple(it.first for it in runs), tuple(it.own_first for it in runs), tuple(it.length for it in runs))


def _runs(tensor: Any, dim: int) -> list[_Run]:
    """The indices of a dimension that this process has: torch itself divides a tensor of all of them."""
    length = tensor.shape[dim]
    if not any(it.is_shard(dim) for it in tensor.placements):
        return [_Run(0, 0, length)] if length else []
    from torch.distributed.tensor import DTensor, Replicate

    shape = [1] * tensor.ndim
    shape[dim] = length
    indices: Any = torch.arange(length).view(shape)
    placements = [it if it.is_shard(dim) else Replicate() for it in tensor.placements]
    like = DTensor.from_local(indices, tensor.device_mesh, placements, run_check=False)
    own = part_of(indices, like).to_local().flatten().cpu()
    if not len(own):
        return []
    starts = [0, *((own.diff() != 1).nonzero().flatten() + 1).tolist(), len(own)]
    return [_Run(int(own[start]), start, stop - start) for start, stop in pairwise(starts)]


def read_own_part(values: FileValues, into: Any) -> None:
    """Read this process's part of the DTensor `into`, converted to its type; nothing else is read."""
    own = into.to_local()
    for box in boxes_of(into):
        target = own
        for dim, (start, length) in enumerate(zip(box.own_offsets, box.sizes, strict=True)):
            target = target.narrow(dim, start, length)
        _read_box(values, box, target)
    torch.autograd.graph.increment_version(own)


def _read_box(values: FileValues, box: Box, into: Tensor) -> None:
    shape, sizes = values.entry.shape, box.sizes
    split = len(shape)  # the dimensions from here on are whole, so that what lies in them is read at once
    while split and sizes[split - 1] == shape[split - 1]:
        split -= 1
    split = max(split - 1, 0)
    count = prod(sizes[split:])
    for index in product(*map(range, sizes[:split])):
        first = 0
        for at, offset, length in zip((*index, 0), box.offsets[: split + 1], shape[: split + 1], strict=False):
            first = first * length + offset + at
        first *= prod(shape[split + 1 :])
        _read_run(values, first, count, into[index] if index else into)


def _read_run(values: FileValues, first: int, count: int, into: Tensor) -> None:
    """Read consecutive elements of a file into a tensor of as many, in pieces."""
    step = _PIECE_BYTES // values.stored.itemsize
    is_plain = values.stored == values.dtype == into.dtype != torch.bool and into.device.type == "cpu"
    if is_plain and into.is_contiguous():
        size = into.element_size()
        values.entry.read_into(first * size, bytes_at(into.data_ptr(), count * size))
        return
    if count <= step:
        into.copy_(values.read(first, first + count).view(into.shape))
        return
    inner = prod(into.shape[1:])
    rows = max(step // inner, 1)
    for at in range(0, into.shape[0], rows):
        stop = min(at + rows, into.shape[0])
        found = values.read(first + at * inner, first + stop * inner)
        into[at:stop].copy_(found.view(into[at:stop].shape))
