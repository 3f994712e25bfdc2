"""Converts a GPU's values there, many tensors at a time, and copies them to files by a side stream.

A range of the file is laid out in the GPU's memory, so that one copy fetches all that belongs there. There are two
buffers: while the CPU writes one range, the next is converted and copied. The GPU is busy for no longer than that.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._dtypes import NATIVE, torch_dtypes
from ...ops import convert_
from ..loading.device_filling import CudaSideStream, SideStream
from .convert import can_lose, check_floats, check_ints, pieces
from .stream import Part

RANGE_BYTES = 32 << 20
"""Bytes that are fetched at a time."""

_CONVERTED = set(torch_dtypes(NATIVE))  # what the native op takes
_PAGE_BYTES = 4096
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class _Slice:
    """Elements of a part that one range has.

    Attributes:
        part: the part.
        first: index of the first element.
        count: how many they are.
        at: where they begin in the range, in bytes.
    """

    part: Part
    first: int
    count: int
    at: int


def slices_of(placed: Mapping[int, Part], ranges: Sequence[tuple[int, int]]) -> list[list[_Slice]]:
    """The slices of the parts that lie in each range of a file.

    Args:
        placed: place of the first byte, a multiple of the element's size -> part; in order.
        ranges: first byte, a multiple of every element's size, and end, likewise or the end of a part; each begins
            where the one before it ends.
    """
    found: list[list[_Slice]] = [[] for _ in ranges]
    index = 0
    for place, part in placed.items():
        size, end_of_part = part.dtype.itemsize, place + part.nbytes
        while ranges[index][1] <= place:
            index += 1
        for at in range(index, len(ranges)):
            start, stop = ranges[at]
            if start >= end_of_part:
                break
            begin, end = max(place, start), min(end_of_part, stop)
            found[at].append(_Slice(part, (begin - place) // size, (end - begin) // size, begin - start))
    return found


def images(
    slices: Sequence[list[_Slice]],
    ranges: Sequence[tuple[int, int]],
    device: torch.device,
    stream: SideStream,
    allow_overflow: bool = False,
) -> Iterator[Tensor]:
    """For each range memory of the CPU, whole pages, that begins with its bytes; what is between parts is left open.

    It may be filled and written, and is valid until the next one is asked for.

    Args:
        slices: what of each range comes from `device`, see `slices_of`.
        ranges: first byte and end of each, none longer than the first.
        device: where the values are.
        stream: its queue of copies.
        allow_overflow: do not check that finite values stay finite.

    Raises:
        PrecisionError: a value can't be stored in its part's dtype.
    """
    slots = [_Slot(ranges[0][1] - ranges[0][0], device, stream, allow_overflow) for _ in range(min(2, len(ranges)))]
    try:
        for index, (start, stop) in enumerate(ranges):
            slots[index % 2].begin(slices[index], stop - start)
            if index:
                yield slots[(index - 1) % 2].finish()
        yield slots[(len(ranges) - 1) % 2].finish()
    finally:
        for slot in slots:
            slot.wait()
        stream.finish()


def fetch(
    copies: Sequence[tuple[Part, Tensor]],
    device: torch.device,
    stream: SideStream | None = None,
    allow_overflow: bool = False,
) -> None:
    """Convert values of a device into tensors of the CPU.

    Args:
        copies: parts whose values are on `device`, and contiguous tensors of their types.
        device: where the values are.
        stream: its queue of copies; None makes one of CUDA.
        allow_overflow: do not check that finite values stay finite.

    Raises:
        PrecisionError: a value can't be stored in its part's dtype.
    """
    placed: dict[int, Part] = {}
    targets: dict[str, Tensor] = {}
    end = 0
    for part, target in copies:
        if part.nbytes:
            placed[end] = part
            targets[part.name] = target.view(-1)
            end += -(-part.nbytes // _ALIGNMENT) * _ALIGNMENT
    ranges = [(start, min(start + RANGE_BYTES, end)) for start in range(0, end, RANGE_BYTES)]
    if not ranges:
        return
    slices = slices_of(placed, ranges)
    copied = images(slices, ranges, device, stream or CudaSideStream(device), allow_overflow)
    for there, image in zip(slices, copied, strict=True):
        for slice_ in there:
            into = targets[slice_.part.name][slice_.first : slice_.first + slice_.count]
            into.copy_(image[slice_.at : slice_.at + into.nbytes].view(into.dtype))


class _Slot:
    """A buffer on the device and one on the CPU, for one range at a time."""

    def __init__(self, count: int, device: torch.device, stream: SideStream, allow_overflow: bool) -> None:
        self._stream = stream
        self._device = device
        self._allow_overflow = allow_overflow
        self._host = stream.buffer(-(-count // _PAGE_BYTES) * _PAGE_BYTES)
        with stream.queue():
            self._image = torch.empty(count, dtype=torch.uint8, device=device)
        self._owners: list[_Slice] = []
        self._lost = torch.empty(0, dtype=torch.int32)
        self._mark: Any = None

    @torch.no_grad()
    def begin(self, slices: list[_Slice], count: int) -> None:
        """Queue the conversion of the slices, and the copy; nothing waits."""
        targets, sources, self._owners = [], [], []
        with self._stream.queue():
            for slice_ in slices:
                for source, target in _pairs(slice_, self._image):
                    if {source.dtype, target.dtype} <= _CONVERTED:
                        targets.append(target)
                        sources.append(source)
                        self._owners.append(slice_)
                    else:
                        self._copy(slice_.part, source, target)
            lost = torch.zeros(len(targets), dtype=torch.int32, device=self._device)
            convert_(targets, sources, lost)
            self._lost = self._stream.buffer(lost.nbytes).view(torch.int32)
            self._lost.copy_(lost, non_blocking=True)
            self._host[:count].copy_(self._image[:count], non_blocking=True)
            self._mark = self._stream.mark()

    def _copy(self, part: Part, source: Tensor, target: Tensor) -> None:
        """Copy what the native op does not take; a check of it waits."""
        loses = can_lose(source.dtype, target.dtype)
        if loses and not target.dtype.is_floating_point:
            check_ints(part.name, source, target.dtype)
        target.copy_(source)
        if loses and target.dtype.is_floating_point and not self._allow_overflow:
            check_floats(part.name, source, target)

    def finish(self) -> Tensor:
        """Wait for the copy; the bytes."""
        self.wait()
        if not self._allow_overflow:
            for index in self._lost.nonzero().flatten().tolist():
                slice_ = self._owners[index]
                for source, target in _pairs(slice_, self._host):
                    check_floats(slice_.part.name, source.cpu(), target)
        return self._host

    def wait(self) -> None:
        """Wait for what is queued."""
        if self._mark is not None:
            self._stream.wait(self._mark)
            self._mark = None


def _pairs(slice_: _Slice, image: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """The elements of a slice and their places in a range."""
    assert isinstance(slice_.part.values, Tensor)
    size = slice_.part.dtype.itemsize
    into = image[slice_.at : slice_.at + slice_.count * size].view(slice_.part.dtype)
    for source, before in pieces(slice_.part.values, slice_.first, slice_.first + slice_.count):
        yield source, into[before : before + source.numel()].view(source.shape)
