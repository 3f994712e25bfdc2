"""Clipping of gradients, without a transfer to the host."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._torch_compat.fsdp import distributed_type
from ...errors import ConfigError
from ...module import ParamId
from ...module.torch_objects.wrappers import is_distributed
from ...ops import StepOptions, gradient_squares_, gradient_squares_reference
from ..core.gradient_transform import transformed_wide
from ..core.sharded import OtherStages, added_up, local, summed_over_ranks
from .configs import ClipByGlobalNorm, ClipByNorm, ClipByValue, GradientClipping


def clip(
    rule: GradientClipping,
    grads: Sequence[Tensor],
    other_stages: OtherStages | None = None,
    ids: Sequence[ParamId | None] = (),
) -> list[Tensor]:
    """Clip gradients by `rule`; the arguments are not changed. Of a sharded gradient it returns this rank's part.

    With `other_stages` of a model a global norm is over all of them; `ids` are those of the parameters, in order.

    A norm is of the whole, in float64, and the factor is min(1, threshold / (norm + tiny)): below the threshold a
    gradient is multiplied by exactly 1 (burn-optim 0.22.1, grad_clipping/base.rs).
    """
    grads = added_up(grads)
    squares = squares_of(grads) if needs_norms(rule) else None
    if other_stages is not None and squares is not None and isinstance(rule, ClipByGlobalNorm):
        squares = other_stages.summed(other_stages.own_sum(squares, ids))
    clip_value, factors = limits(rule, squares)
    parts = [local(grad) for grad in grads]
    wide = transformed_wide(parts, StepOptions(clip_value=clip_value, factors=factors))
    return [values.to(part.dtype) for values, part in zip(wide, parts, strict=True)]


def needs_norms(rule: GradientClipping | None) -> bool:
    return isinstance(rule, ClipByNorm | ClipByGlobalNorm)


def squares_of(grads: Sequence[Tensor]) -> Tensor:
    """The sum of squares of each gradient, of the whole of a sharded one: float64 `[len(grads)]`, inf or NaN too.

    Squares of a dense gradient, such as one in channels_last, are added in the order of memory.
    """
    if divided := distributed_type() is not None and any(map(is_distributed, grads)):
        grads = added_up(grads)
    parts = [_as_it_lies(local(grad) if divided else grad) for grad in grads]
    # float64: the squares of float32's largest values overflow in float32, which would look like a gradient of inf.
    squares = torch.empty(len(parts), dtype=torch.float64, device=parts[0].device if parts else None)
    if squares.device.type in ("cpu", "cuda"):
        gradient_squares_(parts, squares)
    else:
        gradient_squares_reference(parts, squares)
    return summed_over_ranks(squares, grads) if divided else squares


def _as_it_lies(tensor: Tensor) -> Tensor:
    """A view with the dimensions in the order of memory: contiguous for a dense tensor, which then is not copied."""
    if tensor.is_contiguous() or tensor.layout != torch.strided:
        return tensor
    return tensor.permute(sorted(range(tensor.dim()), key=lambda dim: (-tensor.stride(dim), -tensor.size(dim))))


def limits(
    rule: GradientClipping, squares: Tensor | None, unscale: float | Tensor = 1.0
) -> tuple[float, Tensor | None]:
    """The largest magnitude of a gradient's value, and the factors of gradients: float64 `[1]` or one for each; None
    for none.

    `squares` are the sums of squares of all gradients that share the rule, where `needs_norms`; gradients are
    multiplied by `unscale` before.
    """
    match rule:
        case ClipByValue(threshold=threshold):
            return threshold, None
        case ClipByNorm(threshold=threshold) if squares is not None:
            return float("inf"), _factor(squares.sqrt() * unscale, threshold)
        case ClipByGlobalNorm(threshold=threshold) if squares is not None:
            return float("inf"), _factor(squares.sum(0, keepdim=True).sqrt_().mul_(unscale), threshold)
        case _:
            raise ConfigError(f"{type(rule).__name__} is no known gradient clipping")


def _factor(norm: Tensor, threshold: float) -> Tensor:
    return (threshold / (norm + torch.finfo(torch.float32).tiny)).clamp_(max=1.0)


def norms_of(tensors: Sequence[Tensor], wholes: Sequence[Any] = ()) -> Tensor:
    """The Euclidean norm of each tensor, `[len(tensors)]` in their dtype; one or more, of one dtype on one device.

    With `wholes`, one for each, of which they are this rank's parts, of the whole.
    Squares are summed in float64: torch's own norms sum them in float32, and of 100 million equal values lose 4 percent
    on a CPU.
    """
    squares = squares_of(tensors)
    return (summed_over_ranks(squares, wholes) if wholes else squares).sqrt_().to(tensors[0].dtype)
