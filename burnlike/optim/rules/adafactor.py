"""Adafactor: second moments as means of rows and columns, which take less memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..._torch_compat import foreach
from ..core.sharded import sums_over_ranks, wholes_of
from ..gradients.clipping import norms_of
from .configs import AdafactorConfig
from .foreach_optimizer import ForeachRule


@dataclass(slots=True, eq=False)
class AdafactorState:
    """State of one parameter, in Burn's form: steps so far, and moments `[..., rows, 1]` and `[..., 1, columns]`.

    Where the parameter has fewer than two dimensions, the first moment has its shape, and there is no other.
    """

    time: int
    second_moment: Tensor
    column_second_moment: Tensor | None = None


class Adafactor(ForeachRule[AdafactorConfig, AdafactorState]):
    """u = g / sqrt(R * C / mean(R)), with R and C the mean squares of rows and columns.

    u /= max(1, rms(u) / clip_threshold); p -= max(epsilon_2, rms(p)) * min(lr, 1 / sqrt(t)) * u. Shazeer & Stern 2018,
    algorithms 4 and 5 (vectors have one second moment for each value), without a first moment; burn-optim 0.22.1,
    adafactor.rs. Leading dimensions are independent, but rms is of the whole tensor.
    """

    state_type = AdafactorState
    elementwise = False
    exchanges = True

    def state_shape(self, field: str, shape: torch.Size) -> torch.Size | None:
        if field not in ("second_moment", "column_second_moment"):
            return None  # no field of this rule: not its shape is what is wrong
        return factored_shape(shape, rows=field == "second_moment")

    def first(self, tensor: Tensor) -> AdafactorState:
        rows = tensor.new_zeros(factored_shape(tensor.shape, rows=True))
        columns = tensor.new_zeros(factored_shape(tensor.shape, rows=False)) if tensor.dim() > 1 else None
        return AdafactorState(0, rows, columns)

    def update(self, lr: float, tensors: list[Tensor], grads: list[Tensor], states: Sequence[AdafactorState]) -> None:
        config = self.config
        for state in states:
            state.time += 1
        wholes = wholes_of(tensors)
        self._advance(grads, wholes, states)
        updates = _divided(grads, wholes, states)
        scales = self._scales(lr, tensors, updates, states)
        if config.weight_decay:
            foreach.mul_(tensors, 1 - lr * config.weight_decay)
        foreach.addcmul_(tensors, updates, scales, value=-1)

    def _advance(self, grads: list[Tensor], wholes: Sequence[Any], states: Sequence[AdafactorState]) -> None:
        """Take the squares of a step's gradients into the moments."""
        squares = list(foreach.mul(grads, grads))
        foreach.add_(squares, self.config.epsilon_1)
        factored = _factored(states)
        some, its_wholes = [[it[place] for place in factored] for it in (squares, wholes)]
        means = _means([*some, *some], [*its_wholes, *its_wholes], [-1] * len(some) + [-2] * len(some))
        for place, by_row in zip(factored, means[: len(some)], strict=True):
            squares[place] = by_row
        columns = [states[place] for place in factored]
        moments = [state.second_moment for state in states] + [column.column_second_moment for column in columns]
        # One call for rows and columns alike: with small tensors it is the number of calls that a step's time is in.
        weights = [state.time**self.config.decay_rate for state in (*states, *columns)]
        foreach.lerp_(moments, [*squares, *means[len(some) :]], weights)

    def _scales(
        self, lr: float, tensors: list[Tensor], updates: list[Tensor], states: Sequence[AdafactorState]
    ) -> list[Tensor]:
        """The factors of the updates, without dimensions: rate, clipping, size of the parameter."""
        config = self.config
        wholes = [*wholes_of(tensors)] * (2 if config.scale_parameter else 1)
        means = list(norms_of([*updates, *tensors] if config.scale_parameter else updates, wholes).unbind())
        foreach.div_(means, [max(whole.numel(), 1) ** 0.5 for whole in wholes])
        excesses, scales = means[: len(updates)], means[len(updates) :]
        foreach.div_(excesses, config.clip_threshold)
        foreach.clamp_min_(excesses, 1.0)
        steps = [min(lr, state.time**-0.5) if config.relative_step else lr for state in states]
        if config.scale_parameter:
            foreach.clamp_min_(scales, config.epsilon_2)
        else:
            scales = [torch.ones_like(excess) for excess in excesses]
        foreach.mul_(scales, steps)
        foreach.div_(scales, excesses)
        return scales


def factored_shape(shape: torch.Size, *, rows: bool) -> torch.Size:
    """The shape of the moment of the rows, or of the columns, of a parameter."""
    if len(shape) < 2:
        return shape
    return torch.Size((*shape[:-1], 1) if rows else (*shape[:-2], 1, shape[-1]))


def _factored(states: Sequence[AdafactorState]) -> list[int]:
    return [place for place, state in enumerate(states) if state.column_second_moment is not None]


def _means(values: list[Tensor], wholes: Sequence[Any], dims: list[int]) -> list[Tensor]:
    """The mean of each over a dimension, which stays, of all ranks' parts; of no values 0, not NaN, which would be in
    the state.
    """
    sums = [value.sum(dim, keepdim=True) for value, dim in zip(values, dims, strict=True)]
    counts = [max(whole.shape[dim], 1) for whole, dim in zip(wholes, dims, strict=True)]
    return [rank.div_(count) for rank, count in zip(sums_over_ranks(sums, wholes, dims), counts, strict=True)]


def _divided(grads: list[Tensor], wholes: Sequence[Any], states: Sequence[AdafactorState]) -> list[Tensor]:
    places = _factored(states)
    rows = [state.second_moment for state in states]
    means = _means([rows[place] for place in places], [wholes[place] for place in places], [-2] * len(places))
    for place, mean in zip(places, means, strict=True):
        rows[place] = rows[place] / mean
    updates = list(foreach.mul(grads, foreach.rsqrt(rows)))
    if places:
        by_column = foreach.rsqrt([states[place].column_second_moment for place in places])
        foreach.mul_([updates[place] for place in places], by_column)
    return updates
