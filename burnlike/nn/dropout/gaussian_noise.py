"""Gaussian noise."""

import torch
from torch import Generator, Tensor

from ...random.key import Key, normal
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import ConfiguredLayer
from .configs import GaussianNoiseConfig


class GaussianNoise(KeepsType, ConfiguredLayer, config=GaussianNoiseConfig):
    """Add a number of N(0, std^2) to each value in training.

    Torch: -.
    """

    std: float

    @lift
    def forward(self, x: Tensor, rng: Key | Generator | None = None) -> Tensor:
        """`[...] -> [...]`; x itself in evaluation, or if `std` is 0.

        Args:
            x: floating-point.
            rng: what the noise is drawn by: with equal keys it is the same, compiled or not. None draws it by torch's
                global generator.
        """
        if not self.training or self.std == 0:
            return x
        return torch.add(x, normal(rng, x), alpha=self.std)
