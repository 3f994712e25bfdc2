"""Functions of layers and losses: linear maps, lookups, normalization, attention; activations; quantization."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class LayerOps(Protocol):
    """Linear maps, lookups, normalization, attention and losses, on Float tensors.

    Functions:
        linear: `[.., d_in], [d_in, d_out], [d_out] -> [.., d_out]`.
        embedding: Rows by their indices, `[n, d], [batch, length] -> [batch, length, d]`.
        attention_fallback: The same by the formula.
        layer_norm: Mean 0 and variance 1 along the last dimension, then gamma and beta: `[.., d], [d], [d] -> [.., d]`.
        batch_norm: (x - mean) / sqrt(variance + epsilon) * gamma + beta; all but x and epsilon are `[channels]`.
        batch_norm_train: Normalized by the batch itself; also its mean and biased variance, `[channels]`, detached.
        ctc_loss: `[t, n, classes], [n, s], [n], [n] -> [n]`, the loss of each sample.
        cross_entropy_with_logits: Minus the mean over rows of sum(log_softmax(logits) * probs) along the last
            dimension, `[1]`.
    """

    def linear(self, tensor: Tensor, weight: Tensor, bias: Tensor | None, /) -> Tensor: ...
    def embedding(self, weights: Tensor, indices: Tensor, /) -> Tensor: ...
    def attention(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        scale: float,
        softcap: float | None,
        is_causal: bool,
        /,
    ) -> Tensor:
        """`[batch, heads, q, d], [batch, heads, k, d], [batch, heads, k, dv] -> [batch, heads, q, dv]`.

        Scores are scaled, capped, hidden where `mask` is True or a key comes after the query (the last query is at the
        last key), then `bias` is added. A query that sees no key gives 0.
        """

    def attention_fallback(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        scale: float,
        softcap: float | None,
        is_causal: bool,
        /,
    ) -> Tensor: ...
    def layer_norm(self, tensor: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, /) -> Tensor: ...
    def batch_norm(
        self, tensor: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, epsilon: float, /
    ) -> Tensor: ...
    def batch_norm_train(
        self, tensor: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, /
    ) -> tuple[Tensor, Tensor, Tensor]: ...
    def ctc_loss(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int, /
    ) -> Tensor: ...
    def cross_entropy_with_logits(self, logits: Tensor, probs: Tensor, /) -> Tensor: ...


class ActivationOps(Protocol):
    """Activation functions, on Float tensors; the result has the input's shape.

    Functions:
        relu: max(x, 0); NaN stays.
        gelu: x * (1 + erf(x / sqrt(2))) / 2.
        gelu_approximate: 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).
        log_sigmoid: log(sigmoid(x)), without overflow.
        hard_swish: x * clamp(x / 6 + 0.5, 0, 1).
        mish: x * tanh(log(1 + e^x)).
        selu: 1.0507009873554805 * elu(x, 1.6732632423543772).
        softsign: x / (1 + |x|).
        tanhshrink: x - tanh(x).
        leaky_relu: x where x >= 0, negative_slope * x elsewhere.
        hard_sigmoid: clamp(alpha * x + beta, 0, 1).
        softplus: log(1 + e^(beta * x)) / beta, and x where beta * x > threshold.
        elu: x where x > 0, alpha * (e^x - 1) elsewhere.
        celu: max(x, 0) + min(0, alpha * (e^(x / alpha) - 1)).
        threshold: x where x > threshold, `value` elsewhere.
        hard_shrink: x where |x| > lambd, 0 elsewhere.
        shrink: x - sign(x) * bias where |x| > lambd, 0 elsewhere.
        soft_shrink: x - sign(x) * lambd where |x| > lambd, 0 elsewhere.
        hardtanh: x, at least `minimum` and at most `maximum`.
        prelu: x where x >= 0, alpha * x elsewhere; alpha `[1]`, or one per channel of `[batch, channels, ..]`.
        softmax: e^x / sum(e^x) along a dimension.
        softmin: softmax(-x) along a dimension.
        log_softmax: log(softmax(x)) along a dimension.
        quiet_softmax: e^x / (1 + sum(e^x)) along a dimension.
        glu: The first half along a dimension times the sigmoid of the second half: that dimension is halved.
    """

    def relu(self, tensor: Tensor, /) -> Tensor: ...
    def gelu(self, tensor: Tensor, /) -> Tensor: ...
    def gelu_approximate(self, tensor: Tensor, /) -> Tensor: ...
    def sigmoid(self, tensor: Tensor, /) -> Tensor: ...
    def log_sigmoid(self, tensor: Tensor, /) -> Tensor: ...
    def silu(self, tensor: Tensor, /) -> Tensor: ...
    def hard_swish(self, tensor: Tensor, /) -> Tensor: ...
    def mish(self, tensor: Tensor, /) -> Tensor: ...
    def selu(self, tensor: Tensor, /) -> Tensor: ...
    def softsign(self, tensor: Tensor, /) -> Tensor: ...
    def tanhshrink(self, tensor: Tensor, /) -> Tensor: ...
    def leaky_relu(self, tensor: Tensor, negative_slope: float, /) -> Tensor: ...
    def hard_sigmoid(self, tensor: Tensor, alpha: float, beta: float, /) -> Tensor: ...
    def softplus(self, tensor: Tensor, beta: float, threshold: float, /) -> Tensor: ...
    def elu(self, tensor: Tensor, alpha: float, /) -> Tensor: ...
    def celu(self, tensor: Tensor, alpha: float, /) -> Tensor: ...
    def threshold(self, tensor: Tensor, threshold: float, value: float, /) -> Tensor: ...
    def hard_shrink(self, tensor: Tensor, lambd: float, /) -> Tensor: ...
    def shrink(self, tensor: Tensor, lambd: float, bias: float, /) -> Tensor: ...
    def soft_shrink(self, tensor: Tensor, lambd: float, /) -> Tensor: ...
    def hardtanh(self, tensor: Tensor, minimum: float, maximum: float, /) -> Tensor: ...
    def prelu(self, tensor: Tensor, alpha: Tensor, /) -> Tensor: ...
    def softmax(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def softmin(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def log_softmax(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def quiet_softmax(self, tensor: Tensor, dim: int, /) -> Tensor: ...
    def glu(self, tensor: Tensor, dim: int, /) -> Tensor: ...


class QuantizationOps(Protocol):
    """Symmetric quantization of Float tensors.

    `block` has one number per dimension, how many elements share a scale there; None where one scale is for all.
    Scales are `[1]`, or `[size // block, ..]`.

    Functions:
        quantization_scales: 2 * max|x| / steps of each block; 0.1 for a block of zeros.
        quantize: x / scale rounded, within low .. high, as int8.
        dequantize: Value * scale, calculated in the scales' dtype.
    """

    def quantization_scales(
        self, tensor: Tensor, block: Sequence[int] | None, steps: int, dtype: torch.dtype, /
    ) -> Tensor: ...
    def quantize(
        self, tensor: Tensor, scales: Tensor, block: Sequence[int] | None, low: int, high: int, /
    ) -> Tensor: ...
    def dequantize(
        self, values: Tensor, scales: Tensor, block: Sequence[int] | None, dtype: torch.dtype, /
    ) -> Tensor: ...
