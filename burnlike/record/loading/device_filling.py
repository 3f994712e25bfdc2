"""Loads a file's values into tensors of a GPU: read into pinned memory, copied by a side stream, converted there.

While the GPU copies one buffer, the next is read. The device is busy for no longer than the copies.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor

from ..files.stored_tensors import FileValues
from ..saving.convert import pieces
from ..saving.workers import BLOCK_BYTES

BUFFERS = 2
"""How many pieces are on their way at a time."""


class SideStream(Protocol):
    """A device's own queue of copies."""

    def buffer(self, count: int) -> Tensor:
        """`count` bytes on the CPU that the device can read."""
        ...

    def queue(self) -> AbstractContextManager[Any]:
        """Within it, what torch does on the device goes into this queue."""
        ...

    def mark(self) -> Any:
        """A mark after everything queued so far."""
        ...

    def wait(self, mark: Any) -> None:
        """Wait until all before `mark` is done."""
        ...

    def finish(self) -> None:
        """Let what the program does next on the device come after all that is in the queue."""
        ...


@cache
def _stream_of(device: torch.device) -> torch.cuda.Stream:
    """The stream of all copies of a device. One only: torch keeps freed memory for the stream that it was used in, and
    would end up with buffers for each."""
    return torch.cuda.Stream(device)


class CudaSideStream:
    """A `SideStream` of CUDA."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = _stream_of(device)
        self._stream.wait_stream(torch.cuda.current_stream(device))  # the targets may still be in use

    def buffer(self, count: int) -> Tensor:
        """Pinned memory. Torch keeps it when it is freed, so that the next one is there at once."""
        return torch.empty(count, dtype=torch.uint8, pin_memory=True)

    def queue(self) -> AbstractContextManager[Any]:
        """The stream as the current one."""
        return torch.cuda.stream(self._stream)

    def mark(self) -> torch.cuda.Event:
        """An event."""
        event = torch.cuda.Event()
        event.record(self._stream)
        return event

    def wait(self, mark: torch.cuda.Event) -> None:
        """Until the event has happened."""
        mark.synchronize()

    def finish(self) -> None:
        """The current stream waits for this one."""
        torch.cuda.current_stream(self._device).wait_stream(self._stream)


def fill_device(
    readings: Sequence[tuple[FileValues, Tensor]], device: torch.device, stream: SideStream | None = None
) -> None:
    """Read the values of tensors into tensors of `device`, in their types and strides.

    Args:
        readings: what to read, and where to; in the order in which it is in the file.
        device: where the targets are.
        stream: its queue; None makes one of CUDA.
    """
    stream = stream or CudaSideStream(device)
    slots: list[tuple[Tensor, Any]] = [(stream.buffer(BLOCK_BYTES), None) for _ in range(BUFFERS)]
    done = 0
    try:
        for values, into in readings:
            count = BLOCK_BYTES // values.stored.itemsize
            for start in range(0, into.numel(), count):
                buffer, mark = slots[done % BUFFERS]
                if mark is not None:
                    stream.wait(mark)
                found = values.read(start, min(start + count, into.numel()), buffer)
                with stream.queue():
                    staged = found.to(device, non_blocking=True)
                    for piece, before in pieces(into, start, start + found.numel()):
                        piece.copy_(staged[before : before + piece.numel()].view(piece.shape))
                    slots[done % BUFFERS] = (buffer, stream.mark())
                done += 1
    finally:
        for _, mark in slots:
            if mark is not None:
                stream.wait(mark)
        stream.finish()
