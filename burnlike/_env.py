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
