"""Parts of tensors that lie in files: nothing else of them is read."""

from itertools import product
from math import prod
from typing import Any

import torch
from torch import Tensor

from ...module.torch_objects.deferred import Part
from ..bytes.convert import copy_converted
from ..bytes.workers import bytes_at

_PIECE_BYTES = 4 << 20


def read_box(values: Any, box: Part, into: Tensor) -> None:
    """Read a part of the FileValues of a tensor, converted to the type of `into`."""
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


def _read_run(values: Any, first: int, count: int, into: Tensor) -> None:
    """Read consecutive elements of a file into a tensor of as many, in pieces."""
    step = _PIECE_BYTES // values.stored.itemsize
    is_plain = values.stored == values.dtype == into.dtype != torch.bool and into.device.type == "cpu"
    if is_plain and into.is_contiguous():
        size = into.element_size()
        values.entry.read_into(first * size, bytes_at(into.data_ptr(), count * size))
        return
    if count <= step:
        copy_converted(into, values.read(first, first + count).view(into.shape))
        return
    inner = prod(into.shape[1:])
    rows = max(step // inner, 1)
    for at in range(0, into.shape[0], rows):
        stop = min(at + rows, into.shape[0])
        found = values.read(first + at * inner, first + stop * inner)
        copy_converted(into[at:stop], found.view(into[at:stop].shape))
