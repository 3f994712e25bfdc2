"""What benchmarks of optimizers share: two sides with a model each, of the same values, and steps as users take them.

Ours is `GradientsParams.from_module` and `OptimizerAdaptor.step`, theirs `optimizer.step()` and `zero_grad()`, with
clipping `clip_grad_norm_` before. Both leave the parameters without gradients; before each call both get the same
gradients back, outside of the timing.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks._harness import Comparison, compare
from burnlike.interop import TorchOptimizer
from burnlike.optim import GradientsParams, ModuleOptimizerConfig

Shapes = Sequence[Sequence[int]]


@dataclass(frozen=True)
class Side:
    """One side of a comparison: a model, and a step of it with gradients put back before."""

    model: nn.Module
    grads: Sequence[Tensor]
    step: Callable[[], object]

    def ready(self) -> None:
        """Give the parameters their gradients. Those that torch has clipped stay so: it costs the same."""
        for param, grad in zip(self.model.parameters(), self.grads, strict=True):
            param.grad = grad


def value_count(shapes: Shapes) -> int:
    return sum(torch.Size(shape).numel() for shape in shapes)


def language_model() -> Shapes:
    """146 tensors, 92 M values: of each of 12 blocks vectors, and matrices for attention and feed-forward."""
    width = 768
    block = [(width,), (3 * width, width), (3 * width,), (width, width), (width,), (width,)]
    block += [(width,), (4 * width, width), (4 * width,), (width, 4 * width), (width,), (width,)]
    return [(9192, width), *block * 12, (width,)]


def model_of(shapes: Shapes, device: str = "cpu") -> nn.Module:
    torch.manual_seed(0)
    return nn.ParameterList([torch.randn(*shape, device=device) * 0.02 for shape in shapes])


def grads_of(shapes: Shapes, device: str = "cpu") -> list[Tensor]:
    torch.manual_seed(1)
    return [torch.randn(*shape, device=device) for shape in shapes]


def our_step(config: ModuleOptimizerConfig, model: nn.Module, lr: float) -> Callable[[], object]:
    optimizer = config.init()
    return lambda: optimizer.step(lr, model, GradientsParams.from_module(model))


def ours(config: ModuleOptimizerConfig, shapes: Shapes, lr: float, device: str = "cpu") -> Side:
    model = model_of(shapes, device)
    return Side(model, grads_of(shapes, device), our_step(config, model, lr))


def as_in_torch(config: ModuleOptimizerConfig, shapes: Shapes, lr: float) -> Side:
    """Ours behind torch's interface: `TorchOptimizer.step()` and `zero_grad()`."""
    model = model_of(shapes)
    optimizer = TorchOptimizer(model, config, lr)
    return Side(model, grads_of(shapes), lambda: (optimizer.step(), optimizer.zero_grad()))


def theirs(
    make: Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer],
    shapes: Shapes,
    device: str = "cpu",
    clip_norm: float | None = None,
) -> Side:
    model = model_of(shapes, device)
    optimizer = make(model.parameters())

    def step() -> None:
        if clip_norm is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip_norm)
        optimizer.step()
        optimizer.zero_grad()

    return Side(model, grads_of(shapes, device), step)


def compare_sides(name: str, one: Side, other: Side, **keywords: Any) -> Comparison:
    """Measure two sides; `keywords` as of `compare`."""
    return compare(name, one.step, other.step, before_ours=one.ready, before_theirs=other.ready, **keywords)


def print_distance(one: Side, other: Side, result: Comparison) -> None:
    """Say how far apart the sides' parameters are after the steps of a comparison."""
    pairs = zip(one.model.parameters(), other.model.parameters(), strict=True)
    distance = max((mine - its).abs().max().item() for mine, its in pairs)
    print(f"  after {result.repeats + 3} steps the parameters differ by {distance:.1e} at most")
