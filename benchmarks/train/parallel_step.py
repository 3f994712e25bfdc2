"""The Learner's step on two processes beside a loop by hand with the same calls of torch, as torchtitan has it.

    python -m benchmarks.train.parallel_step

Two processes (gloo) train the same decoder under `fully_shard`, block by block, with torch's fused AdamW and a clipped
norm of gradients. Both sides do what torchtitan does in a step: a loss, `backward`, `clip_grad_norm_`, the optimizer's
step, and the sum over the processes of the tokens that counted; each says the loss every 10 steps. The loop takes a
step within each step of `Learner.fit`, so that both meet the same load. A time is the median of rank 0, by the clock;
the note has the CPU time of both processes, which another program on the machine changes less. The losses of both are
compared.
"""

import io
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from benchmarks._harness import Comparison, main
from burnlike.models import DecoderLmConfig
from burnlike.optim import ClipByGlobalNorm
from burnlike.train import (
    Callback,
    DistributedConfig,
    Learner,
    PlainRenderer,
    StepOutput,
    TrainingConfig,
    make_parallel,
)
from burnlike.train.parallel.strategies import blocks_of

PROCESSES, WARM_UP, LOG_EVERY = 2, 5, 10
BATCH, LENGTH, VOCABULARY = 4, 128, 2048
RATE, NORM = 1e-3, 1.0
BAR = 0.97
CONFIG = DecoderLmConfig(
    vocab_size=VOCABULARY, max_sequence_length=LENGTH, d_model=256, n_layers=4, n_heads=4, d_ff=688, tied=False
)


def decoder() -> nn.Module:
    torch.manual_seed(0)
    return CONFIG.init()


def loss_of(model: nn.Module, tokens: Tensor) -> Tensor:
    return functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())


def adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=RATE, fused=True)


class ByHand:
    """The loop, one step at a time."""

    def __init__(self) -> None:
        from torch.distributed.fsdp import fully_shard

        self.model = decoder().train()
        for block in blocks_of(self.model):
            fully_shard(block)
        fully_shard(self.model)
        self.optimizer = adamw(self.model)
        self.losses: list[float] = []
        self._losses: list[Tensor] = []

    def step(self, tokens: Tensor) -> None:
        counted = torch.tensor(float(tokens[:, 1:].numel()), dtype=torch.float64)
        dist.all_reduce(counted)
        loss = loss_of(self.model, tokens)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), NORM)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self._losses.append(loss.detach())
        if len(self._losses) == LOG_EVERY:
            mean = torch.stack(self._losses).mean()
            dist.all_reduce(mean)
            self.losses.append(mean.item() / PROCESSES)
            self._losses = []


class Clock(Callback):
    """Takes a step by hand after each of the Learner's, and the times of both."""

    def __init__(self, by_hand: ByHand) -> None:
        self.by_hand, self.losses = by_hand, list[float]()
        self.ours: list[tuple[float, float]] = []
        self.theirs: list[tuple[float, float]] = []
        self._last: tuple[float, float] | None = None
        self._batch: Any = None

    def on_batch_start(self, learner: Learner[Any], batch: Any) -> None:
        self._batch = batch

    def on_step_end(self, learner: Learner[Any]) -> None:
        end = _now()
        if self._last is not None:
            self.ours.append((end[0] - self._last[0], end[1] - self._last[1]))
        start = _now()
        self.by_hand.step(self._batch)
        self._last = _now()
        self.theirs.append((self._last[0] - start[0], self._last[1] - start[1]))

    def on_metrics(self, learner: Learner[Any], line: Any) -> None:
        self.losses.append(line["loss"])


def _now() -> tuple[float, float]:
    """The clock, and the CPU time of this process."""
    return time.perf_counter(), time.process_time()


def worker(steps: int, out: Path) -> None:
    """Train as one of the processes, and write the times down."""
    torch.set_num_threads(1)
    parallel = make_parallel(DistributedConfig(strategy="fsdp2"), torch.device("cpu"))
    generator = torch.Generator().manual_seed(1 + parallel.rank)
    batches = [torch.randint(VOCABULARY, (BATCH, LENGTH + 1), generator=generator) for _ in range(steps)]
    model = decoder()
    clock = Clock(ByHand())
    learner = Learner(
        model,
        adamw(model),
        loss=lambda model, tokens: StepOutput(loss_of(model, tokens), tokens[:, 1:].numel()),
        grad_clipping=ClipByGlobalNorm(threshold=NORM),
        parallel=parallel,
    )
    training = TrainingConfig(log_every_steps=LOG_EVERY)
    learner.fit(batches, training=training, renderer=PlainRenderer(io.StringIO()), callbacks=[clock])
    error = max(abs(one - other) for one, other in zip(clock.losses, clock.by_hand.losses, strict=True))
    found = {"ours": clock.ours[WARM_UP:], "theirs": clock.theirs[WARM_UP:], "error": error}
    (out / f"{parallel.rank}.json").write_text(json.dumps(found))
    parallel.close()


def run(repeats: int) -> Sequence[Comparison]:
    """Start the processes, and compare the medians of their steps."""
    steps = max(2 * LOG_EVERY, -(-(repeats + WARM_UP + 1) // LOG_EVERY) * LOG_EVERY)
    with tempfile.TemporaryDirectory() as directory, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
        free.close()
        common = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(PROCESSES)}
        command = [sys.executable, "-W", "ignore", "-m", "benchmarks.train.parallel_step", "--worker", str(steps)]
        workers = [
            subprocess.Popen([*command, directory], env={**common, "RANK": str(rank), "LOCAL_RANK": str(rank)})
            for rank in range(PROCESSES)
        ]
        statuses = [it.wait() for it in workers]
        if any(statuses):
            raise SystemExit("a process failed")
        found = [json.loads((Path(directory) / f"{rank}.json").read_text()) for rank in range(PROCESSES)]
    wall = {side: statistics.median(it[0] for it in found[0][side]) for side in ("ours", "theirs")}
    cpu = {side: statistics.median(_joined(found, side)) for side in ("ours", "theirs")}
    ratio = wall["theirs"] / wall["ours"]
    note = (
        f"CPU time of a step {cpu['ours'] * 1e3:.1f} ms, by hand {cpu['theirs'] * 1e3:.1f} ms"
        f" ({cpu['theirs'] / cpu['ours']:.3f}x); losses differ by {found[0]['error']:.1e}"
    )
    result = Comparison(
        *("step of fsdp2, 2 processes", wall["ours"] * 1e3, wall["theirs"] * 1e3, "by hand", ratio, BAR),
        *(len(found[0]["ours"]), 1, note),
    )
    print(result, flush=True)
    return [result]


def _joined(found: Sequence[Any], side: str) -> list[float]:
    """The CPU time of each step, of all processes together."""
    return [sum(cpu for _, cpu in of_each) for of_each in zip(*(it[side] for it in found), strict=True)]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        worker(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        main((__doc__ or "").split("\n", maxsplit=1)[0], run)
