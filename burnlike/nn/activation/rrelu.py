"""Randomized leaky rectified linear unit."""

import torch
from torch import Generator, Tensor
from torch.nn import functional

from ...random.key import Key, uniform
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import ConfiguredLayer
from .configs import RReluConfig


class RRelu(KeepsType, ConfiguredLayer, config=RReluConfig):
    """x where x >= 0, a slope times x elsewhere (Xu et al. 2015, eq. 3).

    In training the slope is drawn from U(lower, upper) for each value, in evaluation it is (lower + upper) / 2.

    Torch: `nn.RReLU`.
    """

    lower: float
    upper: float

    @lift
    def forward(self, x: Tensor, rng: Key | Generator | None = None) -> Tensor:
        """`[...] -> [...]`.

        Args:
            x: floating-point.
            rng: what the slopes are drawn by: with equal keys they are the same, compiled or not. None draws them by
                torch's global generator.
        """
        if not self.training:
            return functional.leaky_relu(x, (self.lower + self.upper) / 2)
        if rng is None:
            return functional.rrelu(x, self.lower, self.upper, training=True)
        slope = self.lower + (self.upper - self.lower) * uniform(rng, x).to(x.dtype)
        return torch.where(x < 0, x * slope, x)
