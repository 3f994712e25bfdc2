"""Converts a GPU's values there, many tensors at a time, and copies them to files by a side stream.

A range of the file is laid out in the GPU's memory, so that one copy fetches all that belongs there. There are two
buffers: while the CPU writes one range, the next is converted and copied.
"""

import itertools
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ..._dtypes import NATIVE, torch_dtypes
from ...ops import convert_
from ..bytes.values import CudaSideStream, check_floats, check_kept, pieces
from .writing import WrittenTensor

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
    slices: list[list[_Slice]] = [[] for _ in ranges]
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
            slices[at].append(_Slice(part, (begin - place) // size, (end - begin) // size, begin - start))
    return slices


def images(
    slices: Sequence[list[_Slice]],
    ranges: Sequence[tuple[int, int]],
    device: torch.device,
    stream: CudaSideStream,
    allow_overflow: bool = False,
    hosts: Sequence[Tensor] = (),
) -> Iterator[Tensor]:
    """For each range memory of the CPU, whole pages, that begins with its bytes; what is between parts is left open.

    It may be filled and written, and is valid until the next one is asked for; for good, if `hosts` has memory of the
    stream's for each range. `slices` are what comes from `device`, whose queue of copies `stream` is.
    """
    count = max(stop - start for start, stop in ranges)
    with stream.queue():
        on_device = [torch.empty(count, dtype=torch.uint8, device=device) for _ in ranges[:2]]
    hosts = hosts or [stream.buffer(-(-count // _PAGE_BYTES) * _PAGE_BYTES) for _ in on_device]
    queued: deque[_Copy] = deque()
    try:
        for index, (start, stop) in enumerate(ranges):
            host = hosts[index % len(hosts)]
            queued.append(_queue(slices[index], on_device[index % 2], stop - start, host, stream, allow_overflow))
            if index:
                yield _finished(queued, stream, allow_overflow)
        yield _finished(queued, stream, allow_overflow)
    finally:
        for copy in queued:
            stream.wait(copy.mark)
        stream.finish()


def fetch(
    parts: Sequence[WrittenTensor],
    device: torch.device,
    stream: CudaSideStream | None = None,
    allow_overflow: bool = False,
) -> list[Tensor]:
    """Convert values of a device into contiguous tensors of the CPU, in memory that the device writes itself.

    With CUDA it is pinned: the first time that takes long, but torch keeps it for the next time. `stream` is the
    device's queue of copies; None makes one of CUDA.
    """
    stream = stream or CudaSideStream(device)
    placed: dict[int, WrittenTensor] = {}
    host_copies: list[Tensor] = []
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
            host_copies.append(memory[start : start + part.nbytes].view(part.dtype).view(part.values.shape))
        for start in range(0, starts[-1], RANGE_BYTES):
            stop = min(start + RANGE_BYTES, starts[-1])
            ranges.append((end + start, end + stop))
            hosts.append(memory[start:stop])
        end += starts[-1]
    if ranges:
        for _ in images(slices_of(placed, ranges), ranges, device, stream, allow_overflow, hosts):
            pass
    return host_copies


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


class _Copy(NamedTuple):
    """A copy to `host` that a device does until `mark`; `lost` says of which slice a value was lost."""

    host: Tensor
    lost: Tensor
    owners: list[_Slice]
    mark: Any


@torch.no_grad()
def _queue(
    slices: list[_Slice], image: Tensor, count: int, host: Tensor, stream: CudaSideStream, allow_overflow: bool
) -> _Copy:
    """Queue the conversion of the slices, and the copy to `host`; nothing waits."""
    targets: list[Tensor] = []
    sources: list[Tensor] = []
    owners: list[_Slice] = []
    with stream.queue():
        for slice_ in slices:
            for source, target in _pairs(slice_, image):
                if {source.dtype, target.dtype} <= _CONVERTED:
                    targets.append(target)
                    sources.append(source)
                    owners.append(slice_)
                else:
                    target.copy_(source)
                    check_kept(slice_.part.name, source, target, allow_overflow)  # waits
        lost = torch.zeros(len(targets), dtype=torch.int32, device=image.device)
        convert_(targets, sources, lost)
        lost_here = stream.buffer(lost.nbytes).view(torch.int32)
        lost_here.copy_(lost, non_blocking=True)
        host[:count].copy_(image[:count], non_blocking=True)
        return _Copy(host, lost_here, owners, stream.mark())


def _finished(queued: deque[_Copy], stream: CudaSideStream, allow_overflow: bool) -> Tensor:
    """Wait for the first copy; its bytes."""
    copy = queued.popleft()
    stream.wait(copy.mark)
    for index in () if allow_overflow else copy.lost.nonzero().flatten().tolist():
        for source, target in _pairs(copy.owners[index], copy.host):
            check_floats(copy.owners[index].part.name, source.cpu(), target)
    return copy.host


def _pairs(slice_: _Slice, image: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    assert isinstance(slice_.part.values, Tensor)
    size = slice_.part.dtype.itemsize
    into = image[slice_.at : slice_.at + slice_.count * size].view(slice_.part.dtype)
    for source, before in pieces(slice_.part.values, slice_.first, slice_.first + slice_.count):
        yield source, into[before : before + source.numel()].view(source.shape)
