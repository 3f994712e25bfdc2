"""The memory that this process has in use."""

import os
import sys
from typing import NamedTuple


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
