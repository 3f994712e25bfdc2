"""Trains a small float64 model, alone or as one of several processes, and writes the whole weights.

    python -m tests.train.distributed.program STRATEGY OPTIMIZER OUT [STOP]

STRATEGY is a name, or a DistributedConfig as JSON. With STOP it ends after that step, as by a signal that the last rank
has got.
"""

import io
import json
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional

from burnlike.data import DataLoader, TensorDataset
from burnlike.module import seed_param_ids
from burnlike.optim import AdamWConfig, ClipByGlobalNorm
from burnlike.optim.core.sharded import whole
from burnlike.train import (
    Callback,
    DistributedConfig,
    EmaConfig,
    Interrupted,
    Interrupter,
    Learner,
    PlainRenderer,
    StepOutput,
    TrainingConfig,
    make_parallel,
)

ROWS = torch.randn(47, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
BATCH = 12
CPU = torch.device("cpu")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.linear(self.norm(x)).tanh()


def network() -> nn.Module:
    torch.manual_seed(5)
    seed_param_ids(5)
    return nn.Sequential(nn.Linear(4, 8), *(Block() for _ in range(2)), nn.Linear(8, 1)).double()


def loss(model: nn.Module, batch: tuple[Tensor, ...]) -> StepOutput:
    """Of the rows whose first number is above -1: their number differs between batches and processes."""
    kept = batch[0][batch[0][:, 0] > -1.0]
    found = model(kept[:, :4]).squeeze(1).to(kept.dtype)  # torch 2.11 has no gradient of a loss of two types
    return StepOutput(functional.mse_loss(found, kept[:, 4]), len(kept))


def train(strategy: str, optimizer: str, out: Path, stop: int | None = None) -> dict[str, Tensor]:
    """The whole weights after three epochs."""
    config = json.loads(strategy) if strategy.startswith("{") else {"strategy": strategy}
    parallel = make_parallel(DistributedConfig(**config), CPU)
    model = network()
    clipping = ClipByGlobalNorm(threshold=0.2)
    options: dict[str, Any] = {"loss": loss, "parallel": parallel, "ema": EmaConfig(decay=0.9)}
    if optimizer == "burnlike":
        learner = Learner(model, AdamWConfig(grad_clipping=clipping).init(), 0.02, **options)
    else:
        options["grad_clipping"] = clipping
        made = {"torch": torch.optim.AdamW, "adagrad": torch.optim.Adagrad}[optimizer]
        learner = Learner(model, made(model.parameters(), lr=0.02), **options)
    part = {"batch_size": BATCH // parallel.data_size, "rank": parallel.data_rank, "world_size": parallel.data_size}
    loader = DataLoader(TensorDataset(ROWS, fingerprint="rows"), seed=3, **part)
    valid = DataLoader(TensorDataset(ROWS), **part)
    interrupter = Interrupter()

    class Stop(Callback):
        def on_step_end(self, learner: Learner[Any]) -> None:
            if learner.step == stop and parallel.rank == parallel.world_size - 1:
                interrupter.stop()

    training = TrainingConfig(epochs=3, accumulation_steps=2, log_every_steps=1, checkpoint_every_steps=2)
    try:
        learner.fit(
            *(loader, valid, training),
            directory=out / "run",
            renderer=PlainRenderer(io.StringIO()),
            callbacks=[Stop()],
            interrupter=interrupter,
        )
    except Interrupted:
        assert learner.step == stop
    found = {name: whole(it.detach()).contiguous() for name, it in model.named_parameters()}
    assert learner.ema is not None
    found |= {f"ema.{name}": whole(it).contiguous() for name, it in learner.ema.into_record().tensors.items()}
    if parallel.is_main:
        save_file(found, out / "weights.safetensors")
    parallel.close()
    return found


if __name__ == "__main__":
    strategy, optimizer, out, *stop = sys.argv[1:]
    train(strategy, optimizer, Path(out), int(stop[0]) if stop else None)
