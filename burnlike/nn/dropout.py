"""Layers that are random in training."""

import sys

import torch
from torch import Generator, Tensor, nn

from ..ops.bernoulli_noise import dropout
from ..random.key import Key, normal, uniform
from ..tensor.torch_bridge.torch_function import lift
from .call_types import KeepsType
from .configs import DropoutConfig, DropPathConfig, GaussianNoiseConfig
from .layer import ConfiguredLayer, expect_shape, torch_name
from .torch_counterpart import AnyLibrary, alike

# Pickles of burnlike 0.1.0 name the module that this file was.
sys.modules[f"{__name__}.dropout"] = sys.modules[__name__]


class Dropout(KeepsType, ConfiguredLayer, config=DropoutConfig):
    """Zero each value with probability `prob` in training and scale the rest by 1 / (1 - prob).
    Torch: `nn.Dropout`. Differs: `prob` below 1; takes a key (`rng`) to draw by.
    """

    p = torch_name("prob")

    prob: float

    @lift
    def forward(self, x: Tensor, rng: Key | Generator | None = None) -> Tensor:
        """`[...] -> [...]` of floats; x itself in evaluation.

        Args:
            rng: equal keys draw the same, compiled or not. None draws by torch's global generator.
        """
        if rng is None or not self.training:
            return dropout(x, self.prob, self.training)
        return torch.where(uniform(rng, x) >= self.prob, x / (1 - self.prob), 0.0)


class DropPath(KeepsType, AnyLibrary, ConfiguredLayer, config=DropPathConfig):
    """Zero each item of the batch with probability `prob` in training and scale the rest by 1 / (1 - prob). Torch: -.

    Before the sum of a residual block it leaves the block out for some items (Huang et al. 2016, section 3).
    """

    prob: float

    @lift
    def forward(self, x: Tensor, rng: Key | Generator | None = None) -> Tensor:
        """`[batch, ...] -> [batch, ...]` of floats; x itself in evaluation, or if `prob` is 0; keys as of `Dropout`."""
        expect_shape(self, x, "batch", "...")
        if not self.training or self.prob == 0:
            return x
        ones = x.new_ones([x.shape[0]] + [1] * (x.ndim - 1))
        if rng is None:
            return x * dropout(ones, self.prob)
        return torch.where(uniform(rng, ones) >= self.prob, x / (1 - self.prob), 0.0)


class GaussianNoise(KeepsType, ConfiguredLayer, config=GaussianNoiseConfig):
    """Add a number of N(0, std^2) to each value in training. Torch: -."""

    std: float

    @lift
    def forward(self, x: Tensor, rng: Key | Generator | None = None) -> Tensor:
        """`[...] -> [...]` of floats; x itself in evaluation, or if `std` is 0; keys as of `Dropout`."""
        if not self.training or self.std == 0:
            return x
        return torch.add(x, normal(rng, x), alpha=self.std)


COUNTERPARTS = [alike(DropoutConfig, nn.Dropout, prob="p")]
