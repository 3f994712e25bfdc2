"""The environment that a run was started in: versions, the state of git, devices, the command line."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ... import __version__
from ..._atomic import replace_file
from ..._env import slurm_job, without_transports
from ..._regular_file import read_regular

ENVIRONMENT_NAME = "environment.json"
_GIT_TIMEOUT_S = 5


def environment() -> dict[str, Any]:
    """The versions, devices and so on of this process, as plain values.

    `started` is ISO 8601 in UTC, `cuda` a version or None, `job` one of SLURM or None; `git` has `commit` and
    `is_dirty` of the working directory, or is None outside of a repository or without git.
    """
    import torch

    devices = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": masked(sys.orig_argv),
        "burnlike": __version__,
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "platform": f"{platform.system()} {platform.machine()}",
        "host": platform.node(),
        "job": slurm_job(),
        "cpu": processor(),
        "threads": torch.get_num_threads(),
        "cuda": torch.version.cuda,
        "devices": devices,
        "git": git_state(Path.cwd()),
    }


def processor() -> str:
    """The name of this machine's processor, as far as the system tells it."""
    models = [""]
    with suppress(OSError), open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        models = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return next(filter(None, models), platform.processor())


def masked(command: Sequence[str]) -> list[str]:
    """A command line in which `KEY=VALUE` has no value where the last part of the key is the name of a secret.

    Nor has it one that is a mapping with such a key.

    Example:
        >>> masked(["train", "a.yaml", "--set", "loggers.0.api_key=abc", "--set=seed=1", "x={token: abc}"])
        ['train', 'a.yaml', '--set', 'loggers.0.api_key=***', '--set=seed=1', 'x=***']
    """

    def without_secret(match: re.Match[str]) -> str:
        keys = [match[1].rstrip("="), *_KEY.findall(match[2])]
        words = {word for key in keys for word in re.split(r"[_\W]+", key.rpartition(".")[2].lower())}
        return match[0] if _SECRETS.isdisjoint(words) else f"{match[1]}***"

    return [_ASSIGNED.sub(without_secret, it) for it in command]


_ASSIGNED = re.compile(r"((?:--[a-z]+=)?[\w.\[\]~-]+=)(.*)", re.DOTALL)
_KEY = re.compile(r"([\w.-]+)[\"']?\s*:")
_SECRETS = frozenset(
    ["apikey", "auth", "credential", "credentials", "key", "passphrase", "passwd", "password", "secret", "token"]
)


def write_environment(run: Path) -> dict[str, tuple[Any, Any]]:
    """Write `environment.json` of a new run; for a resumed run only its working directory is updated.

    Returns what is different now from when the run was started, by name: the value before and now.
    """
    path, now = run / ENVIRONMENT_NAME, environment()
    folder = {"folder": os.getcwd(), "folder_from_run": os.path.relpath(os.getcwd(), run)}
    before = _of_run(run)
    if not before:
        replace_file(path, json.dumps(now | folder, indent=2).encode() + b"\n")
        return {}
    if any(before.get(key) != value for key, value in folder.items()):  # of which the config is, that was just written
        replace_file(path, json.dumps(before | folder, indent=2).encode() + b"\n")
    same = ("started", "command", "job")
    return {name: (before.get(name), it) for name, it in now.items() if name not in same and before.get(name) != it}


def job_of_run(run: Path) -> str | None:
    """The job of SLURM that a run was begun by, as far as its files say."""
    return _of_run(run).get("job")


def folders_of_run(run: Path) -> tuple[str, str] | None:
    """The working directory of a run: where it is now, if it has moved together with the run, and where it was."""
    saved = _of_run(run)
    folder, from_run = saved.get("folder"), saved.get("folder_from_run")
    if not (isinstance(folder, str) and isinstance(from_run, str)):
        return None
    return os.path.normpath(os.path.join(os.path.abspath(run), from_run)), folder


def _of_run(run: Path) -> dict[str, Any]:
    try:
        saved = json.loads(read_regular(run / ENVIRONMENT_NAME))
    except (OSError, ValueError, RecursionError):
        return {}
    return saved if isinstance(saved, dict) else {}


def git_state(directory: Path) -> dict[str, Any] | None:
    """The commit of the repository around a directory, and whether files that git knows are changed; None without one.

    `is_dirty` is None where git takes seconds, and where it would run programs that the repository's own settings name,
    as one that somebody sent could.
    """
    commit = _git(directory, "rev-parse", "HEAD")
    if not commit:
        return None
    settings = _git(directory, "config", "--list", "--show-scope", "--includes", "--name-only")
    if settings is None or any(_RUNS_PROGRAMS.fullmatch(line) for line in settings.split("\n")):
        return {"commit": commit, "is_dirty": None}
    changed = _git(directory, "status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")
    return {"commit": commit, "is_dirty": None if changed is None else bool(changed)}


_RUNS_PROGRAMS = re.compile(r"(local|worktree)\s+(core\.fsmonitor|filter\..*\.(clean|process))", re.IGNORECASE)
# A repository of files alone is not used, a look at it writes nothing, and its hooks don't run.
_HARMLESS = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}",
             "-c", "safe.bareRepository=explicit")  # fmt: skip


def _git(directory: Path, *arguments: str) -> str | None:
    command = ["git", "-C", str(directory), *_HARMLESS, *arguments]
    variables = without_transports()
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_GIT_TIMEOUT_S, env=variables)
        return done.stdout.decode().strip() if done.returncode == 0 else None
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
