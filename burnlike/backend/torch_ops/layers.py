"""`LayerOps`, in torch."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention import attention, attention_fallback


class TorchLayerOps:
    """Implements `LayerOps`."""

    attention: Any = staticmethod(attention)
    attention_fallback: Any = staticmethod(attention_fallback)

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
        variance, mean = torch.var_mean(tensor.detach(), dims, correction=0)
        return out, mean, variance

    @staticmethod
    def ctc_loss(
        log_probs: Tensor, targets: Tensor, input_lengths: Tensor, target_lengths: Tensor, blank: int, /
    ) -> Tensor:
        return F.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, reduction="none")

    @staticmethod
    def cross_entropy_with_logits(logits: Tensor, probs: Tensor, /) -> Tensor:
        return -(torch.log_softmax(logits, -1) * probs).sum(-1).mean().reshape(1)
