"""Functions of layers and losses: linear maps, lookups, normalization, attention; activations; quantization."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._torch_compat.dispatch import ctc_losses
from ...ops import matmul
from .arithmetic import TorchArithmeticOps
from .creation import TorchCreationOps, fitted


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
        ...

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


class TorchLayerOps:
    """Implements `LayerOps`."""

    embedding: Any = staticmethod(lambda weights, indices, /: F.embedding(indices, weights))

    @staticmethod
    def linear(tensor: Tensor, weight: Tensor, bias: Tensor | None, /) -> Tensor:
        if bias is None:
            return torch.matmul(tensor, weight)
        return torch.addmm(bias, tensor, weight) if tensor.ndim == 2 else F.linear(tensor, weight.t(), bias)

    @staticmethod
    def layer_norm(tensor: Tensor, gamma: Tensor, beta: Tensor | None, epsilon: float, /) -> Tensor:
        return torch.layer_norm(tensor, gamma.shape, gamma, beta, epsilon)

    @staticmethod
    def batch_norm(
        tensor: Tensor, gamma: Tensor, beta: Tensor, mean: Tensor, variance: Tensor, epsilon: float, /
    ) -> Tensor:
        if mean.requires_grad or variance.requires_grad:  # torch.batch_norm has no gradient for them
            shape = [1, -1, *[1] * (tensor.ndim - 2)]
            scale = gamma * torch.rsqrt(variance + epsilon)
            return (tensor - mean.reshape(shape)) * scale.reshape(shape) + beta.reshape(shape)
        return torch.batch_norm(tensor, gamma, beta, mean, variance, False, 0.0, epsilon, torch.backends.cudnn.enabled)

    @staticmethod
    def batch_norm_train(
        tensor: Tensor, gamma: Tensor, beta: Tensor, epsilon: float, /
    ) -> tuple[Tensor, Tensor, Tensor]:
        out = torch.batch_norm(tensor, gamma, beta, None, None, True, 0.0, epsilon, torch.backends.cudnn.enabled)
        dims = [0, *range(2, tensor.ndim)]
        detached = tensor.detach()
        # Not torch.var_mean: its mean beside an infinity is NaN.
        return out, torch.mean(detached, dims), torch.var(detached, dims, correction=0)

    @staticmethod
    def ctc_loss(
        log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int, /
    ) -> Tensor:
        labels = targets.to(log_probs.device, torch.int64)
        return ctc_losses(log_probs, labels, input_lengths, target_lengths, blank, True)[0]

    @staticmethod
    def cross_entropy_with_logits(logits: Tensor, probs: Tensor, /) -> Tensor:
        return -(torch.log_softmax(logits, -1) * probs).sum(-1).mean().reshape(1)

    @staticmethod
    def attention(
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
        if softcap is not None:
            return TorchLayerOps.attention_fallback(query, key, value, mask, bias, scale, softcap, is_causal)
        if mask is None and bias is None and (not is_causal or query.shape[2] == key.shape[2]):
            return F.scaled_dot_product_attention(query, key, value, is_causal=is_causal, scale=scale)
        hidden = _hidden(mask, query, key, is_causal)
        if hidden is None:
            return F.scaled_dot_product_attention(query, key, value, bias, scale=scale)
        # Kernels differ in rows that see nothing, and in their gradients: such rows see all and are set to 0.
        blind = hidden.all(-1, keepdim=True)
        hidden = hidden & ~blind
        seen = ~hidden if bias is None else bias.masked_fill(hidden, -torch.inf)
        return F.scaled_dot_product_attention(query, key, value, seen, scale=scale).masked_fill(blind, 0.0)

    @staticmethod
    def attention_fallback(
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
        scores = matmul(query, key.transpose(-2, -1)) * scale
        if softcap is not None:
            scores = torch.tanh(scores / softcap) * softcap
        hidden = _hidden(mask, query, key, is_causal)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        if bias is not None:
            scores = scores + bias
        blind = scores.detach().amax(-1, True) == -torch.inf
        weights = torch.softmax(scores.masked_fill(blind, 0.0), -1).masked_fill(blind, 0.0)
        return matmul(weights.to(value.dtype), value)


def _hidden(mask: Tensor | None, query: Tensor, key: Tensor, is_causal: bool) -> Tensor | None:
    """True where a query does not see a key, of a shape that broadcasts to the scores; None where all is seen."""
    if not is_causal:
        return mask
    rows, columns = query.shape[2], key.shape[2]
    later = torch.ones(rows, columns, dtype=torch.bool, device=query.device).triu(columns - rows + 1)
    return later if mask is None else mask | later


_LARGEST_HALF = 65504.0


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


class TorchActivationOps:
    """Implements `ActivationOps`."""

    relu: Any = staticmethod(Tensor.relu)
    leaky_relu: Any = staticmethod(fitted(F.leaky_relu))
    gelu: Any = staticmethod(F.gelu)
    sigmoid: Any = staticmethod(Tensor.sigmoid)
    log_sigmoid: Any = staticmethod(F.logsigmoid)
    silu: Any = staticmethod(F.silu)
    hard_swish: Any = staticmethod(F.hardswish)
    mish: Any = staticmethod(F.mish)
    softplus: Any = staticmethod(fitted(F.softplus))
    elu: Any = staticmethod(fitted(F.elu))
    celu: Any = staticmethod(fitted(torch.celu))
    selu: Any = staticmethod(torch.selu)
    prelu: Any = staticmethod(Tensor.prelu)
    threshold: Any = staticmethod(fitted(torch.threshold))
    softsign: Any = staticmethod(F.softsign)
    tanhshrink: Any = staticmethod(F.tanhshrink)
    hard_shrink: Any = staticmethod(fitted(Tensor.hardshrink))
    # Not F.hardtanh: clamp passes the gradient at the bounds, as Burn does.
    hardtanh: Any = staticmethod(TorchArithmeticOps.clamp)
    softmax: Any = staticmethod(Tensor.softmax)
    log_softmax: Any = staticmethod(Tensor.log_softmax)
    glu: Any = staticmethod(F.glu)
    gelu_approximate: Any = staticmethod(lambda tensor, /: F.gelu(tensor, approximate="tanh"))
    softmin: Any = staticmethod(lambda tensor, dim, /: torch.softmax(-tensor, dim))

    @staticmethod
    def hard_sigmoid(tensor: Tensor, alpha: float, beta: float, /) -> Tensor:
        return torch.clamp(tensor * alpha + beta, 0.0, 1.0)

    @staticmethod
    def shrink(tensor: Tensor, lambd: float, bias: float, /) -> Tensor:
        return torch.where(tensor.abs() <= lambd, 0.0, tensor - tensor.sign() * bias)

    @staticmethod
    def soft_shrink(tensor: Tensor, lambd: float, /) -> Tensor:
        # torch refuses a negative lambd and one beyond the element type's range, Burn does not.
        if 0.0 <= lambd <= _LARGEST_HALF:
            return F.softshrink(tensor, lambd)
        return TorchActivationOps.shrink(tensor, lambd, lambd)

    @staticmethod
    def quiet_softmax(tensor: Tensor, dim: int, /) -> Tensor:
        if tensor.shape[dim] == 0:
            return torch.softmax(tensor, dim)
        # Any shift gives the same value; one of at least 0 never overflows, also where all are -inf.
        shift = tensor.detach().amax(dim, True).clamp(min=0.0)
        powers = torch.exp(tensor - shift)
        return powers / (powers.sum(dim, True) + torch.exp(-shift))


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


class TorchQuantizationOps:
    """Implements `QuantizationOps`."""

    @staticmethod
    def quantization_scales(tensor: Tensor, block: Sequence[int] | None, steps: int, dtype: torch.dtype, /) -> Tensor:
        magnitude = tensor.detach().to(dtype).abs()
        if block is None:
            largest = magnitude.amax().reshape(1)
        else:
            largest = _blocks(magnitude, block).amax(list(range(1, 2 * len(block), 2)))
        scales = largest * 2 / steps
        return torch.where(scales == 0, 0.1, scales)

    @staticmethod
    def quantize(tensor: Tensor, scales: Tensor, block: Sequence[int] | None, low: int, high: int, /) -> Tensor:
        # Times 1 / scale, and ties away from zero, as in Burn: twice what follows the point is -1, 0 or 1 and a rest.
        scaled = (tensor.detach().to(scales.dtype) * (1 / _spread(scales, block, tensor.shape))).clamp(low, high)
        whole = scaled.trunc()
        return TorchCreationOps.cast(whole + ((scaled - whole) * 2).trunc(), torch.int8)

    @staticmethod
    def dequantize(values: Tensor, scales: Tensor, block: Sequence[int] | None, dtype: torch.dtype, /) -> Tensor:
        return (values * _spread(scales, block, values.shape)).to(dtype)


def _blocks(tensor: Tensor, block: Sequence[int]) -> Tensor:
    """`[n, ..] -> [n // block, block, ..]`."""
    return tensor.reshape(
        [part for size, each in zip(tensor.shape, block, strict=True) for part in (size // each, each)]
    )


def _spread(scales: Tensor, block: Sequence[int] | None, shape: Sequence[int]) -> Tensor:
    """The scale of each element, in a shape that broadcasts against `shape`."""
    if block is None:
        return scales.reshape([1] * len(shape))
    parts = [size // each for size, each in zip(shape, block, strict=True)]
    wide = scales.reshape([size for part in parts for size in (part, 1)])
    return wide.expand([size for pair in zip(parts, block, strict=True) for size in pair]).reshape(list(shape))
