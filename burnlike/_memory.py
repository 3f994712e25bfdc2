"""Memory: what is free, to refuse what will not fit before it is allocated, and what the C allocator keeps."""

import atexit
import contextlib
import ctypes
import gc
import os
import re
import sys
from collections.abc import Iterator

# <malloc.h> of glibc
_M_TRIM_THRESHOLD = -1
_M_MMAP_MAX = -4


_is_of_a_command = False


def process_of_a_command() -> None:
    """Say that this process runs one command and ends: garbage of imports may stay, also at the end of the process."""
    global _is_of_a_command
    _is_of_a_command = True
    # nanobind, which triton 3.9 (torch 2.15) is made with, prints hundreds of lines about what is never freed.
    atexit.register(lambda: gc.unfreeze() if "triton" in sys.modules else gc.freeze())


@contextlib.contextmanager
def collections_paused() -> Iterator[None]:
    """Leave garbage where it is while a command imports and builds: objects that stay are searched for it many times
    over, which takes a tenth of torch's import. In the process of a command nothing of what there is after a block that
    imports torch is ever searched.
    """
    was_enabled, is_loaded = gc.isenabled(), "torch" in sys.modules
    gc.disable()
    try:
        yield
    finally:
        if _is_of_a_command and "torch" in sys.modules and not is_loaded:
            gc.freeze()
        if was_enabled:
            gc.enable()


def available_memory() -> int:
    """Bytes that this process can still take without swapping, by what the system says; a container's limit counts."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if line := re.search(r"^MemAvailable: +(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE):
        available = int(line[1]) * 1024
    limit, used = (_text(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
    if limit.isdecimal() and used.isdecimal():
        available = min(available, max(0, int(limit) - int(used)))
    return available


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return file.read()
    return ""


def keep_freed_memory() -> bool:
    """Let this process keep the memory that large CPU tensors free, for the next ones.

    By default glibc gets each large block from the system and gives it back when it is freed; the system clears every
    page of it anew, which takes longer than an element-wise operation itself. With these settings the process's memory
    stays at its peak instead of falling between operations. `burnlike train` makes them; in a program of your own call
    this once at the start. CUDA memory is not concerned: torch caches it.

    Returns whether the settings were made: False where the C library is not glibc.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    return mallopt is not None and bool(mallopt(_M_MMAP_MAX, 0)) and bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1))
