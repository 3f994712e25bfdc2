"""Values between files, memory and devices: work for several threads, conversion to other types, queues of copies.

Conversion notices the values that a type can't hold.
"""

import ctypes
import math
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from typing import Any, TypeVar

import torch
from torch import Tensor

from ..._dtypes import DTYPES, NATIVE, torch_dtypes
from ...errors import PrecisionError
from ...ops.convert import convert_new_, rounded_once
from ..precision import kind_of, plain

BLOCK_BYTES = 2 << 20
"""Bytes of a buffer: a huge page, which a disk takes in one request."""

MAX_WORKERS = 4
"""Threads, and so buffers. More than there are cores, as they wait for the disk in turn."""

Step = TypeVar("Step")


def run_steps(
    steps: Sequence[Step],
    do: Callable[[Step, Tensor], object],
    buffer_bytes: int = BLOCK_BYTES,
    most_workers: int = MAX_WORKERS,
) -> None:
    """Do every step, begun in the order of the list, by several threads if there are several steps.

    If no thread can be started, the caller's does them all: Python 3.12 starts none once the program has begun to end.
    If a step raises, no further one begins, and the first error is raised. `do` gets a step and a buffer of its
    thread's own, of `buffer_bytes`, a power of two; those of threads begin at a multiple of it.
    """
    workers = min(most_workers, len(steps))
    if workers < 2 or not _Pool(steps, do, workers).run(buffer_bytes):
        buffer = torch.empty(buffer_bytes, dtype=torch.uint8, device="cpu")
        for step in steps:
            do(step, buffer)


class _Pool:
    """The steps that are left, shared by the workers."""

    def __init__(self, steps: Sequence[Step], do: Callable[[Step, Tensor], object], workers: int) -> None:
        self.steps = iter(steps)
        self.do = do
        self.error: BaseException | None = None
        self.ready = threading.Semaphore(0)
        self._busy = [False] * workers

    def run(self, buffer_bytes: int) -> bool:
        """Let threads do all steps; False if none could be started, and nothing was done."""
        threads: list[threading.Thread] = []
        try:
            with _one_torch_thread_each():
                for number, buffer in enumerate(_buffers(len(self._busy), buffer_bytes)):
                    thread = threading.Thread(target=self.work, args=(number, buffer))
                    try:
                        thread.start()
                    except RuntimeError:  # the system's limit, or the interpreter ends
                        break
                    threads.append(thread)
                for _ in threads:
                    self.ready.acquire()
            for thread in threads:
                thread.join()
        except BaseException as error:  # an interrupt of the main thread: the workers must not outlive what they use
            self.stop(error)
            raise
        if self.error is not None:
            raise self.error
        return bool(threads)

    def stop(self, error: BaseException) -> None:
        """Let no step begin any more, and wait for those that have, however often the user interrupts.

        Not by `join`: before Python 3.13 a `join` that is interrupted takes the thread for one that has ended.
        """
        self.error = self.error or error
        while True:
            try:
                while any(self._busy):
                    time.sleep(0.001)
                return
            except KeyboardInterrupt:
                continue

    def work(self, number: int, buffer: Tensor) -> None:
        """Do steps, as one of several threads, until none is left or one has failed; keeps the first error of all."""
        try:
            torch.set_num_threads(1)
            self.ready.release()
            for step in self.steps:
                self._busy[number] = True  # before it looks at `error`, which `stop` sets before it looks at this
                if self.error is not None:
                    return
                self.do(step, buffer)
        except BaseException as error:
            self.error = self.error or error
        finally:
            self._busy[number] = False


_starting = threading.Lock()  # who comes second would take the 1 of the first for the number to be put back


def _renew_lock() -> None:
    global _starting
    _starting = threading.Lock()


os.register_at_fork(after_in_child=_renew_lock)  # it may be held by a thread that the child does not have


@contextmanager
def _one_torch_thread_each() -> Iterator[None]:
    """Let each worker that starts compute with one thread: teams of threads would only get in each other's way.

    `torch.set_num_threads` counts for the calling thread and for threads that are new to torch. So the workers set it
    to 1 and, once all have, the number for new threads is put back, by a thread made for that.
    """
    with _starting:
        before = torch.get_num_threads()
        try:
            yield
        finally:
            thread = threading.Thread(target=torch.set_num_threads, args=(before,))
            try:
                thread.start()
                thread.join()
            except RuntimeError:  # no thread can be started
                torch.set_num_threads(before)


def _buffers(count: int, buffer_bytes: int) -> list[Tensor]:
    """Buffers that each begin a page, and are one huge page where the system has those."""
    memory = mmap.mmap(-1, (count + 1) * buffer_bytes)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    skipped = -whole.data_ptr() % buffer_bytes
    return list(whole[skipped : skipped + count * buffer_bytes].split(buffer_bytes))


def bytes_at(address: int, count: int) -> memoryview:
    """The memory at `address` for reading and writing; whoever uses it keeps its tensor alive."""
    return memoryview((ctypes.c_ubyte * count).from_address(address)).cast("B")


# Sums of these types are computed natively on every device; of float8 they are not.
_SUMMABLE = torch_dtypes(NATIVE)
_WITHOUT_INF = torch_dtypes(dtype for dtype in DTYPES if dtype.torch and not dtype.has_inf)

_FLOAT_REMEDY = "choose another type, list the tensor in Precision(keep=[...]), or set allow_overflow=True"
_INT_REMEDY = "choose a wider type or list the tensor in Precision(keep=[...])"


def pieces(tensor: Tensor, start: int, stop: int) -> Iterator[tuple[Tensor, int]]:
    """Cut the elements `start` to `stop` (row-major) of a tensor of any strides into views.

    Each view comes with the number of elements before it; contiguous memory is one view.
    """
    if tensor.is_contiguous():
        yield tensor.view(-1)[start:stop], 0
        return
    if tensor.dim() == 1:
        yield tensor[start:stop], 0
        return
    row = tensor[0].numel()
    first, last = -(-start // row), stop // row
    if first > last:
        yield from pieces(tensor[last], start - last * row, stop - last * row)
        return
    done = 0
    if start < first * row:
        yield from pieces(tensor[first - 1], start - (first - 1) * row, row)
        done = first * row - start
    if first < last:
        yield tensor[first:last], done
        done += (last - first) * row
    if last * row < stop:
        yield from ((view, done + before) for view, before in pieces(tensor[last], 0, stop - last * row))


def can_lose(source: torch.dtype, target: torch.dtype) -> bool:
    """True if `target` lacks some values' range or inf, so that a conversion has to be checked."""
    if source == target or kind_of(source) != kind_of(target) or kind_of(source) in ("bool", "complex"):
        return False
    if target in _WITHOUT_INF and source not in _WITHOUT_INF:
        return True
    info = torch.finfo if source.is_floating_point else torch.iinfo
    return info(target).max < info(source).max or info(target).min > info(source).min


def in_dtype(source: Tensor, dtype: torch.dtype) -> Tensor:
    """`source.to(dtype)`; of float64 rounded once, as files are written and read."""
    if source.dtype != torch.float64 or dtype.itemsize > 2:
        return source.to(dtype)
    return rounded_once(source, dtype)


def copy_converted(into: Tensor, source: Tensor) -> None:
    """`into.copy_(source)`; of float64 rounded once."""
    into.copy_(in_dtype(source, into.dtype) if source.dtype == torch.float64 else source)


def convert_checked(name: str, source: Tensor, into: Tensor) -> None:
    """Copy floats of any device and strides into contiguous memory of the CPU, of another float type."""
    if source.device.type == "cpu" and {source.dtype, into.dtype} <= set(_SUMMABLE):
        lost = torch.zeros(1, dtype=torch.int32, device="cpu")
        convert_new_([into], [source.resolve_neg()], lost)
        if lost.item():
            check_floats(name, source, into)
        return
    # On a GPU converted there: fewer bytes to copy, and the check runs where both are.
    converted = into.copy_(source) if source.device.type == "cpu" else in_dtype(source, into.dtype)
    check_floats(name, source, converted)
    if converted is not into:
        into.copy_(converted)


def check_kept(
    name: str, source: Tensor, converted: Tensor, allow_overflow: bool = False, remedy: str | None = None
) -> None:
    """Raise PrecisionError if a value of `source` does not fit the type of `converted`, which has the same kind."""
    if not can_lose(source.dtype, converted.dtype):
        return
    if not converted.dtype.is_floating_point:
        check_ints(name, source, converted.dtype, remedy or _INT_REMEDY)
    elif not allow_overflow:
        check_floats(name, source, converted, remedy or _FLOAT_REMEDY)


def check_floats(name: str, source: Tensor, converted: Tensor, remedy: str = _FLOAT_REMEDY) -> None:
    """Raise PrecisionError if a value of `source` was too large for the type of `converted`.

    Such a value is finite and became inf, nan or (where torch saturates) the largest value; or is inf where the type
    has none.
    """
    if source.numel() == 0:
        return
    limits = torch.finfo(converted.dtype)
    if converted.dtype in _SUMMABLE:  # one fast pass is enough in nearly every case
        fits = bool(converted.sum().isfinite().item())  # a sum is finite only if all its terms are
    else:
        # Of nan both are nan, which fits no range: the slow pass tells.
        low, high = _wide(source).aminmax()
        fits = -limits.max <= low.item() and high.item() <= limits.max
    if fits:
        return
    # What lies less than half a step above the largest value is rounded down to it, and lost no more than others.
    half_step = limits.eps * 2.0 ** math.floor(math.log2(limits.max)) / 2
    before, after = _wide(source), _wide(converted)
    lost = before.isfinite() & (~after.isfinite() | (before.abs() > limits.max + half_step))
    lost |= before.isinf() & ~after.isinf()
    if lost.any().item():
        raise PrecisionError(
            f"'{name}': {before[lost][0].item():g} is too large for {plain(converted.dtype)} (at most {limits.max:g});"
            f" {remedy}"
        )


def check_ints(name: str, source: Tensor, target: torch.dtype, remedy: str = _INT_REMEDY) -> None:
    """Raise if a value of the integer tensor `source` does not fit `target`."""
    if source.numel() == 0:
        return
    limits = torch.iinfo(target)
    # torch has no ordering of uint64: with the top bit turned over, int64's order is the same.
    wide = source.dtype == torch.uint64
    ordered = source.view(torch.int64) ^ -(2**63) if wide else source.to(torch.int64)
    for value in (int(it.item()) + (2**63 if wide else 0) for it in ordered.aminmax()):
        if not limits.min <= value <= limits.max:
            raise PrecisionError(
                f"'{name}': {value} does not fit {plain(target)} ({limits.min} to {limits.max}); {remedy}"
            )


def _wide(tensor: Tensor) -> Tensor:
    return tensor if tensor.dtype in _SUMMABLE else tensor.float()


@cache
def _stream_of(device: torch.device) -> torch.cuda.Stream:
    """The stream of all copies of a device. One only: torch keeps freed memory for the stream that it was used in, and
    would end up with buffers for each."""
    return torch.cuda.Stream(device)


class CudaSideStream:
    """The queue of a GPU."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = _stream_of(device)
        self._stream.wait_stream(torch.cuda.current_stream(device))  # the targets may still be in use

    def buffer(self, count: int) -> Tensor:
        """`count` pinned bytes. Torch keeps them when they are freed, so that the next ones are there at once."""
        return torch.empty(count, dtype=torch.uint8, pin_memory=True)

    def queue(self) -> AbstractContextManager[Any]:
        """Within it, what torch does on the device goes into this queue."""
        return torch.cuda.stream(self._stream)

    def mark(self) -> torch.cuda.Event:
        """A mark after everything queued so far."""
        event = torch.cuda.Event()
        event.record(self._stream)
        return event

    def wait(self, mark: torch.cuda.Event) -> None:
        """Wait until all before `mark` is done."""
        mark.synchronize()

    def finish(self) -> None:
        """Let what the program does next on the device come after all that is in the queue."""
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
