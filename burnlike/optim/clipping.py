"""Clipping of gradients, without a transfer to the host."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ConfigError
from ..module.wrappers import is_distributed
from .clipping_config import ClipByGlobalNorm, ClipByNorm, ClipByValue, GradientClipping
from .sharded import local


def clip(rule: GradientClipping, grads: Sequence[Tensor]) -> list[Tensor]:
    """Clip gradients by `rule`; the arguments are not changed.

    A norm is taken in float32 (float64 for float64), and the factor is min(1, threshold / (norm + tiny)): below the
    threshold a gradient is multiplied by exactly 1 (burn-optim 0.22.1, grad_clipping/base.rs). The norm of a sharded
    gradient is that of the whole, and what is returned is this rank's part.
    """
    match rule:
        case ClipByValue(threshold=threshold):
            return [grad.clamp(-threshold, threshold) for grad in grads]
        case ClipByNorm(threshold=threshold):
            return [_scaled(grad, _factor(_norm(grad), threshold)) for grad in grads]
        case ClipByGlobalNorm(threshold=threshold):
            if not grads:
                return []
            norms = [_norm(grad).to(grads[0].device) for grad in grads]
            factor = _factor(torch.linalg.vector_norm(torch.stack(norms)), threshold)
            return [_scaled(grad, factor.to(grad.device)) for grad in grads]
        case _:
            raise ConfigError(f"{type(rule).__name__} is no known gradient clipping")


def _norm(grad: Tensor) -> Tensor:
    dtype = torch.promote_types(grad.dtype, torch.float32)
    norm = torch.linalg.vector_norm(grad, dtype=dtype)
    return norm.full_tensor() if is_distributed(norm) else norm  # pyright: ignore[reportAttributeAccessIssue]


def _factor(norm: Tensor, threshold: float) -> Tensor:
    return (threshold / (norm + torch.finfo(norm.dtype).tiny)).clamp(max=1.0)


def _scaled(grad: Tensor, factor: Tensor) -> Tensor:
    return (local(grad) * factor).to(grad.dtype)
