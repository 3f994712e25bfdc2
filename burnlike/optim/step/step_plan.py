"""Plans a step: how gradients are scaled and clipped, and whether it is skipped for an inf or NaN among them."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ...errors import ArgumentError
from ...ops import StepOptions
from ..core.sharded import OtherStages
from ..gradients.clipping import limits, needs_norms, squares_of
from ..gradients.configs import ClipByGlobalNorm
from ..rules.rule_set import RuleSet
from .batches import ParamBatch


def plan_step(
    batches: Sequence[ParamBatch],
    grads: Sequence[Sequence[Tensor]],
    rules: RuleSet,
    other_stages: OtherStages | None = None,
    *,
    maximize: bool,
    skip_non_finite: bool,
    loss_scale: float | Tensor | None,
    found_inf: Tensor | None,
    zero_grads: bool,
    seed: int | None,
) -> tuple[list[StepOptions], Tensor | None]:
    """Find out what to do: the options of each batch, and a tensor with one value; if it is not 0, the step is skipped.

    Nothing waits for a device. The last 16 bits of `seed`, of stochastic rounding, are 0 and get the number of the
    batch; None rounds to nearest. It is an ArgumentError if the loss scale is a number that is not positive and finite.
    """
    clippings = [rules.clipping(batch.group) for batch in batches]
    norms = [rules.norm(batch.group) for batch in batches]
    squares = [
        squares_of(its_grads) if skip_non_finite or needs_norms(clipping) else None
        for its_grads, clipping in zip(grads, clippings, strict=True)
    ]
    totals = None if other_stages is None else totals_over_stages(batches, squares, rules, other_stages)
    scale = -1.0 if maximize else 1.0
    unscale: float | Tensor = 1.0
    if isinstance(loss_scale, Tensor):
        unscale = loss_scale.detach().double().reshape(1).reciprocal()
    elif loss_scale is not None:
        if not 0 < loss_scale < math.inf:
            raise ArgumentError(f"expected a finite loss_scale > 0, got {loss_scale}; nothing was changed")
        unscale = 1.0 / loss_scale
        scale *= unscale
    options = []
    for place, (batch, clipping) in enumerate(zip(batches, clippings, strict=True)):
        its_squares = squares[place]
        if isinstance(clipping, ClipByGlobalNorm):
            if totals is None:
                its_squares = _pooled(squares, [norm == norms[place] for norm in norms], batch.device)
            else:
                its_squares = totals[norms[place]].to(batch.device)
        by = unscale.to(batch.device) if isinstance(unscale, Tensor) else unscale
        clip_value, factors = limits(clipping, its_squares, by)
        if isinstance(by, Tensor):
            factors = by if factors is None else factors * by
        own_seed = None if seed is None else seed + place
        options.append(
            StepOptions(grad_scale=scale, factors=factors, clip_value=clip_value, zero_grads=zero_grads, seed=own_seed)
        )
    found = None if found_inf is None else found_inf.detach().reshape(1)
    if not skip_non_finite:
        return options, found
    if totals is None:
        device = next(it.device for it in squares if it is not None)
        total = _pooled(squares, [True] * len(squares), device).sum(0, True)
    else:
        total = totals[None]
    bad = total.isfinite().logical_not_().float()
    return options, bad if found is None else torch.maximum(found.to(bad), bad)


def totals_over_stages(
    batches: Sequence[ParamBatch], squares: Sequence[Tensor | None], rules: RuleSet, stages: OtherStages
) -> dict[str | int | None, Tensor]:
    """The sum of squares for each norm, and None for all, over all stages of a model: each float64 `[1]`."""
    keys: list[str | int | None] = [*rules.norms, None]
    device = batches[0].device if batches else torch.device("cpu")
    sums = torch.zeros(len(keys), dtype=torch.float64, device=device)
    for batch, its_squares in zip(batches, squares, strict=True):
        if its_squares is not None:
            of_batch = rules.norm(batch.group)
            counts = torch.tensor([float(key in (None, of_batch)) for key in keys], dtype=torch.float64)
            sums += counts.to(device) * stages.own_sum(its_squares, [it.id for it in batch.params]).to(device)
    return dict(zip(keys, stages.summed(sums).split(1), strict=True))


def _pooled(squares: Sequence[Tensor | None], chosen: Sequence[bool], device: torch.device) -> Tensor:
    some = [it.to(device) for it, is_chosen in zip(squares, chosen, strict=True) if is_chosen and it is not None]
    return some[0] if len(some) == 1 else torch.cat(some)


class SkippedSteps:
    """Counts skipped steps: `count` those known, `on` those since the last `take_back`, by device, float64 `[1]`.

    On CUDA nothing waits: the kernels see whether a step is to be skipped, and subtract from the times of the states
    what `on` has counted. `take_back` brings the states up to date.
    """

    def __init__(self) -> None:
        self.count = 0
        self.on: dict[torch.device, Tensor] = {}
        self._is_settled = True

    def watch(self, batches: Sequence[ParamBatch]) -> None:
        """Count for these batches from now on; `take_back` those before first."""
        devices = {batch.device for batch in batches if batch.device.type == "cuda"}
        self.on = {device: torch.zeros(1, dtype=torch.float64, device=device) for device in devices}
        self._is_settled = True

    def add(self, found: Tensor) -> None:
        """Count a step as skipped where the one value of `found` is not 0."""
        for device, skipped in self.on.items():
            skipped.add_((found != 0).to(device))
        self._is_settled = False

    def take_back(self, batches: Sequence[ParamBatch], rules: RuleSet) -> None:
        """Take what was skipped back from the times of the states; waits for the devices if it may be any."""
        if self._is_settled:
            return
        self._is_settled = True
        counts = {device: int(skipped.item()) for device, skipped in self.on.items()}
        if not any(counts.values()):
            return
        for batch in batches:
            if steps := counts.get(batch.device):
                rules.rule(batch.group).take_back(batch.states, steps)
        self.count += max(counts.values())
        for skipped in self.on.values():
            skipped.zero_()


def can_skip_on_device(batches: Sequence[ParamBatch], rules: RuleSet) -> bool:
    """Whether kernels can skip a step by themselves: not the first one, which may not even make states."""
    return all(
        batch.device.type == "cuda" and rules.rule(batch.group).fused and None not in batch.states for batch in batches
    )
