"""Activations that take small values to 0, or nearly so."""

from torch import Tensor
from torch.nn import functional

from ...tensor.torch_bridge.torch_function import lift
from ..layer import OfEachElement
from .configs import HardShrinkConfig, ShrinkConfig, SoftShrinkConfig


class Tanhshrink(OfEachElement):
    """x - tanh(x).

    Torch: `nn.Tanhshrink`.
    """

    operation = functional.tanhshrink


class HardShrink(OfEachElement, config=HardShrinkConfig):
    """x where |x| > lambd, 0 elsewhere.

    Torch: `nn.Hardshrink`.
    """

    lambd: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.hardshrink(x, self.lambd)


class SoftShrink(OfEachElement, config=SoftShrinkConfig):
    """x moved by lambd towards 0 where |x| > lambd, 0 elsewhere.

    Torch: `nn.Softshrink`.
    """

    lambd: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.softshrink(x, self.lambd)


class Shrink(OfEachElement, config=ShrinkConfig):
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere (ONNX).

    Torch: -.
    """

    lambd: float
    bias: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        if self.bias == self.lambd:
            return functional.softshrink(x, self.lambd)
        large = functional.hardshrink(x, self.lambd)
        return large - large.detach().sign() * self.bias
