"""Steps of Adam, Sgd and Lion over whole models, as a user takes them, against torch.optim with fused=True.

What the sides do is said in `benchmarks.optim._sides`. Torch has no Lion, so that one is compared with its Adam. AdamW,
with clipping and with moments of less precision, is in `benchmarks.ops.adamw_step`.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from benchmarks._harness import Comparison, main
from burnlike.ops import native_status
from burnlike.optim import AdamConfig, ClipByGlobalNorm, LionConfig, ModuleOptimizerConfig, MomentumConfig, SgdConfig

from ._sides import Shapes, as_in_torch, compare_sides, ours, print_distance, theirs

LR = 1e-3
LARGE = [(1024, 1024)] * 64
SMALL = [(64,)] * 300
CONVOLUTIONS = [(width, width, 3, 3) for width in (64, 128, 256, 512) for _ in range(4)]

TorchOptimizer = Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]


def _adam(params: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(params, lr=LR, eps=1e-5, fused=True)


def _sgd(params: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.SGD(params, lr=LR, momentum=0.9, fused=True)


# Name, ours, theirs, whether both compute the same, and the bar for many small tensors.
CASES: list[tuple[str, ModuleOptimizerConfig, TorchOptimizer, bool, float | None]] = [
    ("Adam", AdamConfig(), _adam, True, 3.0),
    ("Sgd with momentum", SgdConfig(momentum=MomentumConfig(dampening=0.0)), _sgd, True, None),
    ("Lion, against Adam", LionConfig(), _adam, False, None),
]


def _measure(
    name: str,
    config: ModuleOptimizerConfig,
    make: TorchOptimizer,
    is_same: bool,
    shapes: Shapes,
    repeats: int,
    bar: float | None,
) -> Comparison:
    one, other = ours(config, shapes, LR), theirs(make, shapes)
    result = compare_sides(name, one, other, theirs_name="torch fused", bar=bar, repeats=repeats)
    if is_same:
        print_distance(one, other, result)
    return result


def _in_channels_last(repeats: int, clip_norm: float | None = None) -> Comparison:
    """Convolutions whose weights and gradients have their channels last, as a training of images on a CPU has them."""
    clipping = None if clip_norm is None else ClipByGlobalNorm(threshold=clip_norm)
    one = as_in_torch(AdamConfig(grad_clipping=clipping), CONVOLUTIONS, LR)
    other = theirs(_adam, CONVOLUTIONS, clip_norm=clip_norm)
    last: Any = torch.channels_last
    sides = [replace(it, grads=[grad.to(memory_format=last) for grad in it.grads]) for it in (one, other)]
    for side in sides:
        side.model.to(memory_format=last)
    name = "Adam, channels_last" if clip_norm is None else "clipping and Adam, channels_last"
    result = compare_sides(name, *sides, theirs_name="torch fused", bar=1.3, repeats=repeats)
    print_distance(*sides, result)
    return result


def run(repeats: int) -> list[Comparison]:
    """Measure each with 64 large tensors and with 300 small ones."""
    print(f"CPU kernels: {native_status().isa}")
    results = []
    for name, config, make, is_same, bar in CASES:
        results.append(_measure(f"{name}, 67.1 M values", config, make, is_same, LARGE, max(5, repeats // 3), None))
        results.append(_measure(f"{name}, 300 x 64 values", config, make, is_same, SMALL, repeats * 10, bar))
    results += [_in_channels_last(repeats), _in_channels_last(repeats, clip_norm=1.0)]
    return results


if __name__ == "__main__":
    main(__doc__ or "", run)
