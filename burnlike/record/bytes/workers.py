"""A few threads that take work from one list, each with its own buffer and one thread of torch's."""

import contextlib
import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import Tensor

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
        with contextlib.suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    whole = torch.frombuffer(memory, dtype=torch.uint8)
    skipped = -whole.data_ptr() % buffer_bytes
    return list(whole[skipped : skipped + count * buffer_bytes].split(buffer_bytes))


def bytes_at(address: int, count: int) -> memoryview:
    """The memory at `address` for reading and writing; whoever uses it keeps its tensor alive."""
    return memoryview((ctypes.c_ubyte * count).from_address(address)).cast("B")
