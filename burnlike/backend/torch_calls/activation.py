"""Activation functions."""

from typing import Any

import torch
from torch import Tensor

from .pointwise import binary
from .tables import Tables, aligned, at_least_1, like_rank, translate, translates


def _activation(name: str, function: str, *defaults: float) -> None:
    @translates(name)
    def activated(t: Tables, tensor: Tensor, *options: Any) -> Tensor:
        x = at_least_1(tensor)
        values = [float(it) for it in (*options, *defaults[len(options) :])]
        return like_rank(t.cast(getattr(t.activation, function)(x, *values), x.dtype), tensor)


for _name, _function, *_defaults in (
    ("relu", "relu"),
    ("sigmoid", "sigmoid"),
    ("silu", "silu"),
    ("mish", "mish"),
    ("hardswish", "hard_swish"),
    ("selu", "selu"),
    ("leaky_relu", "leaky_relu", 0.01),
    ("celu", "celu", 1.0),
    ("softplus", "softplus", 1.0, 20.0),
    ("hardtanh", "hardtanh", -1.0, 1.0),
    ("threshold", "threshold"),
    ("hardshrink", "hard_shrink", 0.5),
    ("softshrink", "soft_shrink", 0.5),
):
    _activation(_name, _function, *_defaults)
translate(
    hardsigmoid=lambda t, x: like_rank(t.activation.hard_sigmoid(at_least_1(x), 1 / 6, 0.5), x),
    glu=lambda t, x, dim=-1: t.activation.glu(x, dim),
    _softmax=lambda t, x, dim, half_to_float=False: _softmax(t, "softmax", x, dim, half_to_float),
    _log_softmax=lambda t, x, dim, half_to_float=False: _softmax(t, "log_softmax", x, dim, half_to_float),
)


@translates("gelu")
def gelu(t: Tables, tensor: Tensor, *, approximate: str = "none") -> Tensor:
    function = t.activation.gelu if approximate == "none" else t.activation.gelu_approximate
    return like_rank(function(at_least_1(tensor)), tensor)


@translates("elu")
def elu(t: Tables, tensor: Tensor, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Tensor:
    x = at_least_1(tensor)
    if input_scale == 1:
        result = t.activation.elu(x, float(alpha))
    else:  # alpha (e^(s x) - 1) below 0: celu has it for one alpha only
        below = t.float.mul(t.activation.elu(t.float.mul(x, float(input_scale)), 1.0), float(alpha))
        result = t.float.mask_where(below, t.float.greater(x, 0.0), x)
    return like_rank(result if scale == 1 else t.float.mul(result, float(scale)), tensor)


@translates("log_sigmoid_forward")
def log_sigmoid_forward(t: Tables, tensor: Tensor) -> tuple[Tensor, Tensor]:
    return like_rank(t.activation.log_sigmoid(at_least_1(tensor)), tensor), tensor.new_empty(0)


@translates("_prelu_kernel")
def prelu(t: Tables, tensor: Tensor, weight: Tensor) -> Tensor:
    if weight.numel() == 1 or (tensor.ndim > 1 and weight.numel() == tensor.shape[1]):
        return like_rank(t.activation.prelu(at_least_1(tensor), t.reshape(weight, [weight.numel()])), tensor)
    (x, scaled), _ = aligned(t, tensor.dtype, tensor, binary(t, "mul", tensor, weight))
    return like_rank(t.float.mask_where(scaled, t.float.greater_equal(x, 0.0), x), tensor)


def _softmax(t: Tables, function: str, tensor: Tensor, dim: int, half_to_float: bool) -> Tensor:
    x = t.cast(at_least_1(tensor), torch.float32) if half_to_float else at_least_1(tensor)
    return like_rank(getattr(t.activation, function)(x, dim), tensor)
