"""The one place that reads environment variables.

Each is read when asked for, so that a test may set it; none changes what a program computes, only how.
"""

import os


def cpu_isa() -> str | None:
    """`BURNLIKE_CPU_ISA`: `default`, `avx2` or `avx512` forces that CPU variant of the native ops; unset is best."""
    return os.environ.get("BURNLIKE_CPU_ISA") or None


def library_dir() -> str | None:
    """`BURNLIKE_LIBRARY_DIR`: where the native libraries are, for a sanitizer's build; unset is the package itself."""
    return os.environ.get("BURNLIKE_LIBRARY_DIR") or None


def shorten_spinning() -> None:
    """Let torch's CPU threads wait for one another awake for microseconds, not milliseconds; before torch is loaded.

    On cores that other programs use too, a thread that waits awake takes the time of the one it waits for. A step of
    configs/char_gpt.yaml on two cores beside two busy programs: 180 ms in place of 320; on idle cores 69 in place of
    66. Does nothing if the user has set how threads wait (GOMP_SPINCOUNT, OMP_WAIT_POLICY).
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")
