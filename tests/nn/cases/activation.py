"""Cases of activations."""

from typing import Any

import torch
from torch import Tensor

from burnlike import nn
from burnlike.mlax import Key

from . import Case, floats


def values() -> tuple[Tensor]:
    """Numbers on both sides of every bend, none of them on one."""
    return ((torch.arange(-40, 40, dtype=torch.float64) * 0.23 + 0.017).reshape(4, 20),)


def values_with_key() -> tuple[Any, ...]:
    return (*values(), {"rng": Key(3)})


def random_slopes(layer: Any, x: Tensor, rng: Key) -> Tensor:
    slopes = layer.lower + (layer.upper - layer.lower) * rng.rand(x.shape, dtype=torch.float32).double()
    return torch.where(x >= 0, x, slopes * x)


def shrunk(layer: Any, x: Tensor) -> Tensor:
    return torch.where(x > layer.lambd, x - layer.bias, torch.where(x < -layer.lambd, x + layer.bias, 0 * x))


def hard_sigmoid(layer: Any, x: Tensor) -> Tensor:
    line = layer.alpha * x + layer.beta
    return torch.where(line < 0, 0 * x, torch.where(line > 1, 0 * x + 1, line))


def swiglu(layer: Any, x: Tensor) -> Tensor:
    inner, outer = layer.linear_inner, layer.linear_outer
    gate = x @ inner.weight if inner.bias is None else x @ inner.weight + inner.bias
    value = x @ outer.weight if outer.bias is None else x @ outer.weight + outer.bias
    return gate / (1 + (-gate).exp()) * value


def geglu(layer: Any, x: Tensor) -> Tensor:
    """Shazeer 2020, eq. 5, with GELU."""
    gate = x @ layer.linear_inner.weight
    return gate * 0.5 * (1 + torch.erf(gate / 2**0.5)) * (x @ layer.linear_outer.weight)


CASES = [
    Case("Relu", nn.ReluConfig(), values),
    Case("Relu6", nn.Relu6Config(), values),
    Case("LeakyRelu", nn.LeakyReluConfig(), values),
    Case("LeakyRelu/slope", nn.LeakyReluConfig(negative_slope=0.3), values),
    Case("PRelu", nn.PReluConfig(), values),
    Case("PRelu/channels", nn.PReluConfig(num_parameters=3), lambda: (floats(2, 3, 4),), bad_shapes=((2, 4), (3,))),
    Case("RRelu", nn.RReluConfig(), values),
    Case("RRelu/eval", nn.RReluConfig(lower=0.1, upper=0.3), values, train=False),
    Case("RRelu/key", nn.RReluConfig(lower=0.1, upper=0.3), values_with_key, random_slopes),
    Case(
        "ThresholdedRelu",
        nn.ThresholdedReluConfig(),
        values,
        lambda layer, x: torch.where(x > layer.alpha, x, 0 * x),
    ),
    Case("Threshold", nn.ThresholdConfig(threshold=0.7, value=2.0), values),
    Case("Gelu", nn.GeluConfig(), values),
    Case("Gelu/approximate", nn.GeluConfig(approximate=True), values),
    Case("Elu", nn.EluConfig(), values),
    Case("Elu/alpha", nn.EluConfig(alpha=0.5), values),
    Case("Selu", nn.SeluConfig(), values),
    Case("Celu", nn.CeluConfig(), values),
    Case("Celu/alpha", nn.CeluConfig(alpha=2.0), values),
    Case("Softplus", nn.SoftplusConfig(), values),
    Case("Softplus/linear", nn.SoftplusConfig(beta=2.0, threshold=5.0), values),
    Case("SiLU", nn.SiLUConfig(), values),
    Case("Mish", nn.MishConfig(), values),
    Case("HardSwish", nn.HardSwishConfig(), values),
    Case("Sigmoid", nn.SigmoidConfig(), values),
    Case("LogSigmoid", nn.LogSigmoidConfig(), values),
    Case("HardSigmoid", nn.HardSigmoidConfig(), values, hard_sigmoid),
    Case("HardSigmoid/torch", nn.HardSigmoidConfig(alpha=1 / 6, beta=0.5), values),
    Case("Tanh", nn.TanhConfig(), values),
    Case("Hardtanh", nn.HardtanhConfig(), values),
    Case("Hardtanh/bounds", nn.HardtanhConfig(min_val=-0.25, max_val=2.5), values),
    Case("Softsign", nn.SoftsignConfig(), values),
    Case("Tanhshrink", nn.TanhshrinkConfig(), values),
    Case("HardShrink", nn.HardShrinkConfig(lambd=0.75), values),
    Case("SoftShrink", nn.SoftShrinkConfig(lambd=0.75), values),
    Case("Shrink", nn.ShrinkConfig(), values, shrunk),
    Case("Shrink/bias", nn.ShrinkConfig(lambd=0.75, bias=0.25), values, shrunk),
    Case("GLU", nn.GLUConfig(dim=1), values, bad_shapes=((2, 3), (4,))),
    Case("GLU/negative", nn.GLUConfig(dim=-2), values, bad_shapes=((3, 2),)),
    Case("GatedLinear", nn.GatedLinearConfig(d_input=4, d_output=3), lambda: (floats(2, 4),), geglu),
    Case("SwiGlu", nn.SwiGluConfig(d_input=4, d_output=3), lambda: (floats(2, 4),), swiglu),
    Case("SwiGlu/bias", nn.SwiGluConfig(d_input=4, d_output=3, bias=True), lambda: (floats(2, 4),), swiglu),
]
