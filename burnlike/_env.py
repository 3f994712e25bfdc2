"""The one place that reads environment variables.

Each is read when asked for, so that a test may set it; none changes what a program computes, only how.
"""

import contextlib
import os
from pathlib import Path


def cpu_isa() -> str | None:
    """`BURNLIKE_CPU_ISA`: `default`, `avx2` or `avx512` forces that CPU variant of the native ops; unset is best."""
    return os.environ.get("BURNLIKE_CPU_ISA") or None


def user_variable(name: str) -> str | None:
    """The variable that a config's `${env:NAME}` names; None where it is not set."""
    return os.environ.get(name)


def without_transports() -> dict[str, str]:
    """The variables for a git that must reach no other repository: a look at objects it lacks could run a program."""
    return {**os.environ, "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}


def library_dir() -> str | None:
    """`BURNLIKE_LIBRARY_DIR`: where the native libraries are, for a sanitizer's build; unset is the package itself."""
    return os.environ.get("BURNLIKE_LIBRARY_DIR") or None


def cache_dir() -> Path:
    """Where files lie that can be made again: `burnlike` in `XDG_CACHE_HOME`, unset in `~/.cache`."""
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "burnlike"


def shorten_spinning() -> None:
    """Let torch's CPU threads wait for one another awake for microseconds, not milliseconds; before torch is loaded.

    On cores that other programs use too, a thread that waits awake takes the time of the one it waits for: a step of
    configs/char_gpt.yaml beside two busy programs takes 180 ms in place of 320, on idle cores 69 in place of 66. Does
    nothing if the user has set how threads wait (GOMP_SPINCOUNT, OMP_WAIT_POLICY).
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "2000")


def quiet_profiler() -> None:
    """Let torch's profiler say nothing of its own starts and stops; before torch is loaded."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")


def ignore_leaks_of_killed_processes() -> None:
    """Let Python clean up the semaphores of a process that is killed on purpose without a warning; in new processes."""
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")


def distributed_job() -> str | None:
    """What the ranks of one job know in common and other jobs do not, or None in a process that is not a rank.

    What a launcher sets before a rank starts (torchrun, srun) and who started it (multiprocessing) come first: they
    are the same whenever a rank asks. Then comes what a program or another launcher sets (`MASTER_ADDR`, `MASTER_PORT`,
    `WORLD_SIZE`). Ranks on several machines have no parent in common: jobs that are alike in all else count as one.
    """
    import multiprocessing  # 20 ms, which no command that draws no ids should wait for

    known = os.environ.get
    if known("TORCHELASTIC_RUN_ID") and _number("WORLD_SIZE") > 1:
        return _rendezvous("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    # Of a step, which srun starts: the job's own script runs one program after the other.
    if _number("SLURM_STEP_NUM_TASKS") > 1:
        return f"slurm {known('SLURM_JOB_ID')} {known('SLURM_STEP_ID')}"
    parent = multiprocessing.parent_process()
    # A spawned process imports its parent's `__main__`, and models made there, before it knows its parent as such.
    if parent is not None or getattr(multiprocessing.current_process(), "_inheriting", False):
        return _process(getattr(parent, "pid", None) or os.getppid())
    if known("MASTER_ADDR") and _number("WORLD_SIZE") > 1:
        return _rendezvous()
    return None


def number_of_ranks() -> int:
    """How many processes the launcher of this one has started for one job: torchrun, srun, mpirun; 1 without one.

    A script of SLURM's that was not started by srun has the number 0, whatever `SLURM_NTASKS` says.
    """
    sizes = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    return max(1, *map(_number, sizes), 1 + _number("SLURM_PROCID"))


def rendezvous_lacks() -> list[str]:
    """Which of the variables are not set by which the ranks of a job find each other, as torchrun sets them."""
    return [name for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT") if not os.environ.get(name)]


def runs_in_slurm() -> bool:
    """Whether this process is part of a job of SLURM."""
    return any(name in os.environ for name in ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID"))


def global_rank() -> int:
    """The number of this process among all of one launcher; 0 without one."""
    return _number("RANK")


def local_rank() -> int:
    """The number of this process among those of one launcher on this machine; 0 without one."""
    return _number("LOCAL_RANK")


def restart_count() -> int:
    """How often torchrun has started the job again, after one of its processes had ended."""
    return _number("TORCHELASTIC_RESTART_COUNT")


def _rendezvous(*more: str) -> str:
    names = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", *more)
    common = [os.environ.get(name, "") for name in names]
    if _number("LOCAL_WORLD_SIZE") == _number("WORLD_SIZE"):  # one machine: all ranks have one parent
        common.append(_process(os.getppid()))
    return " ".join(common)


def _number(name: str) -> int:
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else 0


def _process(number: int) -> str:
    """A process, with the machine's start and its own, since numbers of processes are used again."""
    started = "".join(_text(f"/proc/{number}/stat").rpartition(")")[2].split()[19:20])
    return f"process {number} {started} {_text('/proc/sys/kernel/random/boot_id').strip()}"


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:  # no /proc
        return file.read()
    return ""
