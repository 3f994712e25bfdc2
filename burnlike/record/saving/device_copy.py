"""Converts a GPU's values there, many tensors at a time, and copies them to files by a side stream.

A range of the file is laid out in the GPU's memory, so that one copy fetches all that belongs there. There are two
buffers: while the CPU writes one range, the next is converted and copied. The GPU is busy for no longer than that.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._dtypes import NATIVE, torch_dtypes
from ...ops import convert_
from ..bytes.convert import check_floats, check_kept, pieces
from ..bytes.side_stream import CudaSideStream, SideStream
from .stream import WrittenTensor

RANGE_BYTES = 32 << 20  # that are fetched at a time
POOL_BYTES = 256 << 20  # of the CPU's memory, that tensors share: torch rounds pinned memory up to a power of two
_CONVERTED = set(torch_dtypes(NATIVE))  # what the native op takes
_PAGE_BYTES = 4096
_ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class _Slice:
    """Elements of a part that one range has: index of the first, number, and offset in the range in bytes."""

    part: WrittenTensor
    first: int
    count: int
    at: int


def slices_of(placed: Mapping[int, WrittenTensor], ranges: Sequence[tuple[int, int]]) -> list[list[_Slice]]:
    """The slices of the parts that lie in each range of a file.

    `placed` has the place of the first byte, a multiple of the element's size, of each part, in order. `ranges` have
    the first byte, a multiple of every element's size, and the end, likewise or that of a part, without gaps between.
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
    hosts: Sequence[Tensor] = (),
) -> Iterator[Tensor]:
    """For each range memory of the CPU, whole pages, that begins with its bytes; what is between parts is left open.

    It may be filled and written, and is valid until the next one is asked for; for good, if `hosts` has memory of the
    stream's for each range. `slices` are what comes from `device`, whose queue of copies `stream` is.
    """
    count = max(stop - start for start, stop in ranges)
    slots = [_Slot(count, device, stream, allow_overflow) for _ in range(min(2, len(ranges)))]
    hosts = hosts or [stream.buffer(-(-count // _PAGE_BYTES) * _PAGE_BYTES) for _ in slots]
    try:
        for index, (start, stop) in enumerate(ranges):
            slots[index % 2].begin(slices[index], stop - start, hosts[index % len(hosts)])
            if index:
                yield slots[(index - 1) % 2].finish()
        yield slots[(len(ranges) - 1) % 2].finish()
    finally:
        for slot in slots:
            slot.wait()
        stream.finish()


def fetch(
    parts: Sequence[WrittenTensor],
    device: torch.device,
    stream: SideStream | None = None,
    allow_overflow: bool = False,
) -> list[Tensor]:
    """Convert values of a device into contiguous tensors of the CPU, in memory that the device writes itself.

    With CUDA it is pinned: the first time that takes long, but torch keeps it for the next time. `stream` is the
    device's queue of copies; None makes one of CUDA.
    """
    stream = stream or CudaSideStream(device)
    placed: dict[int, WrittenTensor] = {}
    made: list[Tensor] = []
    ranges: list[tuple[int, int]] = []
    hosts: list[Tensor] = []
    end = 0
    for pool in _pools(parts):
        starts = list(itertools.accumulate(map(_aligned_bytes, pool), initial=0))
        memory = stream.buffer(starts[-1]) if starts[-1] else torch.empty(0, dtype=torch.uint8)
        for part, start in zip(pool, starts, strict=False):
            assert isinstance(part.values, Tensor)
            if part.nbytes:
                placed[end + start] = part
            made.append(memory[start : start + part.nbytes].view(part.dtype).view(part.values.shape))
        for start in range(0, starts[-1], RANGE_BYTES):
            stop = min(start + RANGE_BYTES, starts[-1])
            ranges.append((end + start, end + stop))
            hosts.append(memory[start:stop])
        end += starts[-1]
    if ranges:
        for _ in images(slices_of(placed, ranges), ranges, device, stream, allow_overflow, hosts):
            pass
    return made


def _aligned_bytes(part: WrittenTensor) -> int:
    return -(-part.nbytes // _ALIGNMENT) * _ALIGNMENT


def _pools(parts: Sequence[WrittenTensor]) -> Iterator[list[WrittenTensor]]:
    """The parts in their order, as many together as have POOL_BYTES, or a larger one."""
    pool: list[WrittenTensor] = []
    count = 0
    for part in parts:
        if pool and count + _aligned_bytes(part) > POOL_BYTES:
            yield pool
            pool, count = [], 0
        pool.append(part)
        count += _aligned_bytes(part)
    if pool:
        yield pool


class _Slot:
    """A buffer on the device, for one range at a time."""

    def __init__(self, count: int, device: torch.device, stream: SideStream, allow_overflow: bool) -> None:
        self._stream = stream
        self._device = device
        self._allow_overflow = allow_overflow
        self._host = torch.empty(0, dtype=torch.uint8)
        with stream.queue():
            self._image = torch.empty(count, dtype=torch.uint8, device=device)
        self._owners: list[_Slice] = []
        self._lost = torch.empty(0, dtype=torch.int32)
        self._mark: Any = None

    @torch.no_grad()
    def begin(self, slices: list[_Slice], count: int, host: Tensor) -> None:
        """Queue the conversion of the slices, and the copy to `host`; nothing waits."""
        self._host = host
        targets, sources, self._owners = [], [], []
        with self._stream.queue():
            for slice_ in slices:
                for source, target in _pairs(slice_, self._image):
                    if {source.dtype, target.dtype} <= _CONVERTED:
                        targets.append(target)
                        sources.append(source)
                        self._owners.append(slice_)
                    else:
                        target.copy_(source)
                        check_kept(slice_.part.name, source, target, self._allow_overflow)  # waits
            lost = torch.zeros(len(targets), dtype=torch.int32, device=self._device)
            convert_(targets, sources, lost)
            self._lost = self._stream.buffer(lost.nbytes).view(torch.int32)
            self._lost.copy_(lost, non_blocking=True)
            self._host[:count].copy_(self._image[:count], non_blocking=True)
            self._mark = self._stream.mark()

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
        if self._mark is not None:
            self._stream.wait(self._mark)
            self._mark = None


def _pairs(slice_: _Slice, image: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    assert isinstance(slice_.part.values, Tensor)
    size = slice_.part.dtype.itemsize
    into = image[slice_.at : slice_.at + slice_.count * size].view(slice_.part.dtype)
    for source, before in pieces(slice_.part.values, slice_.first, slice_.first + slice_.count):
        yield source, into[before : before + source.numel()].view(source.shape)
