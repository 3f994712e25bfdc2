"""The one place that reads environment variables.

Each is read when asked for, so that a test may set it; none changes what a program computes, only how.
"""

import contextlib
import os
import re
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path


def cpu_isa() -> str | None:
    """`BURNLIKE_CPU_ISA`: `default`, `avx2`, `avx512` or `avx512_bf16`, the variant of native ops; unset is best."""
    return os.environ.get("BURNLIKE_CPU_ISA") or None


def user_variable(name: str) -> str | None:
    """The variable that a config's `${env:NAME}` names; None where it is not set."""
    return os.environ.get(name)


def without_transports() -> dict[str, str]:
    """The variables for a git that must reach no other repository: a look at objects it lacks could run a program."""
    return {**os.environ, "GIT_ALLOW_PROTOCOL": "", "GIT_NO_LAZY_FETCH": "1"}


def for_python_beside() -> dict[str, str]:
    """The variables for a small Python process that imports what this one can import, with one thread."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}


def library_dir() -> str | None:
    """`BURNLIKE_LIBRARY_DIR`: where the native libraries are, for a sanitizer's build; unset is the package itself."""
    return os.environ.get("BURNLIKE_LIBRARY_DIR") or None


def cache_dir() -> Path:
    """The directory of files that can be made again: `burnlike` in `XDG_CACHE_HOME`, unset in `~/.cache`."""
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


def quiet_distributed() -> None:
    """Let torch's C++ log errors alone; before torch is loaded. The store warns of a lost peer, and our error names it.

    Does nothing if the user has set TORCH_CPP_LOG_LEVEL.
    """
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")


def quiet_launcher() -> contextlib.AbstractContextManager[None]:
    """Torch that is loaded within the `with` block logs no errors of C++ with its frames: the launcher names them."""
    return children_know(TORCH_CPP_LOG_LEVEL="FATAL")


def ignore_leaks_of_killed_processes() -> None:
    """Let Python clean up the semaphores of a process that is killed on purpose without a warning; in new processes."""
    os.environ.setdefault("PYTHONWARNINGS", "ignore:resource_tracker:UserWarning")


def distributed_job() -> str | None:
    """A name that the ranks of one job share and other jobs don't have, or None in a process that is not a rank.

    What a launcher sets before a rank starts (torchrun, srun) and who started it (multiprocessing) come first: they
    are the same whenever a rank asks. Then comes what a program or another launcher sets (`MASTER_ADDR`, `MASTER_PORT`,
    `WORLD_SIZE`). Ranks on several machines have no parent in common: jobs that are alike in all else count as one.
    """
    import multiprocessing  # 20 ms, which no command that draws no ids should wait for

    variable = os.environ.get
    if variable("TORCHELASTIC_RUN_ID") and _number("WORLD_SIZE") > 1:
        return _rendezvous("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT")
    if _decimal(_of_srun().get("WORLD_SIZE", "")) > 1:
        return f"slurm {variable('SLURM_JOB_ID')} {variable('SLURM_STEP_ID')}"
    parent = multiprocessing.parent_process()
    # A spawned process imports its parent's `__main__`, and models made there, before it knows its parent as such.
    if parent is not None or getattr(multiprocessing.current_process(), "_inheriting", False):
        return _process(getattr(parent, "pid", None) or os.getppid())
    variables = rendezvous()
    if "MASTER_ADDR" in variables and _decimal(variables.get("WORLD_SIZE", "")) > 1:
        return _rendezvous()
    return None


def number_of_ranks() -> int:
    """The number of processes of this job that its launcher started (torchrun, srun, mpirun); 1 without one.

    A script of SLURM's that was not started by srun has the number 0, whatever `SLURM_NTASKS` says.
    """
    sizes = ("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")
    world_size = _decimal(rendezvous().get("WORLD_SIZE", ""))
    return max(1, world_size, *map(_number, sizes), 1 + _number("SLURM_PROCID"))


_RENDEZVOUS = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_RANK")
_FIRST_PORT, _PORTS = 15_000, 15_000
"""Ports below those that systems give to connections by themselves."""


def rendezvous() -> dict[str, str]:
    """The address at which the ranks of a job meet, in torchrun's names; only what is known.

    What is set under these names comes first, as torchrun sets all of them and a user some. The rest is what srun says,
    or mpirun where all of its ranks are on one machine.
    """
    variables = {name: value for name in _RENDEZVOUS if (value := os.environ.get(name))}
    return {**(_of_srun() or _of_mpirun()), **variables}


def _of_srun() -> dict[str, str]:
    """The variables that srun sets; none in the job's own script, which has a number of tasks too, and runs once."""
    variable = os.environ.get
    is_step = any(variable(it) for it in ("SLURM_STEP_NODELIST", "SLURM_STEP_NUM_TASKS")) or _number("SLURM_PROCID")
    if not is_step:
        return {}
    job = (_number("SLURM_JOB_ID") + 1_009 * _number("SLURM_STEP_ID")) % _PORTS
    return _known(
        RANK=variable("SLURM_PROCID"),
        WORLD_SIZE=variable("SLURM_STEP_NUM_TASKS") or variable("SLURM_NTASKS"),
        LOCAL_RANK=variable("SLURM_LOCALID"),
        MASTER_ADDR=first_host(variable("SLURM_STEP_NODELIST", "")),
        MASTER_PORT=str(_FIRST_PORT + job) if variable("SLURM_JOB_ID") else None,
    )


def _of_mpirun() -> dict[str, str]:
    """The variables that mpirun sets: of Open MPI, or of MPICH and its relatives."""
    variable = os.environ.get
    for rank, size, local_rank, local_size in (
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
        ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"),
    ):
        if not variable(size):
            continue
        values = _known(
            RANK=variable(rank), WORLD_SIZE=variable(size), LOCAL_RANK=variable(local_rank) or variable(rank)
        )
        if variable(local_size, variable(size)) != variable(size):
            return values  # several machines, and nothing says which is the first
        job = variable("PMIX_NAMESPACE") or variable("PMI_JOBID") or _process(os.getppid())
        port = _FIRST_PORT + zlib.crc32(job.encode()) % _PORTS
        return {**values, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return {}


def first_host(nodes: str) -> str:
    """The first of a list of nodes as SLURM writes it.

    Example:
        >>> first_host("gpu[03-07,11],login"), first_host("rack[1-2]node[4,6]"), first_host("one,two")
        ('gpu03', 'rack1node4', 'one')
    """
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])*", nodes)
    return re.sub(r"\[(\w*)[^\]]*\]", r"\1", first[0] if first else "")


def _known(**values: str | None) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}


def rendezvous_lacks() -> list[str]:
    """The variables of torchrun's that the ranks of a job need to find each other, and that are not set."""
    variables = rendezvous()
    return [name for name in _RENDEZVOUS[:4] if name not in variables]


def rendezvous_problem() -> str | None:
    """The problem with these variables, none of which is lacking."""
    variables = rendezvous()
    last = max(_decimal(variables["WORLD_SIZE"]), 1) - 1
    for name, least, most in (("WORLD_SIZE", 1, 2**31 - 1), ("RANK", 0, last), ("MASTER_PORT", 1, 65_535)):
        if not (variables[name].isdecimal() and least <= int(variables[name]) <= most):
            of = f" with WORLD_SIZE={variables['WORLD_SIZE']}" if name == "RANK" else ""
            return f"{name}: expected a number from {least} to {most}{of}, got {variables[name]!r}"
    return None


def runs_in_slurm() -> bool:
    """True if this process is part of a job of SLURM."""
    return any(name in os.environ for name in ("SLURM_JOB_ID", "SLURM_NTASKS", "SLURM_PROCID"))


def slurm_job() -> str | None:
    """The job of SLURM that this process is part of; it keeps its number where it is put into the queue again."""
    return os.environ.get("SLURM_JOB_ID") or None


def requeued() -> str | None:
    """The job of SLURM, if it was in the queue before and has begun to run once more."""
    return slurm_job() if _number("SLURM_RESTART_COUNT") else None


def global_rank() -> int:
    """The number of this process among all of one launcher; 0 without one."""
    return _decimal(rendezvous().get("RANK", ""))


def local_rank() -> int:
    """The number of this process among those of one launcher on this machine; 0 without one."""
    return _decimal(rendezvous().get("LOCAL_RANK", ""))


def logs_dir() -> Path | None:
    """`BURNLIKE_LOGS`: the folder for what each rank prints, set by `burnlike launch`; None without it."""
    return Path(directory) if (directory := os.environ.get("BURNLIKE_LOGS")) else None


def launcher() -> int:
    """`BURNLIKE_LAUNCHER`: the process of `burnlike launch` that started this rank; 0 without it."""
    return _number("BURNLIKE_LAUNCHER")


@contextlib.contextmanager
def children_know(**variables: str) -> Iterator[None]:
    """Processes that are started within the `with` block have these variables; those that are set already stay."""
    before = {name: os.environ.get(name) for name in variables}
    for name, value in variables.items():
        os.environ.setdefault(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)


def in_one_thread() -> contextlib.AbstractContextManager[None]:
    """transformers reads weights without threads of its own within the `with` block."""
    return children_know(HF_DEACTIVATE_ASYNC_LOAD="1")


def restart_count() -> int:
    """The number of times torchrun started the job again, after one of its processes had ended."""
    return _number("TORCHELASTIC_RESTART_COUNT")


def launcher_has_store() -> bool:
    """True if the ranks' store is one of torchrun's, which stays when it starts the ranks again."""
    return os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


def _rendezvous(*more: str) -> str:
    variables = rendezvous()
    common = [variables.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE")]
    common += [os.environ.get(name, "") for name in more]
    if _number("LOCAL_WORLD_SIZE") == _number("WORLD_SIZE"):  # one machine: all ranks have one parent
        common.append(_process(os.getppid()))
    return " ".join(common)


def _number(name: str) -> int:
    return _decimal(os.environ.get(name, ""))


def _decimal(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _process(number: int) -> str:
    """A process, with the machine's start and its own, since numbers of processes are used again."""
    started = "".join(_text(f"/proc/{number}/stat").rpartition(")")[2].split()[19:20])
    return f"process {number} {started} {_text('/proc/sys/kernel/random/boot_id').strip()}"


def _text(path: str) -> str:
    with contextlib.suppress(OSError), open(path, encoding="ascii", errors="replace") as file:  # no /proc
        return file.read()
    return ""
