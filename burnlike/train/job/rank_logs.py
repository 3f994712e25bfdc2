"""What each process of a launched job prints, in a file of its own. Imports no torch."""

import ctypes
import os
import platform
import signal
import sys
from datetime import UTC, datetime
from pathlib import Path

from ..._env import global_rank, launcher, logs_dir, number_of_ranks, restart_count
from ..._regular_file import appended_regular

_PR_SET_PDEATHSIG = 1


def log_of(logs: Path, rank: int) -> Path:
    return logs / f"rank-{rank}.log"


def follow_launcher() -> bool:
    """Let this process print to its log, after what is there already, and stop where its launcher is killed.

    False if `burnlike launch` has not started it.
    """
    folder = logs_dir()
    if folder is None:
        return False
    _stop_with(launcher())
    rank = global_rank()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    where = f"process {os.getpid()} on {platform.node()}, rank {rank} of {number_of_ranks()}, start {restart_count()}"
    with appended_regular(log_of(folder, rank)) as file:
        file.write(f"--- {now} {where}\n")
        file.flush()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    return True


def _stop_with(parent: int) -> None:
    """Ask the kernel for a SIGTERM, at which a training writes a checkpoint, when the launcher has ended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if parent and os.getppid() != parent:  # it has ended before
        os.kill(os.getpid(), signal.SIGTERM)
