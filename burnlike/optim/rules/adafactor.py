"""Adafactor: second moments as means of rows and columns, which take less memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..._torch_compat import foreach
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
        self._advance(grads, states)
        updates = _divided(grads, states)
        scales = self._scales(lr, tensors, updates, states)
        if config.weight_decay:
            foreach.mul_(tensors, 1 - lr * config.weight_decay)
        foreach.addcmul_(tensors, updates, scales, value=-1)

    def _advance(self, grads: list[Tensor], states: Sequence[AdafactorState]) -> None:
        """Take the squares of a step's gradients into the moments."""
        squares = foreach.mul(grads, grads)
        foreach.add_(squares, self.config.epsilon_1)
        moments, means, weights = [], [], []
        for square, state in zip(squares, states, strict=True):
            by_column = state.column_second_moment
            moments.append(state.second_moment)
            means.append(square if by_column is None else _mean(square, -1))
            if by_column is not None:
                moments.append(by_column)
                means.append(_mean(square, -2))
            weights += [state.time**self.config.decay_rate] * (1 if by_column is None else 2)
        foreach.lerp_(moments, means, weights)

    def _scales(
        self, lr: float, tensors: list[Tensor], updates: list[Tensor], states: Sequence[AdafactorState]
    ) -> list[Tensor]:
        """The factors of the updates, without dimensions: rate, clipping, size of the parameter."""
        config = self.config
        excesses = _root_mean_squares(updates)
        foreach.div_(excesses, config.clip_threshold)
        foreach.clamp_min_(excesses, 1.0)
        steps = [min(lr, state.time**-0.5) if config.relative_step else lr for state in states]
        if config.scale_parameter:
            scales = _root_mean_squares(tensors)
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


def _mean(values: Tensor, dim: int) -> Tensor:
    """The mean over a dimension, which stays; of no values 0, not NaN, which would be in the state."""
    return values.sum(dim, keepdim=True).div_(max(values.shape[dim], 1))


def _divided(grads: list[Tensor], states: Sequence[AdafactorState]) -> list[Tensor]:
    by_row = [
        state.second_moment.rsqrt()
        if state.column_second_moment is None
        else (state.second_moment / state.second_moment.mean(-2, keepdim=True)).rsqrt_()
        for state in states
    ]
    updates = list(foreach.mul(grads, by_row))
    columns = [state.column_second_moment for state in states]
    places = [place for place, column in enumerate(columns) if column is not None]
    if places:
        by_column = foreach.rsqrt([columns[place] for place in places])
        foreach.mul_([updates[place] for place in places], by_column)
    return updates


def _root_mean_squares(tensors: list[Tensor]) -> list[Tensor]:
    means = list(norms_of(tensors).unbind())
    foreach.div_(means, [max(tensor.numel(), 1) ** 0.5 for tensor in tensors])
    return means
