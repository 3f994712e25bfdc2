"""Activations with a limit on one side or both."""

import torch
from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer
from .configs import HardSigmoidConfig, HardtanhConfig


class Sigmoid(KeepsType, Layer):
    """1 / (1 + e^-x).

    Torch: `nn.Sigmoid`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return torch.sigmoid(x)


class LogSigmoid(KeepsType, Layer):
    """log(1 / (1 + e^-x)).

    Torch: `nn.LogSigmoid`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.logsigmoid(x)


class HardSigmoid(KeepsType, Layer):
    """alpha * x + beta, at least 0 and at most 1.

    Torch: `nn.Hardsigmoid`.
    Differs: `alpha` is 0.2 by default; torch has 1/6, fixed.
    """

    def __init__(self, config: HardSigmoidConfig) -> None:
        super().__init__()
        self.alpha = config.alpha
        self.beta = config.beta

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        if self.alpha == 1 / 6 and self.beta == 0.5:
            return functional.hardsigmoid(x)
        return (x * self.alpha + self.beta).clamp(0.0, 1.0)

    def custom_content(self, content: Content) -> Content:
        return content.add("alpha", self.alpha).add("beta", self.beta)


class Tanh(KeepsType, Layer):
    """The hyperbolic tangent.

    Torch: `nn.Tanh`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return torch.tanh(x)


class Hardtanh(KeepsType, Layer):
    """x, at least min_val and at most max_val.

    Torch: `nn.Hardtanh`.
    """

    def __init__(self, config: HardtanhConfig) -> None:
        super().__init__()
        self.min_val = config.min_val
        self.max_val = config.max_val

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.hardtanh(x, self.min_val, self.max_val)

    def custom_content(self, content: Content) -> Content:
        return content.add("min_val", self.min_val).add("max_val", self.max_val)


class Softsign(KeepsType, Layer):
    """x / (1 + |x|).

    Torch: `nn.Softsign`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.softsign(x)
