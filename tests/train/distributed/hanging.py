"""Trains as one of several processes, of which the last one hangs, or is slow.

python -m tests.train.distributed.hanging HOW OUT
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

from burnlike.data import DataLoader, TensorDataset
from burnlike.train import Callback, DistributedConfig, Learner, TrainingConfig, make_parallel

from .habits import ROWS, normed

STEP, TIMEOUT_S = 3, 12.0


class Hang(Callback):
    """Sleeps, or is stopped, when the gradients of a step are there."""

    def __init__(self, how: str) -> None:
        self.how = how

    def on_batch_start(self, learner: Learner[Any], batch: Any) -> None:
        if self.how == "slow":
            time.sleep(0.15)
        elif learner.step + 1 == STEP:
            self.hang_here()

    def hang_here(self) -> None:
        if self.how == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep(600)


def train(how: str, strategy: str, out: Path) -> None:
    timeout = 10.0 if how == "slow" else TIMEOUT_S / 60
    parallel = make_parallel(DistributedConfig(strategy=strategy, timeout_minutes=timeout), torch.device("cpu"))
    model = normed()
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.1), parallel=parallel)
    ranks = {"rank": parallel.rank, "world_size": parallel.world_size}
    loader = DataLoader(TensorDataset(ROWS), batch_size=2, seed=3, drop_last=True, **ranks)
    hangs = parallel.rank == parallel.world_size - 1
    learner.fit(
        loader,
        training=TrainingConfig(epochs=4, log_every_steps=4),
        directory=out / "run",
        callbacks=[Hang(how)] if hangs else [],
    )
    parallel.close()


if __name__ == "__main__":
    how, strategy, place = sys.argv[1:]
    train(how, strategy, Path(place))
