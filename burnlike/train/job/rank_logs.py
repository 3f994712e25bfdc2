"""What each process of a launched job prints, in a file of its own. Imports no torch."""

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from ..._env import global_rank, logs_dir, number_of_ranks, restart_count
from ..._regular_file import appended_regular


def log_of(logs: Path, rank: int) -> Path:
    return logs / f"rank-{rank}.log"


def print_to_log() -> bool:
    """Let this process print to its log, if `burnlike launch` has started it, after what is there already."""
    folder = logs_dir()
    if folder is None:
        return False
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
