"""Adafactor: second moments as means of rows and columns, which take less memory."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..._torch_compat import foreach
from ..gradients.clipping import norms_of
from .configs import AdafactorConfig
from .foreach_optimizer import ForeachOptimizer


@dataclass(slots=True, eq=False)
class AdafactorState:
    """State of one parameter, in Burn's form.

    Attributes:
        time: steps so far.
        second_moment: `[..., rows, 1]`; of the parameter's shape where that has fewer than two dimensions.
        column_second_moment: `[..., 1, columns]`, or None.
    """

    time: int
    second_moment: Tensor
    column_second_moment: Tensor | None = None


class Adafactor(ForeachOptimizer[AdafactorState]):
    """u = g / sqrt(R * C / mean(R)), with R and C the mean squares of rows and columns.

    u /= max(1, rms(u) / clip_threshold); p -= max(epsilon_2, rms(p)) * min(lr, 1 / sqrt(t)) * u. Shazeer & Stern 2018,
    algorithms 4 and 5 (vectors have one second moment for each value), without a first moment; burn-optim 0.22.1,
    adafactor.rs. Leading dimensions are independent, but rms is of the whole tensor.
    """

    state_type = AdafactorState
    elementwise = False

    def __init__(self, config: AdafactorConfig) -> None:
        self.config = config

    def state_shape(self, field: str, shape: torch.Size) -> torch.Size | None:
        match field:
            case "second_moment":
                return factored_shape(shape, rows=True)
            case "column_second_moment":
                return factored_shape(shape, rows=False)
            case _:
                return None  # no field of this rule: not its shape is what is wrong

    def first(self, tensor: Tensor) -> AdafactorState:
        rows = tensor.new_zeros(factored_shape(tensor.shape, rows=True))
        columns = tensor.new_zeros(factored_shape(tensor.shape, rows=False)) if tensor.dim() > 1 else None
        return AdafactorState(0, rows, columns)

    def update(self, lr: float, tensors: list[Tensor], grads: list[Tensor], states: Sequence[AdafactorState]) -> None:
        config = self.config
        self._advance(grads, states)
        updates = _divided(grads, states)
        scales = self._scales(lr, tensors, updates, states)
        if config.weight_decay:
            foreach.mul_(tensors, 1 - lr * config.weight_decay)
        foreach.addcmul_(tensors, updates, scales, value=-1)

    def _advance(self, grads: list[Tensor], states: Sequence[AdafactorState]) -> None:
        """Count the step, and take the squares of its gradients into the moments."""
        for state in states:
            state.time += 1
        weights = [state.time**self.config.decay_rate for state in states]
        squares = foreach.mul(grads, grads)
        foreach.add_(squares, self.config.epsilon_1)
        rows, columns, of_columns, column_weights = [], [], [], []
        for square, state, weight in zip(squares, states, weights, strict=True):
            if state.column_second_moment is None:
                rows.append(square)
                continue
            rows.append(_mean(square, -1))
            columns.append(_mean(square, -2))
            of_columns.append(state.column_second_moment)
            column_weights.append(weight)
        foreach.lerp_([state.second_moment for state in states], rows, weights)
        if columns:
            foreach.lerp_(of_columns, columns, column_weights)

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
