"""Saving in the background: a copy of the values is made at once, and a thread writes it while training goes on.

The interpreter waits for the thread when it ends; its list of threads is the only one of the saves that are going on.

A GPU's values are converted there, many tensors at a time, and copied to files by a side stream. A range of the file is
laid out in the GPU's memory, so that one copy fetches all that belongs there. There are two buffers: while the CPU
writes one range, the next is converted and copied.
"""

import contextlib
import copy
import itertools
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from ..._dtypes import NATIVE, torch_dtypes
from ...errors import ArgumentError, BurnlikeError, RecordIOError, SavePendingError
from ...ops import convert_
from ..bytes.values import BLOCK_BYTES, CudaSideStream, check_floats, check_kept, pieces, run_steps
from ..files.stored_tensors import LazyTensors
from ..formats import Outline, Payload
from .writing import WrittenTensor, written_tensor

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
        # Within the queue: else torch might give this memory, once freed, to others while the queue still uses it.
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


OnBusy = Literal["wait", "refuse"]  # what becomes of a save while the one before it goes on


class SaveHandle:
    """A save to `path` that goes on in the background.

    An error that nobody asks for by `wait` is printed as that of a thread, when the handle goes or the program ends.
    """

    def __init__(self, thread: "SaveThread") -> None:
        self.path = thread.path
        self._thread = thread
        weakref.finalize(self, thread.leave)

    def done(self) -> bool:
        """True if it has ended, well or not."""
        return self._thread.has_ended()

    def wait(self, timeout: float | None = None) -> str:
        """Wait until the file is in its place and synced, at most `timeout` seconds; returns the path written.

        Raises SavePendingError if it is not done by then, or what `FileRecorder.save` raises if it failed.
        """
        if not self._thread.has_ended(timeout):
            raise SavePendingError(f"{self.path}: is still being saved after {timeout} seconds; call wait() again")
        return self._thread.outcome()


class SaveThread(threading.Thread):
    """Calls `write`, which returns the path written, on behalf of `owner`; `error` is what that raised, at its end.

    `niceness` is added to that of the process, where the system lets a thread have its own.
    """

    def __init__(self, write: Callable[[], str], path: str, owner: object, niceness: int = 0) -> None:
        # Said, as a thread takes it over from the one that makes it: the interpreter does not wait for daemons.
        super().__init__(name=f"saving {path}", daemon=False)
        self.path = os.path.realpath(path)
        self.owner = owner
        self.error: BaseException | None = None
        self._niceness = niceness
        self._write: Callable[[], str] | None = write
        # `leave` may run in a garbage collection while the thread ends, also in it: the error is to be told once.
        self._state = threading.RLock()
        self._written: str | None = None
        self._is_left = self._is_known = False
        self._ended = threading.Event()

    def run(self) -> None:
        assert self._write is not None
        try:
            if self._niceness:
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), self._niceness)
            self._written = self._write()
        except BaseException as error:
            at: BaseException | None = error if isinstance(error, BurnlikeError) else None
            while at is not None and at.__traceback__ is not None:
                at.__traceback__ = None  # its frames would keep the values for as long as there is a handle
                at = at.__cause__ or at.__context__
            with self._state:
                self.error = error
                self._report_unknown()
        finally:
            self._write = None  # it has the values
            self._ended.set()

    def has_ended(self, timeout: float | None = 0.0) -> bool:
        """Wait at most `timeout` seconds for it; whether it has ended.

        Not by `join`: before Python 3.13 a `join` that is interrupted takes the thread for one that has ended, and then
        the interpreter does not wait for it either.
        """
        return not self.is_alive() or self._ended.wait(timeout)  # a forked process has a copy, but not the thread

    def outcome(self) -> str:
        if self.error is not None:
            self._is_known = True
            raise self.error
        if self._written is None:  # a forked process has a copy of the handle, but not the thread
            raise RecordIOError(f"{self.path}: is saved by another process; wait for it in the one that began to save")
        return self._written

    def leave(self) -> None:
        with self._state:
            self._is_left = True
            self._report_unknown()

    def _report_unknown(self) -> None:
        error = self.error
        if error is not None and self._is_left and not self._is_known:
            self._is_known = True
            threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, self)))


def wait_for_saves(path: str, owner: object = None, on_busy: OnBusy = "wait") -> None:
    """Wait for saves to `path` or of `owner`, which must not finish after a new one; or raise SavePendingError."""
    if on_busy not in ("wait", "refuse"):
        raise ArgumentError(f"on_busy: expected 'wait' or 'refuse', got {on_busy!r}")
    real = os.path.realpath(path)
    for thread in threading.enumerate():
        if not isinstance(thread, SaveThread) or (thread.path != real and thread.owner is not owner):
            continue
        if on_busy == "refuse":
            raise SavePendingError(
                f"{path}: not saved, {thread.path} is still being saved; wait for its handle, or pass on_busy='wait'"
            )
        thread.has_ended(None)


def snapshot(
    outline: Outline, tensors: Mapping[str, Tensor], allow_overflow: bool
) -> tuple[Outline, Mapping[str, Tensor]]:
    """Copy what a record holds, in the types of the outline; but not tensors of an open file, which does not change."""
    kept = replace(
        outline,
        ids=dict(outline.ids),
        aliases=dict(outline.aliases),
        values=copy.deepcopy(outline.values),
        states=frozenset(outline.states),
        layout=copy.deepcopy(outline.layout),
        metadata=copy.deepcopy(outline.metadata),
    )
    if isinstance(tensors, LazyTensors):
        return kept, tensors
    copies: dict[str, Tensor] = {}
    on_gpu: dict[torch.device, list[WrittenTensor]] = {}
    on_cpu: list[WrittenTensor] = []
    for name in outline.entries:
        part = written_tensor(tensors, outline, Payload(name))
        assert isinstance(part.values, Tensor)
        device = part.values.device
        (on_gpu.setdefault(device, []) if device.type == "cuda" else on_cpu).append(part)
    for device, there in on_gpu.items():
        fetched = fetch(there, device, allow_overflow=allow_overflow)
        copies |= {part.name: copy for part, copy in zip(there, fetched, strict=True)}

    def fill(step: tuple[WrittenTensor, Tensor, int], _: Tensor) -> None:
        part, into, first = step
        part.fill(first, into, allow_overflow)

    steps = []
    for part in on_cpu:
        copies[part.name] = torch.empty(outline.entries[part.name].shape, dtype=part.dtype, device="cpu")
        flat, count = copies[part.name].view(-1), BLOCK_BYTES // part.dtype.itemsize
        steps += [(part, flat[first : first + count], first) for first in range(0, flat.numel(), count)]
    run_steps(steps, fill)
    return kept, copies
