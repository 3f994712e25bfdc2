"""A loop of one's own with single pieces of burnlike's training: schedule, average, metrics, checkpoints, interrupter.

    python custom_loop.py --out runs/loop

This file needs burnlike: save it anywhere, or run it in `examples/training` of a clone.

Run it again after Ctrl-C or a kill: it goes on with the same bits.
"""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

from burnlike.optim import AdamWConfig, CosineAnnealingConfig, GradientsParams
from burnlike.train import Checkpointer, Ema, EmaConfig, Interrupter, MetricsLog, TrainingState


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("runs/loop"))
    arguments = parser.parse_args()

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = AdamWConfig().init()
    schedule = CosineAnnealingConfig(initial_lr=1e-2).init(num_iters=arguments.steps)
    ema = Ema(model, EmaConfig(decay=0.98))
    counters = {"step": 0}

    # All that the loop needs to go on, the random generators among it.
    state = TrainingState(model=model, optimizer=optimizer, schedule=schedule, ema=ema, counters=counters)
    checkpointer = Checkpointer(arguments.out / "checkpoints", keep=2)
    if (last := checkpointer.latest()) is not None:
        state.load(last.path)
    log = MetricsLog(arguments.out / "metrics.jsonl")
    log.cut_back(counters["step"])

    with Interrupter() as interrupter:
        while counters["step"] < arguments.steps:
            x = torch.rand(64, 1) * 6 - 3
            loss = functional.mse_loss(model(x), x.sin())
            loss.backward()
            optimizer.step(schedule.step(), model, GradientsParams.from_module(model))
            ema.update()
            counters["step"] += 1
            if counters["step"] % 20 == 0 or interrupter.stopped:
                log.append({"step": counters["step"], "epoch": 0, "split": "train", "loss": loss.item()})
                checkpointer.save(counters["step"], state.to_records(), background=True)
            interrupter.check()
    checkpointer.wait()

    x = torch.linspace(-3, 3, 100).unsqueeze(1)
    with torch.no_grad(), ema.applied():
        error = functional.mse_loss(model(x), x.sin())
    print(f"step {counters['step']}  error of the averaged weights {error:.5f}")


if __name__ == "__main__":
    main()
