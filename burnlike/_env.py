"""The one place that reads environment variables.

Each is read when asked for, so that a test may set it; none changes what a program computes, only how.
"""

import multiprocessing
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


def distributed_job() -> str | None:
    """What the ranks of one job know in common and other jobs do not, or None in a process that is no rank.

    Known are torchrun and others that set `MASTER_ADDR` and `WORLD_SIZE`, SLURM, and processes that
    `torch.multiprocessing.spawn` or `multiprocessing` started, which have their parent in common.
    """
    known = os.environ.get
    if int(known("WORLD_SIZE") or 1) > 1 and known("MASTER_ADDR"):
        names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
        common = [known(name, "") for name in names]
        if known("LOCAL_WORLD_SIZE") == known("WORLD_SIZE"):  # one machine: all ranks have one parent
            common.append(_parent())
        return " ".join(common)
    if int(known("SLURM_NTASKS") or 1) > 1 and known("SLURM_JOB_ID"):
        return f"slurm {known('SLURM_JOB_ID')} {known('SLURM_STEP_ID', '')}"
    if multiprocessing.parent_process() is not None:
        return _parent()
    return None


def _parent() -> str:
    """The parent process, with the time it started, since numbers of processes are used again."""
    parent = os.getppid()
    try:
        with open(f"/proc/{parent}/stat", encoding="ascii", errors="replace") as file:
            started = file.read().rpartition(")")[2].split()[19]
    except OSError:  # no /proc
        started = ""
    return f"parent {parent} {started}"
