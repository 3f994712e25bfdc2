"""How much memory a call takes; the tests measure with it, too."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def with_extra_bytes(call: Callable[[], T]) -> tuple[T, int]:
    """What `call` returns, and the peak of the process's memory meanwhile over what it held before, in bytes.

    Linux only. What the call frees counts; it is to be measured in a process of its own, as memory that an earlier call
    has freed may still be held and is used again.
    """
    before = restart_peak()
    found = call()
    return found, rise_to_peak(before)


def restart_peak() -> int:
    """Let the peak start anew; what the process holds now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _status_bytes("VmRSS")


def rise_to_peak(before: int) -> int:
    """The peak since `restart_peak` over what the process held then."""
    return _status_bytes("VmHWM") - before


def _status_bytes(key: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
