# Written by `make docs` from activation.py (tools/tensor_stubs.py): do not edit.
# pyright: reportIncompatibleMethodOverride=false
"""Activation functions: each takes a Float tensor and gives a new one."""

from .core.base import B2, E, FloatLike
from .core.kinds import D1, Float
from .tensor import Tensor

def relu(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """The larger of x and 0; NaN stays. `[..] -> [..]`. Torch: `F.relu`."""

def gelu(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """Gaussian error linear unit, x * (1 + erf(x / sqrt(2))) / 2. `[..] -> [..]`. Torch: `F.gelu`."""

def gelu_approximate(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))). `[..] -> [..]`.
    Torch: `F.gelu(x, approximate="tanh")`.
    """

def sigmoid(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """1 / (1 + e^-x). `[..] -> [..]`. Torch: `torch.sigmoid`."""

def log_sigmoid(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """Logarithm of the sigmoid, without overflow. `[..] -> [..]`. Torch: `F.logsigmoid`."""

def silu(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """x * sigmoid(x). `[..] -> [..]`. Torch: `F.silu`."""

def hard_swish(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """x * clamp(x / 6 + 0.5, 0, 1). `[..] -> [..]`. Torch: `F.hardswish`."""

def mish(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """x * tanh(softplus(x)). `[..] -> [..]`. Torch: `F.mish`."""

def selu(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """Scaled ELU of Klambauer et al. 2017. `[..] -> [..]`. Torch: `F.selu`."""

def softsign(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """x / (1 + |x|). `[..] -> [..]`. Torch: `F.softsign`."""

def tanhshrink(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """x - tanh(x). `[..] -> [..]`. Torch: `F.tanhshrink`."""

def softmax(x: Tensor[B2, E, Float], dim: int) -> Tensor[B2, E, Float]:
    """e^x / sum(e^x) along a dimension. `[..] -> [..]`.
    Torch: `F.softmax`. Differs: `dim` has no default.
    """

def softmin(x: Tensor[B2, E, Float], dim: int) -> Tensor[B2, E, Float]:
    """softmax(-x) along a dimension. `[..] -> [..]`. Torch: `F.softmin`. Differs: `dim` has no default."""

def log_softmax(x: Tensor[B2, E, Float], dim: int) -> Tensor[B2, E, Float]:
    """The log of softmax along a dimension. `[..] -> [..]`.
    Torch: `F.log_softmax`. Differs: `dim` has no default.
    """

def quiet_softmax(x: Tensor[B2, E, Float], dim: int) -> Tensor[B2, E, Float]:
    """e^x / (1 + sum(e^x)) along a dimension: all weights can be near 0. `[..] -> [..]`. Torch: none."""

def tanh(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """Hyperbolic tangent. `[..] -> [..]`. Torch: `torch.tanh`."""

def relu6(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]:
    """x, at least 0 and at most 6. `[..] -> [..]`. Torch: `F.relu6`. Differs: the gradient at 0 and 6 is 1."""

def leaky_relu(x: Tensor[B2, E, Float], negative_slope: float) -> Tensor[B2, E, Float]:
    """x where x >= 0, else negative_slope * x. `[..] -> [..]`. Torch: `F.leaky_relu`.
    Differs: the slope has no default.
    """

def prelu(x: Tensor[B2, E, Float], alpha: FloatLike[B2, D1]) -> Tensor[B2, E, Float]:
    """x where x >= 0, alpha * x elsewhere. `[batch, channels, ..], [1 or channels] -> [batch, channels, ..]`.
    Torch: `F.prelu`. Raises TensorValueError: neither 1 weight nor one for each channel.
    """

def hard_sigmoid(x: Tensor[B2, E, Float], alpha: float, beta: float) -> Tensor[B2, E, Float]:
    """alpha * x + beta, at least 0 and at most 1. `[..] -> [..]`. Torch: `F.hardsigmoid` with alpha 1/6 and beta
    0.5.
    Differs: alpha and beta are given.
    """

def softplus(x: Tensor[B2, E, Float], beta: float) -> Tensor[B2, E, Float]:
    """log(1 + e^(beta * x)) / beta, and x where beta * x > 20. `[..] -> [..]`. Torch: `F.softplus`.
    Differs: the threshold is at most what the element type can hold, see `softplus_with_threshold`.
    """

def softplus_with_threshold(x: Tensor[B2, E, Float], beta: float, threshold: float) -> Tensor[B2, E, Float]:
    """log(1 + e^(beta * x)) / beta, and x where beta * x > threshold. `[..] -> [..]`. Torch: `F.softplus`.
    Differs: the threshold is lowered to 11 (float16), 88 (float32, bfloat16), 709 (float64): there e^x overflows.
    """

def elu(x: Tensor[B2, E, Float], alpha: float) -> Tensor[B2, E, Float]:
    """x where x > 0, alpha * (e^x - 1) elsewhere. `[..] -> [..]`. Torch: `F.elu`. Differs: alpha has no default."""

def celu(x: Tensor[B2, E, Float], alpha: float) -> Tensor[B2, E, Float]:
    """max(x, 0) + min(0, alpha * (e^(x / alpha) - 1)). `[..] -> [..]`. Torch: `F.celu`.
    Differs: alpha has no default.
    """

def threshold(x: Tensor[B2, E, Float], threshold: float, value: float) -> Tensor[B2, E, Float]:
    """x where x > threshold, `value` elsewhere. `[..] -> [..]`. Torch: `F.threshold`."""

def thresholded_relu(x: Tensor[B2, E, Float], alpha: float) -> Tensor[B2, E, Float]:
    """x where x > alpha, 0 elsewhere. `[..] -> [..]`. Torch: `F.threshold(x, alpha, 0)`."""

def hardtanh(x: Tensor[B2, E, Float], min: float, max: float) -> Tensor[B2, E, Float]:
    """x, at least `min` and at most `max`. `[..] -> [..]`. Torch: `F.hardtanh`.
    Differs: the gradient at the bounds is 1; where min > max the minimum wins.
    """

def hard_shrink(x: Tensor[B2, E, Float], lambd: float) -> Tensor[B2, E, Float]:
    """x where |x| > lambd, 0 elsewhere. `[..] -> [..]`. Torch: `F.hardshrink`. Differs: lambd has no default."""

def soft_shrink(x: Tensor[B2, E, Float], lambd: float) -> Tensor[B2, E, Float]:
    """x moved by lambd towards 0, at most to 0. `[..] -> [..]`. Torch: `F.softshrink`.
    Differs: lambd has no default.
    """

def shrink(x: Tensor[B2, E, Float], lambd: float, bias: float) -> Tensor[B2, E, Float]:
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere. `[..] -> [..]`. Torch: none."""

def glu(x: Tensor[B2, E, Float], dim: int) -> Tensor[B2, E, Float]:
    """The first half along a dimension times the sigmoid of the second. `[.., 2n, ..] -> [.., n, ..]`. Torch:
    `F.glu`.
    Differs: `dim` has no default. Raises TensorValueError: the size of the dimension is odd.
    """
