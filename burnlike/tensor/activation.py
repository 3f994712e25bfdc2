"""Activation functions: each takes a Float tensor and gives a new one."""

import torch

from ..errors import TensorValueError
from .core import templates
from .core.arguments import axis
from .core.base import B2, E, FloatLike, Tensor, like, wrap
from .core.dtypes import largest_exponent
from .core.kinds import D1, Float
from .core.operands import computed, float_spec, inner_of
from .core.table import Family, functions

OF_X = Family(
    templates.activation,
    "(x: Tensor[B2, E, Float]) -> Tensor[B2, E, Float]",
    {
        "relu": "The larger of x and 0; NaN stays. Torch: `F.relu`.",
        "gelu": "Gaussian error linear unit, x * (1 + erf(x / sqrt(2))) / 2. Torch: `F.gelu`.",
        "gelu_approximate": "0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."
        ' Torch: `F.gelu(x, approximate="tanh")`.',
        "sigmoid": "1 / (1 + e^-x). Torch: `torch.sigmoid`.",
        "log_sigmoid": "Logarithm of the sigmoid, without overflow. Torch: `F.logsigmoid`.",
        "silu": "x * sigmoid(x). Torch: `F.silu`.",
        "hard_swish": "x * clamp(x / 6 + 0.5, 0, 1). Torch: `F.hardswish`.",
        "mish": "x * tanh(softplus(x)). Torch: `F.mish`.",
        "selu": "Scaled ELU of Klambauer et al. 2017. Torch: `F.selu`.",
        "softsign": "x / (1 + |x|). Torch: `F.softsign`.",
        "tanhshrink": "x - tanh(x). Torch: `F.tanhshrink`.",
    },
    shapes="`[..] -> [..]`",
)
ALONG = Family(
    templates.activation_along,
    "(x: Tensor[B2, E, Float], dim: int) -> Tensor[B2, E, Float]",
    {
        "softmax": "e^x / sum(e^x) along a dimension. Torch: `F.softmax`. Differs: `dim` has no default.",
        "softmin": "softmax(-x) along a dimension. Torch: `F.softmin`. Differs: `dim` has no default.",
        "log_softmax": "The log of softmax along a dimension. Torch: `F.log_softmax`. Differs: `dim` has no default.",
        "quiet_softmax": "e^x / (1 + sum(e^x)) along a dimension: all weights can be near 0. Torch: none.",
    },
    shapes="`[..] -> [..]`",
)

functions(__name__, OF_X, ALONG)


def tanh(x: "Tensor[B2, E, Float]") -> "Tensor[B2, E, Float]":
    """Hyperbolic tangent. `[..] -> [..]`. Torch: `torch.tanh`."""
    spec = float_spec("tanh", x)
    return wrap(spec.ops.tanh(x.inner), spec)


def relu6(x: "Tensor[B2, E, Float]") -> "Tensor[B2, E, Float]":
    """x, at least 0 and at most 6. `[..] -> [..]`. Torch: `F.relu6`. Differs: the gradient at 0 and 6 is 1."""
    spec = float_spec("relu6", x)
    return wrap(spec.activation.hardtanh(x.inner, 0.0, 6.0), spec)


def leaky_relu(x: "Tensor[B2, E, Float]", negative_slope: float) -> "Tensor[B2, E, Float]":
    """x where x >= 0, else negative_slope * x. `[..] -> [..]`. Torch: `F.leaky_relu`.
    Differs: the slope has no default.
    """
    spec = float_spec("leaky_relu", x)
    return wrap(spec.activation.leaky_relu(x.inner, negative_slope), spec)


def prelu(x: "Tensor[B2, E, Float]", alpha: "FloatLike[B2, D1]") -> "Tensor[B2, E, Float]":
    """x where x >= 0, alpha * x elsewhere. `[batch, channels, ..], [1 or channels] -> [batch, channels, ..]`.
    Torch: `F.prelu`. Raises TensorValueError: neither 1 weight nor one for each channel.
    """
    spec = float_spec("prelu", x)
    weights = inner_of("prelu", alpha, spec.ranks[1])
    count, shape = weights.shape[0], x.inner.shape
    channels = shape[1] if spec.rank > 1 else 1
    if count != 1 and count != channels:  # `in` would not find the sizes that torch.compile traces
        raise TensorValueError(
            "Prelu", f"expected 1 weight or one for each of the {channels} channels (dimension 1), got {count}"
        )
    return like(computed("prelu", spec.activation.prelu, x.inner, weights), spec)


def hard_sigmoid(x: "Tensor[B2, E, Float]", alpha: float, beta: float) -> "Tensor[B2, E, Float]":
    """alpha * x + beta, at least 0 and at most 1. `[..] -> [..]`. Torch: `F.hardsigmoid` with alpha 1/6 and beta 0.5.
    Differs: alpha and beta are given.
    """
    spec = float_spec("hard_sigmoid", x)
    return wrap(spec.activation.hard_sigmoid(x.inner, alpha, beta), spec)


def softplus(x: "Tensor[B2, E, Float]", beta: float) -> "Tensor[B2, E, Float]":
    """log(1 + e^(beta * x)) / beta, and x where beta * x > 20. `[..] -> [..]`. Torch: `F.softplus`.
    Differs: the threshold is at most what the element type can hold, see `softplus_with_threshold`.
    """
    spec = float_spec("softplus", x)
    threshold = 11.0 if spec.dtype is torch.float16 else 20.0
    return like(spec.activation.softplus(x.inner, beta, threshold), spec)


def softplus_with_threshold(x: "Tensor[B2, E, Float]", beta: float, threshold: float) -> "Tensor[B2, E, Float]":
    """log(1 + e^(beta * x)) / beta, and x where beta * x > threshold. `[..] -> [..]`. Torch: `F.softplus`.
    Differs: the threshold is lowered to 11 (float16), 88 (float32, bfloat16), 709 (float64): there e^x overflows.
    """
    spec = float_spec("softplus", x)
    threshold = min(threshold, largest_exponent(spec.dtype))
    return like(spec.activation.softplus(x.inner, beta, threshold), spec)


def elu(x: "Tensor[B2, E, Float]", alpha: float) -> "Tensor[B2, E, Float]":
    """x where x > 0, alpha * (e^x - 1) elsewhere. `[..] -> [..]`. Torch: `F.elu`. Differs: alpha has no default."""
    spec = float_spec("elu", x)
    return wrap(spec.activation.elu(x.inner, alpha), spec)


def celu(x: "Tensor[B2, E, Float]", alpha: float) -> "Tensor[B2, E, Float]":
    """max(x, 0) + min(0, alpha * (e^(x / alpha) - 1)). `[..] -> [..]`. Torch: `F.celu`.
    Differs: alpha has no default.
    """
    spec = float_spec("celu", x)
    if alpha == 0:
        raise TensorValueError("Celu", "expected an alpha other than 0: x is divided by it")
    return wrap(spec.activation.celu(x.inner, alpha), spec)


def threshold(x: "Tensor[B2, E, Float]", threshold: float, value: float) -> "Tensor[B2, E, Float]":
    """x where x > threshold, `value` elsewhere. `[..] -> [..]`. Torch: `F.threshold`."""
    spec = float_spec("threshold", x)
    return wrap(spec.activation.threshold(x.inner, threshold, value), spec)


def thresholded_relu(x: "Tensor[B2, E, Float]", alpha: float) -> "Tensor[B2, E, Float]":
    """x where x > alpha, 0 elsewhere. `[..] -> [..]`. Torch: `F.threshold(x, alpha, 0)`."""
    spec = float_spec("thresholded_relu", x)
    return wrap(spec.activation.threshold(x.inner, alpha, 0.0), spec)


def hardtanh(x: "Tensor[B2, E, Float]", min: float, max: float) -> "Tensor[B2, E, Float]":
    """x, at least `min` and at most `max`. `[..] -> [..]`. Torch: `F.hardtanh`.
    Differs: the gradient at the bounds is 1; where min > max the minimum wins.
    """
    spec = float_spec("hardtanh", x)
    return wrap(spec.activation.hardtanh(x.inner, min, max), spec)


def hard_shrink(x: "Tensor[B2, E, Float]", lambd: float) -> "Tensor[B2, E, Float]":
    """x where |x| > lambd, 0 elsewhere. `[..] -> [..]`. Torch: `F.hardshrink`. Differs: lambd has no default."""
    spec = float_spec("hard_shrink", x)
    return wrap(spec.activation.hard_shrink(x.inner, lambd), spec)


def soft_shrink(x: "Tensor[B2, E, Float]", lambd: float) -> "Tensor[B2, E, Float]":
    """x moved by lambd towards 0, at most to 0. `[..] -> [..]`. Torch: `F.softshrink`.
    Differs: lambd has no default.
    """
    spec = float_spec("soft_shrink", x)
    return wrap(spec.activation.soft_shrink(x.inner, lambd), spec)


def shrink(x: "Tensor[B2, E, Float]", lambd: float, bias: float) -> "Tensor[B2, E, Float]":
    """x - sign(x) * bias where |x| > lambd, 0 elsewhere. `[..] -> [..]`. Torch: none."""
    spec = float_spec("shrink", x)
    return wrap(spec.activation.shrink(x.inner, lambd, bias), spec)


def glu(x: "Tensor[B2, E, Float]", dim: int) -> "Tensor[B2, E, Float]":
    """The first half along a dimension times the sigmoid of the second. `[.., 2n, ..] -> [.., n, ..]`. Torch: `F.glu`.
    Differs: `dim` has no default. Raises TensorValueError: the size of the dimension is odd.
    """
    spec = float_spec("glu", x)
    dim = axis("Glu", dim, spec.rank)
    size = x.inner.shape[dim]
    if size % 2:
        raise TensorValueError("Glu", f"expected an even size of dimension {dim}, got {size}: it is cut in halves")
    return wrap(spec.activation.glu(x.inner, dim), spec)
