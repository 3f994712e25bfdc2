"""The memory of this machine, to refuse what will not fit before it is allocated."""

import contextlib
import os
import re


def available_memory() -> int:
    """Bytes that this process can still take without swapping, by what the system says; a container's limit counts."""
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if found := re.search(r"^MemAvailable: +(\d+) kB$", _text("/proc/meminfo"), re.MULTILINE):
        available = int(found[1]) * 1024
    limit, used = (_text(f"/sys/fs/cgroup/memory.{name}").strip() for name in ("max", "current"))
    if limit.isdecimal() and used.isdecimal():
        available = min(available, max(0, int(limit) - int(used)))
    return available


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:
        return file.read()
    return ""
