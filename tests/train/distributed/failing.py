"""One of four processes whose pipeline fails in one of them, in the middle of a step. Run by test_failing_saves.py.

python -m tests.train.distributed.failing CALL RANK
"""

import io
import sys

import torch

from burnlike.data import DataLoader
from burnlike.optim import AdamWConfig
from burnlike.train import DistributedConfig, Learner, PlainRenderer, TrainingConfig, make_parallel

from .pipeline_worker import DECODER, TOKENS, next_token


def train(call: int, rank: int) -> None:
    """The first block of a stage of `rank` fails when it is called for this time."""
    config = DistributedConfig(strategy="fsdp2", pipeline=2, timeout_minutes=60.0)
    parallel = make_parallel(config, torch.device("cpu"))
    model = DECODER.init()
    calls = 0

    def fail(*_: object) -> None:
        nonlocal calls
        calls += 1
        if calls == call and parallel.rank == rank:
            raise MemoryError("no room for the activations")

    model.blocks[2 * parallel.mesh.coordinates["pipeline"]].register_forward_pre_hook(fail)
    learner = Learner(model, AdamWConfig().init(), 0.01, loss=next_token, parallel=parallel)
    ranks = {"rank": parallel.data_rank, "world_size": parallel.data_size}
    loader = DataLoader([*TOKENS], batch_size=4, seed=3, drop_last=True, **ranks)
    learner.fit(loader, None, TrainingConfig(epochs=3), renderer=PlainRenderer(io.StringIO()))


if __name__ == "__main__":
    train(*map(int, sys.argv[1:]))
