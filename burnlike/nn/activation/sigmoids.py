"""Activations with a limit on one side or both, and those that take small values to 0, or nearly so."""

import torch
from torch import Tensor
from torch.nn import functional

from ...tensor.torch_bridge.torch_function import lift
from ..layer import OfEachElement
from .configs import HardShrinkConfig, HardSigmoidConfig, HardtanhConfig, ShrinkConfig, SoftShrinkConfig


class Sigmoid(OfEachElement):
    """1 / (1 + e^-x). Torch: `nn.Sigmoid`."""

    operation = torch.sigmoid


class LogSigmoid(OfEachElement):
    """log(1 / (1 + e^-x)). Torch: `nn.LogSigmoid`."""

    operation = functional.logsigmoid


class HardSigmoid(OfEachElement, config=HardSigmoidConfig):
    """alpha * x + beta, at least 0 and at most 1.

    Torch: `nn.Hardsigmoid`.
    Differs: `alpha` is 0.2 by default; torch has 1/6, fixed.
    """

    alpha: float
    beta: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        if self.alpha == 1 / 6 and self.beta == 0.5:
            return functional.hardsigmoid(x)
        return (x * self.alpha + self.beta).clamp(0.0, 1.0)


class Tanh(OfEachElement):
    """The hyperbolic tangent. Torch: `nn.Tanh`."""

    operation = torch.tanh


class Hardtanh(OfEachElement, config=HardtanhConfig):
    """x, at least min_val and at most max_val. Torch: `nn.Hardtanh`."""

    min_val: float
    max_val: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.hardtanh(x, self.min_val, self.max_val)


class Softsign(OfEachElement):
    """x / (1 + |x|). Torch: `nn.Softsign`."""

    operation = functional.softsign


class Tanhshrink(OfEachElement):
    """x - tanh(x). Torch: `nn.Tanhshrink`."""

    operation = functional.tanhshrink


class HardShrink(OfEachElement, config=HardShrinkConfig):
    """x where |x| > lambd, 0 elsewhere. Torch: `nn.Hardshrink`."""

    lambd: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.hardshrink(x, self.lambd)


class SoftShrink(OfEachElement, config=SoftShrinkConfig):
    """x moved by lambd towards 0 where |x| > lambd, 0 elsewhere. Torch: `nn.Softshrink`."""

    lambd: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.softshrink(x, self.lambd)


class Shrink(OfEachElement, config=ShrinkConfig):
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere (ONNX). Torch: -."""

    lambd: float
    bias: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        if self.bias == self.lambd:
            return functional.softshrink(x, self.lambd)
        large = functional.hardshrink(x, self.lambd)
        return large - large.detach().sign() * self.bias
