"""One of two processes that train under Lightning's ModelParallelStrategy. Run by test_sharded.py, which starts it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import lightning
import torch
from lightning.pytorch.strategies import ModelParallelStrategy
from torch import Tensor, nn
from torch.distributed.fsdp import fully_shard
from torch.utils.data import DataLoader, TensorDataset

from burnlike.interop import TorchOptimizer
from burnlike.optim import AdamWConfig


class Task(lightning.LightningModule):
    """Lightning calls forward, zero_grad, backward and step, in this order."""

    def __init__(self, ours: bool) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.ours = ours
        self.model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4))

    def configure_model(self) -> None:
        mesh: Any = self.device_mesh
        fully_shard(self.model[0], mesh=mesh["data_parallel"])
        fully_shard(self.model, mesh=mesh["data_parallel"])

    def training_step(self, batch: Any, _: int) -> Tensor:
        return (self.model(batch[0]) - batch[1]).square().mean()

    def configure_optimizers(self) -> Any:
        if self.ours:
            return TorchOptimizer(self, AdamWConfig(epsilon=1e-8, weight_decay=0.01), lr=0.05)
        return torch.optim.AdamW(self.parameters(), lr=0.05)


def trained(ours: bool) -> Tensor:
    """All weights after 12 steps."""
    task = Task(ours)
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        devices=2,
        strategy=ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1),
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(16, 3, generator=generator), torch.randn(16, 4, generator=generator))
    trainer.fit(task, DataLoader(data, batch_size=2))
    weights: Any = list(task.parameters())
    return torch.cat([it.detach().full_tensor().flatten() for it in weights])


if __name__ == "__main__":
    error = float((trained(ours=True) - trained(ours=False)).abs().max())
    Path(sys.argv[1], f"found{os.environ['RANK']}.json").write_text(json.dumps({"lightning": error}))
    os._exit(0)
