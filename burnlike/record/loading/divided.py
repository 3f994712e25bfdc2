"""Fills a tensor that is divided among processes: each reads the part of the file that it has."""

from collections.abc import Iterator
from itertools import pairwise, product
from typing import Any, NamedTuple

import torch

from ...module.torch_objects.wrappers import part_of
from ..files.boxes import read_box
from ..files.stored_tensors import FileValues


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
    if not any(_divides(it, dim) for it in tensor.placements):
        return [_Run(0, 0, length)] if length else []
    from torch.distributed.tensor import DTensor, Replicate

    shape = [1] * tensor.ndim
    shape[dim] = length
    indices: Any = torch.arange(length).view(shape)
    placements = [it if _divides(it, dim) else Replicate() for it in tensor.placements]
    like = DTensor.from_local(indices, tensor.device_mesh, placements, run_check=False)
    own = part_of(indices, like).to_local().flatten().cpu()
    if not len(own):
        return []
    starts = [0, *((own.diff() != 1).nonzero().flatten() + 1).tolist(), len(own)]
    return [_Run(int(own[start]), start, stop - start) for start, stop in pairwise(starts)]


def _divides(placement: Any, dim: int) -> bool:
    """Whether it divides a dimension: of FSDP's parts of a divided one, torch's `is_shard` says no."""
    return getattr(placement, "dim", None) == dim


def read_own_part(values: FileValues, into: Any) -> None:
    """Read this process's part of the DTensor `into`, converted to its type; nothing else is read."""
    own = into.to_local()
    for box in boxes_of(into):
        target = own
        for dim, (start, length) in enumerate(zip(box.own_offsets, box.sizes, strict=True)):
            target = target.narrow(dim, start, length)
        read_box(values, box, target)
    torch.autograd.graph.increment_version(own)
