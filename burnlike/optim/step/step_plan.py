"""Plans the scaling and clipping of a step's gradients, for each batch of parameters, and the check for inf and NaN."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import ArgumentError
from ...ops import StepOptions
from ..gradients.clipping import limits, needs_norms, squares_of
from ..gradients.configs import ClipByGlobalNorm
from ..rules.rule_set import RuleSet
from .batches import ParamBatch


@dataclass(frozen=True, slots=True)
class StepRequest:
    """The arguments of a step other than the learning rate.

    Attributes:
        maximize: go up the gradient.
        skip_non_finite: change nothing if a gradient is not finite.
        loss_scale: what the loss was multiplied by.
        found_inf: change nothing if its one value is not 0.
        zero_grads: zero the gradients.
        seed: of stochastic rounding, whose last 16 bits are 0 and get the number of the batch; None rounds to nearest.
    """

    maximize: bool = False
    skip_non_finite: bool = False
    loss_scale: float | Tensor | None = None
    found_inf: Tensor | None = None
    zero_grads: bool = False
    seed: int | None = None


def plan_step(
    batches: Sequence[ParamBatch],
    grads: Sequence[Sequence[Tensor]],
    rules: RuleSet,
    request: StepRequest,
) -> tuple[list[StepOptions], Tensor | None]:
    """Find out what to do; nothing waits for a device.

    Args:
        batches: of the step.
        grads: of each.
        rules: which clipping each has.
        request: what is asked.

    Returns:
        The options of each batch, and a tensor with one value; if it is not 0, the step is skipped.

    Raises:
        ArgumentError: the loss scale is a number that is not positive and finite.
    """
    clippings = [rules.clipping(batch.group) for batch in batches]
    norms = [rules.norm(batch.group) for batch in batches]
    squares = [
        squares_of(its_grads) if request.skip_non_finite or needs_norms(clipping) else None
        for its_grads, clipping in zip(grads, clippings, strict=True)
    ]
    scale = -1.0 if request.maximize else 1.0
    unscale: float | Tensor = 1.0
    if isinstance(request.loss_scale, Tensor):
        unscale = request.loss_scale.detach().double().reshape(1).reciprocal()
    elif request.loss_scale is not None:
        if not 0 < request.loss_scale < math.inf:
            raise ArgumentError(f"expected a finite loss_scale > 0, got {request.loss_scale}; nothing was changed")
        unscale = 1.0 / request.loss_scale
        scale *= unscale
    options = []
    for place, (batch, clipping) in enumerate(zip(batches, clippings, strict=True)):
        its_squares = squares[place]
        if isinstance(clipping, ClipByGlobalNorm):
            its_squares = _pooled(squares, [norm == norms[place] for norm in norms], batch.device)
        by = unscale.to(batch.device) if isinstance(unscale, Tensor) else unscale
        clip_value, factors = limits(clipping, its_squares, by)
        if isinstance(by, Tensor):
            factors = by if factors is None else factors * by
        options.append(
            StepOptions(
                grad_scale=scale,
                factors=factors,
                clip_value=clip_value,
                zero_grads=request.zero_grads,
                seed=None if request.seed is None else request.seed + place,
            )
        )
    return options, _found(squares, request)


def _pooled(squares: Sequence[Tensor | None], chosen: Sequence[bool], device: torch.device) -> Tensor:
    some = [it.to(device) for it, is_chosen in zip(squares, chosen, strict=True) if is_chosen and it is not None]
    return some[0] if len(some) == 1 else torch.cat(some)


def _found(squares: Sequence[Tensor | None], request: StepRequest) -> Tensor | None:
    found = None if request.found_inf is None else request.found_inf.detach().reshape(1)
    if not request.skip_non_finite:
        return found
    total = _pooled(squares, [True] * len(squares), next(it.device for it in squares if it is not None)).sum(0, True)
    bad = total.isfinite().logical_not_().float()
    return bad if found is None else torch.maximum(found.to(bad), bad)
