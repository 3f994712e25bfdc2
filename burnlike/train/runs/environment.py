"""What a run was started with: versions, the state of git, devices, the command line."""

import json
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ... import __version__
from ..._atomic_file import replace_file

ENVIRONMENT_NAME = "environment.json"
_GIT_TIMEOUT_S = 5


def environment() -> dict[str, Any]:
    """The versions, devices and so on of this process.

    Returns:
        Plain values: `started` (ISO 8601, UTC), `command` (a list), `burnlike`, `python`, `torch`, `platform`, `host`,
        `cpu`, `threads`, `cuda` (its version, None without), `devices` (names), and `git`: `commit` and `is_dirty` of
        the working directory, None outside of a repository or without git.
    """
    import torch

    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.orig_argv,
        "burnlike": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": f"{platform.system()} {platform.machine()}",
        "host": platform.node(),
        "cpu": _cpu_name(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "devices": devices,
        "git": git_state(Path.cwd()),
    }


def write_environment(run: Path) -> dict[str, tuple[Any, Any]]:
    """Write `environment.json` of a new run; that of a run which goes on is left as it is.

    Returns:
        What is different now from when the run was started, by name: the value before and now.

    Raises:
        OSError: it can't be written.
    """
    path, now = run / ENVIRONMENT_NAME, environment()
    try:
        before = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        before = None
    if not isinstance(before, dict):
        replace_file(path, json.dumps(now, indent=2).encode() + b"\n")
        return {}
    same = ("started", "command")
    return {name: (before.get(name), it) for name, it in now.items() if name not in same and before.get(name) != it}


def git_state(directory: Path) -> dict[str, Any] | None:
    """The commit of the repository around a directory, and whether files that git knows are changed.

    Returns:
        None outside of a repository, without git, and where git fails; `is_dirty` is None where git takes seconds.
    """
    commit = _git(directory, "rev-parse", "HEAD")
    if not commit:
        return None
    changed = _git(directory, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "is_dirty": None if changed is None else bool(changed)}


def _git(directory: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(directory), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_GIT_TIMEOUT_S)
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _cpu_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        found = ""
    return found or platform.processor()
