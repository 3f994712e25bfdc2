"""Functions of layers, activations, quantization, in torch. Attention by torch's fused kernels where they can."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ..._torch_compat.dispatch import ctc_losses
from ...ops import matmul
from .arithmetic import TorchArithmeticOps
from .creation import TorchCreationOps, fitted


class TorchLayerOps:
    """Implements `LayerOps`."""

    @staticmethod
    def linear(tensor: Tensor, weight: Tensor, bias: Tensor | None, /) -> Tensor:
        if bias is None:
            return torch.matmul(tensor, weight)
        return torch.addmm(bias, tensor, weight) if tensor.ndim == 2 else F.linear(tensor, weight.t(), bias)

    @staticmethod
    def embedding(weights: Tensor, indices: Tensor, /) -> Tensor:
        return F.embedding(indices, weights)

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

    @staticmethod
    def gelu_approximate(tensor: Tensor, /) -> Tensor:
        return F.gelu(tensor, approximate="tanh")

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
    def softmin(tensor: Tensor, dim: int, /) -> Tensor:
        return torch.softmax(-tensor, dim)

    @staticmethod
    def quiet_softmax(tensor: Tensor, dim: int, /) -> Tensor:
        if tensor.shape[dim] == 0:
            return torch.softmax(tensor, dim)
        # Any shift gives the same value; one of at least 0 never overflows, also where all are -inf.
        shift = tensor.detach().amax(dim, True).clamp(min=0.0)
        powers = torch.exp(tensor - shift)
        return powers / (powers.sum(dim, True) + torch.exp(-shift))


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
