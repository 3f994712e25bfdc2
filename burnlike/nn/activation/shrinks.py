"""Activations that take small values to 0, or nearly so."""

from torch import Tensor
from torch.nn import functional

from ...module import Content
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer
from .configs import HardShrinkConfig, ShrinkConfig, SoftShrinkConfig


class Tanhshrink(KeepsType, Layer):
    """x - tanh(x).

    Torch: `nn.Tanhshrink`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.tanhshrink(x)


class HardShrink(KeepsType, Layer):
    """x where |x| > lambd, 0 elsewhere.

    Torch: `nn.Hardshrink`.
    """

    def __init__(self, config: HardShrinkConfig) -> None:
        super().__init__()
        self.lambd = config.lambd

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.hardshrink(x, self.lambd)

    def custom_content(self, content: Content) -> Content:
        return content.add("lambda", self.lambd)


class SoftShrink(KeepsType, Layer):
    """x moved by lambd towards 0 where |x| > lambd, 0 elsewhere.

    Torch: `nn.Softshrink`.
    """

    def __init__(self, config: SoftShrinkConfig) -> None:
        super().__init__()
        self.lambd = config.lambd

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.softshrink(x, self.lambd)

    def custom_content(self, content: Content) -> Content:
        return content.add("lambda", self.lambd)


class Shrink(KeepsType, Layer):
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere (ONNX).

    Torch: -.
    """

    def __init__(self, config: ShrinkConfig) -> None:
        super().__init__()
        self.lambd = config.lambd
        self.bias = config.bias

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        if self.bias == self.lambd:
            return functional.softshrink(x, self.lambd)
        large = functional.hardshrink(x, self.lambd)
        return large - large.detach().sign() * self.bias

    def custom_content(self, content: Content) -> Content:
        return content.add("lambda", self.lambd).add("bias", self.bias)
