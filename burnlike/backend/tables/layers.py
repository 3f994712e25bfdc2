"""Functions of layers and losses: linear maps, lookups, normalization, attention; activations; quantization."""

# pyright: reportReturnType=false

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor


class LayerOps(Protocol):
    """Linear maps, lookups, normalization, attention and losses, on Float tensors."""

    def linear(self, tensor: Tensor, weight: Tensor, bias: Tensor | None, /) -> Tensor:
        """`[.., d_in], [d_in, d_out], [d_out] -> [.., d_out]`."""

    def embedding(self, weights: Tensor, indices: Tensor, /) -> Tensor:
        """Rows by their indices, `[n, d], [batch, length] -> [batch, length, d]`."""

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
    ) -> Tensor:
        """The same by the formula."""

    def layer_norm(self, tensor: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, /) -> Tensor:
        """Mean 0 and variance 1 along the last dimension, then gamma and beta: `[.., d], [d], [d] -> [.., d]`."""

    def batch_norm(
        self, tensor: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, epsilon: float, /
    ) -> Tensor:
        """(x - mean) / sqrt(variance + epsilon) * gamma + beta; all but x and epsilon are `[channels]`."""

    def batch_norm_train(
        self, tensor: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, /
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Normalized by the batch itself; also its mean and biased variance, `[channels]`, detached."""

    def ctc_loss(
        self, log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int, /
    ) -> Tensor:
        """`[t, n, classes], [n, s], [n], [n] -> [n]`, the loss of each sample."""

    def cross_entropy_with_logits(self, logits: Tensor, probs: Tensor, /) -> Tensor:
        """Minus the mean over rows of sum(log_softmax(logits) * probs) along the last dimension, `[1]`."""


class ActivationOps(Protocol):
    """Activation functions, on Float tensors; the result has the input's shape."""

    def relu(self, tensor: Tensor, /) -> Tensor:
        """max(x, 0); NaN stays."""

    def gelu(self, tensor: Tensor, /) -> Tensor:
        """x * (1 + erf(x / sqrt(2))) / 2."""

    def gelu_approximate(self, tensor: Tensor, /) -> Tensor:
        """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""

    def sigmoid(self, tensor: Tensor, /) -> Tensor: ...
    def log_sigmoid(self, tensor: Tensor, /) -> Tensor:
        """log(sigmoid(x)), without overflow."""

    def silu(self, tensor: Tensor, /) -> Tensor: ...
    def hard_swish(self, tensor: Tensor, /) -> Tensor:
        """x * clamp(x / 6 + 0.5, 0, 1)."""

    def mish(self, tensor: Tensor, /) -> Tensor:
        """x * tanh(log(1 + e^x))."""

    def selu(self, tensor: Tensor, /) -> Tensor:
        """1.0507009873554805 * elu(x, 1.6732632423543772)."""

    def softsign(self, tensor: Tensor, /) -> Tensor:
        """x / (1 + |x|)."""

    def tanhshrink(self, tensor: Tensor, /) -> Tensor:
        """x - tanh(x)."""

    def leaky_relu(self, tensor: Tensor, negative_slope: float, /) -> Tensor:
        """x where x >= 0, negative_slope * x elsewhere."""

    def hard_sigmoid(self, tensor: Tensor, alpha: float, beta: float, /) -> Tensor:
        """clamp(alpha * x + beta, 0, 1)."""

    def softplus(self, tensor: Tensor, beta: float, threshold: float, /) -> Tensor:
        """log(1 + e^(beta * x)) / beta, and x where beta * x > threshold."""

    def elu(self, tensor: Tensor, alpha: float, /) -> Tensor:
        """x where x > 0, alpha * (e^x - 1) elsewhere."""

    def celu(self, tensor: Tensor, alpha: float, /) -> Tensor:
        """max(x, 0) + min(0, alpha * (e^(x / alpha) - 1))."""

    def threshold(self, tensor: Tensor, threshold: float, value: float, /) -> Tensor:
        """x where x > threshold, `value` elsewhere."""

    def hard_shrink(self, tensor: Tensor, lambd: float, /) -> Tensor:
        """x where |x| > lambd, 0 elsewhere."""

    def shrink(self, tensor: Tensor, lambd: float, bias: float, /) -> Tensor:
        """x - sign(x) * bias where |x| > lambd, 0 elsewhere."""

    def soft_shrink(self, tensor: Tensor, lambd: float, /) -> Tensor:
        """x - sign(x) * lambd where |x| > lambd, 0 elsewhere."""

    def hardtanh(self, tensor: Tensor, minimum: float, maximum: float, /) -> Tensor:
        """x, at least `minimum` and at most `maximum`."""

    def prelu(self, tensor: Tensor, alpha: Tensor, /) -> Tensor:
        """x where x >= 0, alpha * x elsewhere; alpha `[1]`, or one per channel of `[batch, channels, ..]`."""

    def softmax(self, tensor: Tensor, dim: int, /) -> Tensor:
        """e^x / sum(e^x) along a dimension."""

    def softmin(self, tensor: Tensor, dim: int, /) -> Tensor:
        """softmax(-x) along a dimension."""

    def log_softmax(self, tensor: Tensor, dim: int, /) -> Tensor:
        """log(softmax(x)) along a dimension."""

    def quiet_softmax(self, tensor: Tensor, dim: int, /) -> Tensor:
        """e^x / (1 + sum(e^x)) along a dimension."""

    def glu(self, tensor: Tensor, dim: int, /) -> Tensor:
        """The first half along a dimension times the sigmoid of the second half: that dimension is halved."""


class QuantizationOps(Protocol):
    """Symmetric quantization of Float tensors.

    `block` has one number per dimension, how many elements share a scale there; None where one scale is for all.
    Scales are `[1]`, or `[size // block, ..]`.
    """

    def quantization_scales(
        self, tensor: Tensor, block: Sequence[int] | None, steps: int, dtype: torch.dtype, /
    ) -> Tensor:
        """2 * max|x| / steps of each block; 0.1 for a block of zeros."""

    def quantize(self, tensor: Tensor, scales: Tensor, block: Sequence[int] | None, low: int, high: int, /) -> Tensor:
        """x / scale rounded, within low .. high, as int8."""

    def dequantize(self, values: Tensor, scales: Tensor, block: Sequence[int] | None, dtype: torch.dtype, /) -> Tensor:
        """Value * scale, calculated in the scales' dtype."""
