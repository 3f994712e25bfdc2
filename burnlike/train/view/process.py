"""The time and the memory that this process's part of a training takes."""

import os
import sys
import time
from typing import NamedTuple


class Clock:
    """Measures from the start of this process's part of a run."""

    def __init__(self) -> None:
        self.start(0, 0)

    def start(self, step: int, total_steps: int) -> None:
        """Begin after `step` of `total_steps` steps."""
        self._first, self._total = step, total_steps
        self._started_at = time.monotonic()

    def elapsed(self) -> float:
        return time.monotonic() - self._started_at

    def left(self, step: int) -> float | None:
        """Seconds until the end at the mean speed so far, validation included; None before the first step."""
        done = step - self._first
        return self.elapsed() / done * (self._total - step) if done > 0 else None


class Usage(NamedTuple):
    """Bytes of memory; None for CUDA where it is not in use."""

    process: int
    cuda: int | None


def memory_in_use() -> Usage:
    """The resident memory of the process, and what torch holds of the CUDA device."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            process = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        process = 0
    torch = sys.modules.get("torch")
    used = torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
    return Usage(process, torch.cuda.memory_reserved() if torch is not None and used else None)
