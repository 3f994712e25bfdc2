"""Cases of layers that are random in training."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from burnlike import nn
from burnlike.mlax import Key

from . import Case, floats


def with_key() -> tuple[Any, ...]:
    return (floats(4, 6), {"rng": Key(3)})


def dropped(layer: Any, x: Tensor, rng: Key) -> Tensor:
    kept = rng.rand(x.shape, dtype=torch.float32) >= layer.prob
    return kept * x / (1 - layer.prob)


def dropped_items(layer: Any, x: Tensor, rng: Key | None = None) -> Tensor:
    """Huang et al. 2016, section 3, with the mean kept in training."""
    if rng is None:
        kept = torch.empty(x.shape[0], 1, dtype=x.dtype).bernoulli_(1 - layer.prob)
    else:
        kept = rng.rand((x.shape[0], 1), dtype=torch.float32) >= layer.prob
    return kept * x / (1 - layer.prob)


OTHER_NOISE: Mapping[str, str] = dict.fromkeys(
    ("bfloat16", "float32", "autocast"), "each element type draws numbers of its own"
)

CASES = [
    Case("Dropout", nn.DropoutConfig(prob=0.4), lambda: (floats(4, 6),)),
    Case("Dropout/eval", nn.DropoutConfig(prob=0.4), lambda: (floats(4, 6),), train=False),
    Case("Dropout/key", nn.DropoutConfig(prob=0.4), with_key, dropped),
    Case("DropPath", nn.DropPathConfig(prob=0.4), lambda: (floats(6, 5),), dropped_items, bad_shapes=((),)),
    Case("DropPath/eval", nn.DropPathConfig(prob=0.4), lambda: (floats(6, 5),), lambda _, x: x, train=False),
    Case("DropPath/none", nn.DropPathConfig(prob=0.0), lambda: (floats(6, 5),), lambda _, x: x),
    Case("DropPath/key", nn.DropPathConfig(prob=0.4), with_key, dropped_items),
    Case(
        "GaussianNoise",
        nn.GaussianNoiseConfig(std=0.5),
        lambda: (floats(4, 6),),
        lambda layer, x: x + 0.5 * torch.randn(x.shape, dtype=torch.float64),
        not_in=OTHER_NOISE,
    ),
    Case("GaussianNoise/eval", nn.GaussianNoiseConfig(std=0.5), lambda: (floats(4, 6),), lambda _, x: x, train=False),
    Case("GaussianNoise/none", nn.GaussianNoiseConfig(std=0.0), lambda: (floats(4, 6),), lambda _, x: x),
    Case(
        "GaussianNoise/key",
        nn.GaussianNoiseConfig(std=0.5),
        with_key,
        lambda layer, x, rng: x + 0.5 * rng.randn(x.shape, dtype=torch.float64),
        not_in=OTHER_NOISE,
    ),
]
