"""Saving in the background: a copy of the values is made at once, and a thread writes it while training goes on.

The interpreter waits for the thread when it ends; its list of threads is the only one of the saves that are going on.
"""

import contextlib
import copy
import os
import threading
import weakref
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Literal

import torch
from torch import Tensor

from ...errors import ArgumentError, BurnlikeError, RecordIOError, SavePendingError
from ..bytes.values import BLOCK_BYTES, run_steps
from ..files.stored_tensors import LazyTensors
from ..formats import Outline, Payload
from .device_copy import fetch
from .writing import WrittenTensor, written_tensor

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
        super().__init__(name=f"saving {path}", daemon=False)
        self.path = os.path.realpath(path)
        self.owner = owner
        self.error: BaseException | None = None
        self._niceness = niceness
        self._write: Callable[[], str] | None = write
        self._state = threading.Lock()
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
