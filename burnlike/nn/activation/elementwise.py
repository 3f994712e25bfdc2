"""Activations that compute each element by itself."""

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from ...module import Content, Module
from ...ops.bias_gelu import approximate_gelu
from ...random.key import Key, uniform
from ...tensor.core.dtypes import largest_exponent
from ...tensor.torch_bridge.torch_function import lift
from ..call_types import KeepsType
from ..initializers.configs import Constant
from ..layer import ConfiguredLayer, FromConfig, Layer, OfEachElement, shape_error, torch_name
from ..tensor_source import TensorSource
from ..torch_counterpart import Counterpart, alike, refuse
from . import configs


class Sigmoid(OfEachElement):
    """1 / (1 + e^-x). Torch: `nn.Sigmoid`."""

    operation = torch.sigmoid


class LogSigmoid(OfEachElement):
    """log(1 / (1 + e^-x)). Torch: `nn.LogSigmoid`."""

    operation = functional.logsigmoid


class HardSigmoid(OfEachElement, config=configs.HardSigmoidConfig):
    """alpha * x + beta, at least 0 and at most 1.
    Torch: `nn.Hardsigmoid`. Differs: `alpha` is 0.2 by default; torch has 1/6, fixed.
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


class Hardtanh(OfEachElement, config=configs.HardtanhConfig):
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


class HardShrink(OfEachElement, config=configs.HardShrinkConfig):
    """x where |x| > lambd, 0 elsewhere. Torch: `nn.Hardshrink`."""

    lambd: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.hardshrink(x, self.lambd)


class SoftShrink(OfEachElement, config=configs.SoftShrinkConfig):
    """x moved by lambd towards 0 where |x| > lambd, 0 elsewhere. Torch: `nn.Softshrink`."""

    lambd: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.softshrink(x, self.lambd)


class Shrink(OfEachElement, config=configs.ShrinkConfig):
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere (ONNX). Torch: -."""

    lambd: float
    bias: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        if self.bias == self.lambd:
            return functional.softshrink(x, self.lambd)
        large = functional.hardshrink(x, self.lambd)
        return large - large.detach().sign() * self.bias


class Relu(OfEachElement):
    """max(0, x). Torch: `nn.ReLU`."""

    operation = functional.relu


class Relu6(OfEachElement):
    """min(max(0, x), 6). Torch: `nn.ReLU6`."""

    operation = functional.relu6


class LeakyRelu(OfEachElement, config=configs.LeakyReluConfig):
    """x where x >= 0, negative_slope * x elsewhere (Maas et al. 2013). Torch: `nn.LeakyReLU`."""

    negative_slope: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.leaky_relu(x, self.negative_slope)


class ThresholdedRelu(OfEachElement, config=configs.ThresholdedReluConfig):
    """x where x > alpha, 0 elsewhere. Torch: `nn.Threshold(alpha, 0)`."""

    alpha: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.threshold(x, self.alpha, 0.0)


class Threshold(OfEachElement, config=configs.ThresholdConfig):
    """x where x > threshold, value elsewhere. Torch: `nn.Threshold`."""

    threshold: float
    value: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.threshold(x, self.threshold, self.value)


class Elu(OfEachElement, config=configs.EluConfig):
    """x where x > 0, alpha * (e^x - 1) elsewhere (Clevert et al. 2016, eq. 15). Torch: `nn.ELU`."""

    alpha: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.elu(x, self.alpha)


class Selu(OfEachElement):
    """ELU whose scale and alpha keep mean 0 and variance 1 (Klambauer et al. 2017, eq. 2). Torch: `nn.SELU`."""

    operation = functional.selu


class Celu(OfEachElement, config=configs.CeluConfig):
    """max(0, x) + min(0, alpha * (e^(x / alpha) - 1)) (Barron 2017, eq. 2). Torch: `nn.CELU`."""

    alpha: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.celu(x, self.alpha)


class Softplus(OfEachElement, config=configs.SoftplusConfig):
    """log(1 + e^(beta * x)) / beta, and x itself where beta * x > threshold (Dugas et al. 2001).
    Torch: `nn.Softplus`. Differs: the threshold is lowered where e^x would not fit the dtype.
    """

    beta: float
    threshold: float

    @lift
    def forward(self, x: Tensor) -> Tensor:
        return functional.softplus(x, self.beta, min(self.threshold, largest_exponent(x.dtype)))


class Gelu(KeepsType, FromConfig, Module):
    """x * Phi(x), Phi the distribution function of the normal distribution (Hendrycks & Gimpel 2016).
    Torch: `nn.GELU`. Differs: `approximate` is a bool, for torch's `tanh`.
    """

    def __init__(self, config: configs.GeluConfig) -> None:
        super().__init__()
        self.approximate = config.approximate

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[...] -> [...]`."""
        return approximate_gelu(x, "tanh") if self.approximate else functional.gelu(x)


class SiLU(OfEachElement):
    """x * sigmoid(x) (Elfwing et al. 2018, eq. 2). Torch: `nn.SiLU`."""

    operation = functional.silu


class Mish(OfEachElement):
    """x * tanh(softplus(x)) (Misra 2020, eq. 1). Torch: `nn.Mish`."""

    operation = functional.mish


class HardSwish(OfEachElement):
    """x * min(max(0, x + 3), 6) / 6 (Howard et al. 2019). Torch: `nn.Hardswish`."""

    operation = functional.hardswish


class PRelu(KeepsType, Layer):
    """x where x >= 0, alpha * x elsewhere (He et al. 2015, eq. 1).

    Torch: `nn.PReLU`. Differs: the weight is `alpha`.

    Attributes:
        alpha: `[1]` or `[channels]`, of the first value `alpha_value`.
    """

    alpha: nn.Parameter

    weight = torch_name("alpha")
    num_parameters = torch_name("alpha", 0)

    def __init__(self, config: configs.PReluConfig, device: torch.device | str | None = None) -> None:
        super().__init__()
        self.alpha = Constant(value=config.alpha).init([config.num_parameters], device=device)
        self.alpha_value = config.alpha

    @lift
    def forward(self, x: Tensor) -> Tensor:
        """`[batch, channels, ...] -> [batch, channels, ...]`, of any shape if there is one slope."""
        count = self.alpha.shape[0]
        if count != 1 and (x.ndim < 2 or x.shape[1] != count):
            raise shape_error(self, f"[batch, {count}, ...]", list(x.shape))
        return functional.prelu(x, self.alpha)

    def custom_content(self, content: Content) -> Content:
        return content.add("num_parameters", content.shape("alpha")[0]).add("alpha_value", self.alpha_value)


class RRelu(KeepsType, ConfiguredLayer, config=configs.RReluConfig):
    """x where x >= 0, a slope times x elsewhere (Xu et al. 2015, eq. 3). Torch: `nn.RReLU`.

    In training the slope is drawn from U(lower, upper) for each value, in evaluation it is (lower + upper) / 2.
    """

    lower: float
    upper: float

    @lift
    def forward(self, x: Tensor, rng: Key | Generator | None = None) -> Tensor:
        """`[...] -> [...]`; keys as of `Dropout`."""
        if not self.training:
            return functional.leaky_relu(x, (self.lower + self.upper) / 2)
        if rng is None:
            return functional.rrelu(x, self.lower, self.upper, training=True)
        slope = self.lower + (self.upper - self.lower) * uniform(rng, x).to(x.dtype)
        return torch.where(x < 0, x * slope, x)


def _to_torch_hardtanh(layer: Any, device: torch.device) -> nn.Hardtanh:
    if layer.min_val == layer.max_val:
        raise refuse(layer, f"equal bounds, {layer.min_val}, have no counterpart")
    return nn.Hardtanh(layer.min_val, layer.max_val)


def _to_torch_hard_sigmoid(layer: Any, device: torch.device) -> nn.Hardsigmoid:
    if (layer.alpha, layer.beta) != (1 / 6, 0.5):
        raise refuse(layer, f"alpha={layer.alpha}, beta={layer.beta} have no counterpart: torch's are 1/6 and 0.5")
    return nn.Hardsigmoid()


COUNTERPARTS = [
    alike(configs.IdentityConfig, nn.Identity),
    alike(configs.ReluConfig, nn.ReLU),
    alike(configs.Relu6Config, nn.ReLU6),
    alike(configs.LeakyReluConfig, nn.LeakyReLU),
    alike(configs.RReluConfig, nn.RReLU),
    alike(configs.ThresholdConfig, nn.Threshold),
    alike(configs.EluConfig, nn.ELU),
    alike(configs.SeluConfig, nn.SELU),
    alike(configs.CeluConfig, nn.CELU),
    alike(configs.SoftplusConfig, nn.Softplus),
    alike(configs.SiLUConfig, nn.SiLU),
    alike(configs.MishConfig, nn.Mish),
    alike(configs.HardSwishConfig, nn.Hardswish),
    alike(configs.SigmoidConfig, nn.Sigmoid),
    alike(configs.LogSigmoidConfig, nn.LogSigmoid),
    alike(configs.TanhConfig, nn.Tanh),
    alike(configs.SoftsignConfig, nn.Softsign),
    alike(configs.TanhshrinkConfig, nn.Tanhshrink),
    alike(configs.HardShrinkConfig, nn.Hardshrink),
    alike(configs.SoftShrinkConfig, nn.Softshrink),
    replace(alike(configs.HardtanhConfig, nn.Hardtanh), build=_to_torch_hardtanh),
    Counterpart(
        "HardSigmoid", nn.Hardsigmoid, lambda _: configs.HardSigmoidConfig(alpha=1 / 6), _to_torch_hard_sigmoid
    ),
    Counterpart(
        "Gelu",
        nn.GELU,
        lambda it: configs.GeluConfig(approximate=it.approximate == "tanh"),
        lambda it, device: nn.GELU("tanh" if it.approximate else "none"),
    ),
    Counterpart(
        "PRelu",
        nn.PReLU,
        lambda it: configs.PReluConfig(num_parameters=it.num_parameters),
        lambda it, device: nn.PReLU(it.alpha.shape[0], it.alpha_value, device=device),
        {"alpha": TensorSource("weight")},
    ),
]
