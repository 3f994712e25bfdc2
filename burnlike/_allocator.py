"""Makes the C allocator keep the memory of large tensors instead of giving it back to the system."""

import ctypes
import sys

# <malloc.h> of glibc
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


def keep_freed_memory() -> bool:
    """Let this process keep the memory that large CPU tensors free, for the next ones.

    By default glibc gets each large block from the system and gives it back when it is freed; the system clears every
    page of it anew, which takes longer than an element-wise operation itself. With these settings the process's memory
    stays at its peak instead of falling between operations. `burnlike train` makes them; in a program of your own call
    this once at the start. CUDA memory is not concerned: torch caches it.

    Returns:
        Whether the settings were made: False where the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
