"""Trains with options of a strategy in one of several processes, one after the other, beside a single process.

    python -m tests.train.distributed.options OUT

writes what was found as JSON to OUT: of each case the largest difference of weights, and the collectives of a step.
"""

import io
import json
import sys
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from burnlike.data import DataLoader, TensorDataset
from burnlike.optim import AdamWConfig
from burnlike.optim.core.sharded import whole
from burnlike.train import DistributedConfig, Learner, PlainRenderer, TrainingConfig, make_parallel

from . import program

BF16 = {"params": "bfloat16", "reduce": "float32", "output": "float32"}
KEPT = {"reshard_after_forward": False, "reshard_after_backward": False}
CASES: Mapping[str, dict[str, Any]] = {
    "fsdp2": {"strategy": "fsdp2"},
    "hsdp": {"strategy": "fsdp2", "replicate": 2},
    "copies": {"strategy": "fsdp2", "replicate": -1, "shard": 1},
    "a part stays": {"strategy": "fsdp2", "reshard_after_forward": 2},
    "kept between batches": {"strategy": "fsdp2", "reshard_after_backward": False},
    "kept": {"strategy": "fsdp2", **KEPT},
    "kept copies": {"strategy": "fsdp2", "replicate": 2, **KEPT},
    "offload": {"strategy": "fsdp2", "replicate": 2, "offload": "cpu"},
    "bfloat16": {"strategy": "fsdp2", "replicate": 2, "precision": BF16},
    "sums in bfloat16": {"strategy": "fsdp2", "precision": {"reduce": "bfloat16"}},
}


class Collectives(TorchDispatchMode):
    """Counts what processes exchange."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace == "c10d":
            self.counts[func.__name__.split(".")[0].strip("_")] += 1
        return func(*args, **(kwargs or {}))


def train(config: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, int]]:
    """The weights after two epochs, and the collectives of one more step of two batches."""
    parallel = make_parallel(DistributedConfig(**config), program.CPU)
    model = program.network()
    learner = Learner(model, AdamWConfig().init(), 0.02, loss=program.loss, parallel=parallel)
    part = {"batch_size": 12 // parallel.data_size, "rank": parallel.data_rank, "world_size": parallel.data_size}
    loaders = [DataLoader(TensorDataset(program.ROWS), seed=seed, **part) for seed in (3, None)]
    training = TrainingConfig(epochs=2, accumulation_steps=2, log_every_steps=1)
    learner.fit(*loaders, training, renderer=PlainRenderer(io.StringIO()))
    weights = {name: whole(it.detach()).clone() for name, it in model.named_parameters()}
    batch = (program.ROWS[:4],)
    with Collectives() as mode:
        learner.backward(batch, is_last=False)
        before_last = dict(mode.counts)
        learner.backward(batch)
    return weights, {"before the last batch": before_last, "in all": dict(mode.counts)}


def main(out: Path) -> None:
    dist.init_process_group("gloo")
    expected, _ = train({})
    found: dict[str, Any] = {}
    for name, config in CASES.items():
        weights, counts = train(config)
        difference = max(float((it - expected[key]).abs().max()) for key, it in weights.items())
        found[name] = {"difference": difference, **counts}
    if dist.get_rank() == 0:
        out.write_text(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
