"""Activations that are x, or nearly so, where x is large."""

from torch import Tensor
from torch.nn import functional

from ...module import Content, Module
from ...tensor.activation.pointwise import largest_exponent
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..layer import Layer
from .rectifier_configs import (
    CeluConfig,
    EluConfig,
    GeluConfig,
    LeakyReluConfig,
    SoftplusConfig,
    ThresholdConfig,
    ThresholdedReluConfig,
)


class Relu(KeepsType, Layer):
    """max(0, x).

    Torch: `nn.ReLU`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.relu(x)


class Relu6(KeepsType, Layer):
    """min(max(0, x), 6).

    Torch: `nn.ReLU6`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.relu6(x)


class LeakyRelu(KeepsType, Layer):
    """x where x >= 0, negative_slope * x elsewhere (Maas et al. 2013).

    Torch: `nn.LeakyReLU`.
    """

    def __init__(self, config: LeakyReluConfig) -> None:
        super().__init__()
        self.negative_slope = config.negative_slope

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.leaky_relu(x, self.negative_slope)

    def custom_content(self, content: Content) -> Content:
        return content.add("negative_slope", self.negative_slope)


class ThresholdedRelu(KeepsType, Layer):
    """x where x > alpha, 0 elsewhere.

    Torch: `nn.Threshold(alpha, 0)`.
    """

    def __init__(self, config: ThresholdedReluConfig) -> None:
        super().__init__()
        self.alpha = config.alpha

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.threshold(x, self.alpha, 0.0)

    def custom_content(self, content: Content) -> Content:
        return content.add("alpha", self.alpha)


class Threshold(KeepsType, Layer):
    """x where x > threshold, value elsewhere.

    Torch: `nn.Threshold`.
    """

    def __init__(self, config: ThresholdConfig) -> None:
        super().__init__()
        self.threshold = config.threshold
        self.value = config.value

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.threshold(x, self.threshold, self.value)

    def custom_content(self, content: Content) -> Content:
        return content.add("threshold", self.threshold).add("value", self.value)


class Elu(KeepsType, Layer):
    """x where x > 0, alpha * (e^x - 1) elsewhere (Clevert et al. 2016, eq. 15).

    Torch: `nn.ELU`.
    """

    def __init__(self, config: EluConfig) -> None:
        super().__init__()
        self.alpha = config.alpha

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.elu(x, self.alpha)

    def custom_content(self, content: Content) -> Content:
        return content.add("alpha", self.alpha)


class Selu(KeepsType, Layer):
    """ELU with a scale and an alpha that keep mean 0 and variance 1 (Klambauer et al. 2017, eq. 2).

    Torch: `nn.SELU`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.selu(x)


class Celu(KeepsType, Layer):
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1)) (Barron 2017, eq. 2).

    Torch: `nn.CELU`.
    """

    def __init__(self, config: CeluConfig) -> None:
        super().__init__()
        self.alpha = config.alpha

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.celu(x, self.alpha)

    def custom_content(self, content: Content) -> Content:
        return content.add("alpha", self.alpha)


class Softplus(KeepsType, Layer):
    """log(1 + e^(beta * x)) / beta, and x itself where beta * x > threshold (Dugas et al. 2001).

    Torch: `nn.Softplus`.
    Differs: the threshold is lowered where e^x would not fit the dtype.
    """

    def __init__(self, config: SoftplusConfig) -> None:
        super().__init__()
        self.beta = config.beta
        self.threshold = config.threshold

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.softplus(x, self.beta, min(self.threshold, largest_exponent(x.dtype)))

    def custom_content(self, content: Content) -> Content:
        return content.add("beta", self.beta).add("threshold", self.threshold)


class Gelu(KeepsType, Module):
    """x * Phi(x), Phi the distribution function of the normal distribution (Hendrycks & Gimpel 2016).

    Torch: `nn.GELU`.
    Differs: `approximate` is a bool, for torch's `tanh`.
    """

    def __init__(self, config: GeluConfig) -> None:
        super().__init__()
        self.approximate = config.approximate

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.gelu(x, approximate="tanh" if self.approximate else "none")


class SiLU(KeepsType, Layer):
    """x * sigmoid(x) (Elfwing et al. 2018, eq. 2).

    Torch: `nn.SiLU`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.silu(x)


class Mish(KeepsType, Layer):
    """x * tanh(softplus(x)) (Misra 2020, eq. 1).

    Torch: `nn.Mish`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.mish(x)


class HardSwish(KeepsType, Layer):
    """x * min(max(0, x + 3), 6) / 6 (Howard et al. 2019).

    Torch: `nn.Hardswish`.
    """

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return functional.hardswish(x)
