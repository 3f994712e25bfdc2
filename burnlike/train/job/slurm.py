"""The script by which SLURM runs `burnlike launch`, and puts it into the queue again at its time limit. No torch."""

import re
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import NamedTuple

from ...errors import ArgumentError

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
        words = [*(f"{key}={it}" for key, it in options.items() if it is not None), "requeue", *self.more]
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
