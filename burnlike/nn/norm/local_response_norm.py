"""Normalization by the neighbouring channels."""

from torch import Tensor
from torch.nn import functional

from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import ConfiguredLayer, shape_error
from .configs import LocalResponseNormConfig


class LocalResponseNorm(KeepsType, ConfiguredLayer, config=LocalResponseNormConfig):
    """x / (k + alpha * mean(x^2))^beta over a window of channels (Krizhevsky et al. 2012, section 3.3).

    The mean is over `size` channels, those outside counting as 0.

    Torch: `nn.LocalResponseNorm`.
    Differs: with an even size the extra channel is the one after, torch's the one before.
    """

    size: int
    alpha: float
    beta: float
    k: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, ..., length] -> [batch, channels, ..., length]`, three or more dimensions."""
        if x.ndim < 3:
            raise shape_error(self, "[batch, channels, ..., length]", list(x.shape))
        squares = x.square().flatten(2).unsqueeze(1)
        before = (self.size - 1) // 2
        if self.size % 2 == 0:
            squares, before = functional.pad(squares, (0, 0, before, before + 1)), 0
        mean = functional.avg_pool2d(squares, (self.size, 1), stride=1, padding=(before, 0))
        return x / (mean.reshape(x.shape) * self.alpha + self.k) ** self.beta
