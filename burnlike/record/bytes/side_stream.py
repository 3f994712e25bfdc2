"""A device's own queue of copies: it fetches and fills while the device goes on computing."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any, Protocol

import torch
from torch import Tensor


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
        return torch.cuda.stream(self._stream)

    def mark(self) -> torch.cuda.Event:
        event = torch.cuda.Event()
        event.record(self._stream)
        return event

    def wait(self, mark: torch.cuda.Event) -> None:
        mark.synchronize()

    def finish(self) -> None:
        torch.cuda.current_stream(self._device).wait_stream(self._stream)
