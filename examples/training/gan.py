"""A generative adversarial network: two models, two optimizers, one loop (Goodfellow et al. 2014).

    python gan.py --out runs/gan

This file needs burnlike: save it anywhere, or run it in `examples/training` of a clone.

The generator learns to draw points of a ring. Both models, both optimizers and the random generators are one state.
"""

import argparse
import math
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike.optim import AdamConfig, GradientsParams
from burnlike.train import Checkpointer, Interrupter, TrainingState

NOISE = 8


def points_of_a_ring(count: int) -> Tensor:
    """`[count, 2]`, at a distance of about 1 from the origin."""
    angle = 2 * math.pi * torch.rand(count)
    return torch.stack([angle.cos(), angle.sin()], dim=1) * (1 + 0.05 * torch.randn(count, 1))


def network(d_input: int, d_output: int) -> nn.Module:
    """Three linear layers."""
    return nn.Sequential(
        *(nn.Linear(d_input, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, d_output))
    )


def verdict(logits: Tensor, is_real: bool) -> Tensor:
    """The error of a discriminator that should say so."""
    return functional.binary_cross_entropy_with_logits(logits, torch.full_like(logits, float(is_real)))


def main() -> None:
    """Read the options and train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--save-every", type=int, default=100)
    parser.add_argument("--out", type=Path, default=Path("runs/gan"))
    arguments = parser.parse_args()

    torch.manual_seed(0)
    generator, discriminator = network(NOISE, 2), network(2, 1)
    drawing, judging = (AdamConfig(beta_1=0.5).init() for _ in range(2))
    counters = {"step": 0}
    state = TrainingState(
        generator=generator, discriminator=discriminator, drawing=drawing, judging=judging, counters=counters
    )
    checkpointer = Checkpointer(arguments.out / "checkpoints")
    if (last := checkpointer.latest()) is not None:
        state.load(last.path)

    with Interrupter() as interrupter:
        while counters["step"] < arguments.steps:
            real, drawn = points_of_a_ring(128), generator(torch.randn(128, NOISE))
            loss = verdict(discriminator(real), True) + verdict(discriminator(drawn.detach()), False)
            loss.backward()
            judging.step(2e-3, discriminator, GradientsParams.from_module(discriminator))

            verdict(discriminator(drawn), True).backward()
            GradientsParams.from_module(discriminator)  # takes its gradients away: they are the generator's matter here
            drawing.step(1e-3, generator, GradientsParams.from_module(generator))

            counters["step"] += 1
            if counters["step"] % arguments.save_every == 0 or interrupter.stopped:
                checkpointer.save(counters["step"], state.to_records())
            interrupter.check()

    with torch.no_grad():
        radius = generator(torch.randn(2000, NOISE)).norm(dim=1)
    found = f"{radius.mean():.3f} +- {radius.std():.3f}"
    print(f"step {counters['step']}  distance from the origin {found} (a ring: 1.000)")


if __name__ == "__main__":
    main()
