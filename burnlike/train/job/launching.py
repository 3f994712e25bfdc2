"""Decisions of `burnlike launch` before it starts processes (how many, in which run, with which batches), the logs of
these processes, and the script by which SLURM runs it.

Imports no torch.
"""

import ctypes
import os
import platform
import re
import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from ..._env import global_rank, launcher, logs_dir, number_of_ranks, requeued, restart_count
from ..._regular_file import appended_regular
from ...errors import ArgumentError, ConfigError
from ..checkpoint.mirror import Mirror, newest_name
from ..runs.environment import job_of_run
from ..runs.run_dir import CONFIG_NAME, LOCK_NAME, RunDir, newest_directory, refuse_links, runs_of
from .configs import TrainConfig

LOGS_NAME = "logs"
"""The folder of a run with what each of its processes printed."""
_PR_SET_PDEATHSIG = 1


class Amount(NamedTuple):
    """A number of nodes or processes: from `least` to `most`."""

    least: int
    most: int

    @classmethod
    def parse(cls, text: str) -> "Amount":
        """Read `4`, or `2:4` for a range; a ValueError for anything else."""
        match = re.fullmatch(r"([1-9]\d{0,5})(?::([1-9]\d{0,5}))?", text)
        if match is None or int(match[2] or match[1]) < int(match[1]):
            raise ValueError(f"expected a number such as 4, or a range such as 2:4, got '{text}'")
        return cls(int(match[1]), int(match[2] or match[1]))

    @property
    def is_range(self) -> bool:
        return self.least < self.most

    def __str__(self) -> str:
        return f"{self.least}:{self.most}" if self.is_range else str(self.least)


def check_processes(config: TrainConfig, processes: Amount, nodes: Amount) -> list[int]:
    """The numbers of processes that a job may have, the least first; an error where one does not fit the config.

    Of a range on one machine those that do not fit are left out, as the launcher chooses among them.
    """
    if processes.is_range and nodes.most > 1:
        raise ArgumentError(
            f"--nproc {processes}: with several nodes expected one number, of the processes of each; a range of the"
            f" whole is one of nodes, such as --nnodes {nodes.least}:{max(nodes.most, nodes.least + 1)}"
        )
    counts = [
        node * each
        for node in range(nodes.least, nodes.most + 1)
        for each in range(processes.least, processes.most + 1)
    ]
    distributed = config.distributed
    if distributed.is_single:
        if counts[-1] == 1:
            return counts
        raise ArgumentError(
            f"--nproc {processes}: {counts[-1]} processes are asked for, and the config is for one. Say how they train"
            " together by --set distributed.strategy=ddp (or fsdp2), or give --nproc 1"
        )
    fitting = []
    for count in counts:
        try:
            distributed.sizes(count)
            fitting.append(count)
        except ConfigError as error:
            if count == counts[-1] or nodes.is_range:
                of = f" (--nproc {processes}, --nnodes {nodes})" if len(counts) > 1 else ""
                raise ConfigError(f"{error}{of}") from error
    return fitting


def elastic_overrides(config: TrainConfig, counts: list[int], run: Path | None) -> list[str]:
    """Overrides with which a step takes the same items with any of these numbers of processes; none for only one.

    They are those of the run's last checkpoint, if it has one, or else of the largest number of processes.
    """
    training = config.training
    if len(counts) == 1 or training.global_batch_size is not None:
        return []
    copies = config.distributed.sizes(counts[-1]).data
    items = _saved_items(run) or training.batch_size * training.accumulation_steps * copies
    return [f"training.global_batch_size={items}", "training.accumulation_steps=1"]


def _saved_items(run: Path | None) -> int | None:
    """The items of a step of a run, as its config or its last checkpoint says; None where neither does."""
    if run is None or not (run / CONFIG_NAME).exists():
        return None
    if (items := TrainConfig.load(run / CONFIG_NAME).training.global_batch_size) is not None:
        return items
    from ..checkpoint.checkpointer import Checkpointer  # loads torch

    checkpoint = Checkpointer(run / "checkpoints").latest()
    if checkpoint is None:
        return None
    loader = checkpoint.load("training").values["parts"].get("loader", {})
    size, steps = (loader.get(name) for name in ("batch_size", "accumulation_steps"))
    return size * steps if isinstance(size, int) and isinstance(steps, int) else None


def run_of(
    resumed: str | None, place: str | None, root: Path, name: str, *, is_shared: bool, mirror: str | None = None
) -> Path:
    """The directory of the run that a launch works in, which is made where it is a new one.

    Args:
        resumed: what `--resume` says: a directory, empty for the last run of this name, None for a new run.
        place: what `--run-dir` says.
        root: where runs without a place lie, by `name`.
        mirror: where runs have copies, as the config says.
        is_shared: whether launchers of several nodes work in it: all but the first find it there.
    """
    if is_shared and not (resumed or place):
        raise ArgumentError(
            "with several nodes all launchers work in one run: expected --run-dir DIR, the same for all"
        )
    if is_shared:
        path = Path(resumed or place or "")
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()) and not (path / LOCK_NAME).exists():
            raise ArgumentError(f"--run-dir {path}: holds other files; choose a new directory for the run")
        refuse_links(path)
        (path / LOCK_NAME).touch()  # rank 0 locks it
        return path
    if resumed is None and (queued := requeued_run(place, root, name)):
        resumed = str(queued)
    if resumed is not None:
        run = resumed_run(resumed, root, name, mirror)
    elif place is not None and (Path(place) / LOCK_NAME).exists() and not (Path(place) / CONFIG_NAME).exists():
        run = RunDir.open(place)  # a launch that ended before its training began
    else:
        run = RunDir.create(place) if place is not None else RunDir.create_next(root, name)
    with closing(run):
        if mirror is not None and resumed is None:  # its processes go on with a run, whose mirror this must be then
            Mirror(mirror, run.path).claim(is_new=True, has_checkpoints=False)
    return run.path


def resumed_run(resumed: str, root: Path, name: str, mirror: str | None) -> RunDir:
    """Take up the run to go on with: a directory, or, if empty, the last of this name; one that a mirror alone has is
    made.
    """
    path = Path(resumed)
    if not resumed:
        mirrored = mirror is not None and not runs_of(root, name) and newest_name(mirror, name)
        path = root / mirrored if mirrored else newest_directory(root, name)
    if mirror is not None and not path.exists():
        Mirror(mirror, path).expect_one()
    return RunDir.open(path, may_lack=mirror is not None)


def requeued_run(place: str | None, root: Path, name: str) -> Path | None:
    """The run that this job of SLURM had begun before it was put into the queue again; None where it was not."""
    job = requeued()
    if job is None:
        return None
    if place is not None:
        return Path(place) if (Path(place) / CONFIG_NAME).exists() else None
    return next((path for path in reversed(runs_of(root, name)) if job_of_run(path) == job), None)


def log_of(logs: Path, rank: int) -> Path:
    return logs / f"rank-{rank}.log"


def follow_launcher() -> bool:
    """Let this process append its output to its log, and stop when its launcher is killed.

    False if `burnlike launch` has not started it.
    """
    folder = logs_dir()
    if folder is None:
        return False
    # The kernel sends a SIGTERM, at which a training writes a checkpoint, when the launcher has ended.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if (parent := launcher()) and os.getppid() != parent:  # it has ended before
        os.kill(os.getpid(), signal.SIGTERM)
    rank = global_rank()
    now = datetime.now(UTC).isoformat(timespec="seconds")
    where = f"process {os.getpid()} on {platform.node()}, rank {rank} of {number_of_ranks()}, start {restart_count()}"
    # The streams' file descriptors, not sys.stdout: what native code and child processes print goes there, too.
    with appended_regular(log_of(folder, rank)) as file:
        file.write(f"--- {now} {where}\n")
        file.flush()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(file.fileno(), stream.fileno())
    return True


_STOPPED = 128 + signal.SIGUSR1
_SCRIPT = """\
#!/bin/bash
{settings}

run={run}
{meeting}
# SLURM sends SIGUSR1 {seconds} s before the time limit. srun hands it on: a checkpoint is written, and the status is
# {stopped}. Then the job goes back into the queue, and goes on from that checkpoint when it runs again.
hand_on() {{ kill -USR1 "$job"; }}
trap hand_on USR1

srun --kill-on-bad-exit=0 {command} &
job=$!
wait "$job"
status=$?
while kill -0 "$job" 2> /dev/null; do  # a signal ends the first wait
  wait "$job"
  status=$?
done
if [ "$status" -eq {stopped} ]; then
  scontrol requeue "$SLURM_JOB_ID"
fi
exit "$status"
"""
_MEETING = """\
host=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((15000 + SLURM_JOB_ID % 15000))
"""
_TIME = re.compile(r"\d+(:\d\d){0,2}|\d+-\d+(:\d\d){0,2}")


class Slurm(NamedTuple):
    """Resources that a job asks SLURM for.
    Attributes:
        nodes: machines, as sbatch takes it: `2` or `1-4`.
        time: limit of one run, such as `04:00:00`; None is the partition's.
        partition: queue of the job; None is the default one.
        gpus: of each node; None asks for none.
        seconds: how long before the limit the checkpoint is written.
        more: other options of sbatch, such as `account=mine`.
    """

    nodes: str
    time: str | None = None
    partition: str | None = None
    gpus: int | None = None
    seconds: int = 90
    more: Sequence[str] = ()

    def lines(self, name: str) -> list[str]:
        """The options of sbatch, one a line; an ArgumentError for what can be none."""
        if self.time is not None and not _TIME.fullmatch(self.time):
            raise ArgumentError(f"--time: expected MINUTES, HH:MM:SS or DAYS-HH:MM:SS, got '{self.time}'")
        options = {
            "job-name": name,
            "nodes": self.nodes,
            "ntasks-per-node": "1",
            "gpus-per-node": self.gpus,
            "time": self.time,
            "partition": self.partition,
            "output": f"{name}-%j.out",
            "open-mode": "append",
            "signal": f"B:USR1@{self.seconds}",
        }
        words = [*(f"{key}={option}" for key, option in options.items() if option is not None), "requeue", *self.more]
        for word in words:
            if not re.fullmatch(r"[\w-]+(=[^\s'\"\\$`#]+)?", word):
                raise ArgumentError(f"#SBATCH --{word!r}: expected an option of sbatch without spaces and quotes")
        return [f"#SBATCH --{word}" for word in words]


def script(slurm: Slurm, name: str, run: str | None, arguments: Sequence[str], *, goes_on: bool, several: bool) -> str:
    """The script of a job.

    Args:
        name: of the job.
        run: the directory of its run; None: a new one in `runs/`, with the number of the job.
        arguments: of `burnlike launch`, without those that say where the launchers meet.
        goes_on: whether the run is there already.
        several: whether there is more than one launcher.
    """
    words = [sys.executable, "-m", "burnlike", "launch", *arguments]
    command = " ".join([*map(shlex.quote, words), f'{"--resume" if goes_on else "--run-dir"} "$run"'])
    if several:
        command += ' --rdzv-endpoint "$host:$port" --rdzv-id "$SLURM_JOB_ID"'
    return _SCRIPT.format(
        settings="\n".join(slurm.lines(name)),
        run=shlex.quote(run) if run else f'runs/{shlex.quote(name)}-"$SLURM_JOB_ID"',
        meeting=_MEETING if several else "",
        seconds=slurm.seconds,
        stopped=_STOPPED,
        command=command,
    )
