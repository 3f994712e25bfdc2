"""A device's own queue of copies: it fetches and fills while the device goes on computing."""

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import torch
from torch import Tensor


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
