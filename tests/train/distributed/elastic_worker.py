"""One of the processes of jobs whose world changes: some are killed between checkpoints, some stop at one.

python -m tests.train.distributed.elastic_worker FOLDER PHASE
"""

import io
import json
import sys
from pathlib import Path
from typing import Any

import torch

from burnlike._torch_compat.pytree import tree_leaves
from burnlike.train import Callback, Interrupted, Interrupter, Job, PlainRenderer, TrainConfig
from burnlike.train.runs.run_dir import RunDir

WORLDS = [2, 1, 2]
"""Processes of each phase."""
KILLS, STOPS = [5, 9, 0], [4, 8, 0]
"""After which steps a job is killed, and where one stops that is not: at the last checkpoint before."""
STEPS = 12
PHASE = int(sys.argv[2]) if __name__ == "__main__" else 0
CASES = [(strategy, data) for strategy in ("ddp", "fsdp2") for data in ("map", "stream")]


class Killed(BaseException):
    """Nothing is finished or saved from here on."""


def config_of(folder: Path, strategy: str, data: str) -> TrainConfig:
    """Of a job whose steps have 8 items; a process has 2 at a time."""
    overrides = [
        f"distributed.strategy={strategy}",
        "training.epochs=1",
        f"training.steps_per_epoch={STEPS}",
        "training.batch_size=2",
        "training.accumulation_steps=1",
        "training.global_batch_size=8",
        "training.checkpoint_every_steps=2",
        "training.ema={decay: 0.9}",
        *(["task.sample_length=0"] if data == "map" else []),
    ]
    return TrainConfig.load(folder / {"map": "small.yaml", "stream": "stream.yaml"}[data], overrides)


def rows_of(batch: Any) -> list[list[int]]:
    return next(it for it in tree_leaves(batch) if isinstance(it, torch.Tensor)).tolist()


class Seen(Callback):
    """Notes the items of each step, and ends the training."""

    def __init__(self, file: Path, kill: int, stop: int, interrupter: Interrupter) -> None:
        self._file, self._kill, self._stop, self._interrupter = file, kill, stop, interrupter
        self._rows: list[list[int]] = []

    def on_batch_start(self, learner: Any, batch: Any) -> None:
        self._rows += rows_of(batch)

    def on_step_end(self, learner: Any) -> None:
        place = self._file.with_name(f"{self._file.name}-{learner.step}-{PHASE}-{learner.parallel.rank}.json")
        place.write_text(json.dumps(self._rows))
        self._rows = []
        if learner.step == self._kill:
            raise Killed
        if learner.step == self._stop:
            self._interrupter.stop()


def train(folder: Path, name: str, config: TrainConfig, kill: int, stop: int) -> None:
    job, interrupter = Job(config), Interrupter()
    path = folder / name
    run = RunDir.open(path, may_lack=True) if job.parallel.is_main else RunDir.follow(path)
    seen = Seen(folder / "seen" / name, kill, stop, interrupter)
    try:
        job.run(run, PlainRenderer(io.StringIO()), interrupter, [seen])
    except (Killed, Interrupted):
        assert job.learner.step == max(kill, stop)
    run.close()
    job.parallel.close()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    for strategy, data in CASES:
        config = config_of(folder, strategy, data)
        train(folder, f"killed-{strategy}-{data}", config, KILLS[PHASE], 0)
        train(folder, f"stopped-{strategy}-{data}", config, 0, STOPS[PHASE])
