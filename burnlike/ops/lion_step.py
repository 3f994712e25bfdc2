"""One step of Lion over many tensors, in one call.

    u = sign(beta_1 * m + (1 - beta_1) * g)
    m = beta_2 * m + (1 - beta_2) * g
    p = p * (1 - lr * weight_decay) - lr * u

Chen et al. 2023 ("Symbolic Discovery of Optimization Algorithms"), algorithm 2, in the order of Burn.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ._library import fake, op, refuse_lazy_negation
from ._step import options_of, reference_values, run_step
from ._step_lists import States, StepLists, check_lists
from .step_options import StepOptions

_lion_step = op("lion_step_")
_DEFAULT = StepOptions()


def lion_step_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    moments: Sequence[Tensor],
    *,
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.99,
    weight_decay: float = 0.0,
    scales: Sequence[Tensor] = (),
    options: StepOptions = _DEFAULT,
) -> None:
    """Update parameters and their moments in place.

    All is computed in float32 (float64 for float64) in one pass and rounded once, to the dtype of each tensor. All
    tensors are on one device; nothing is changed when one of them is refused.

    Args:
        params: float32, float16, bfloat16 or float64, of any shapes.
        grads: one for each parameter, of its shape and dtype.
        moments: like `moments_1` of `adamw_step_`; zeros before the first step.
        lr: learning rate, by which each value moves, up or down.
        beta_1: weight of the moment in the direction.
        beta_2: decay of the moments.
        weight_decay: decoupled decay; a step shrinks by `lr * weight_decay`.
        scales: of moments in 8 bits; see `blockwise`.
        options: what else the step does; `skipped` is of no use here.

    Raises:
        ArgumentError, ShapeError, DTypeError, DeviceError, AutodiffError: as `adamw_step_`.
    """
    lists = _lists(params, grads, moments, scales, options)
    scalars = (lr, beta_1, beta_2, weight_decay)
    run_step(
        lists,
        _lion_step,
        (params, grads, moments, scales, *scalars),
        lambda lists: _reference(lists, *scalars),
    )


def lion_step_reference(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    moments: Sequence[Tensor],
    *,
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.99,
    weight_decay: float = 0.0,
    scales: Sequence[Tensor] = (),
    options: StepOptions = _DEFAULT,
) -> None:
    """The same as `lion_step_` in plain torch, on any device."""
    _reference(_lists(params, grads, moments, scales, options), lr, beta_1, beta_2, weight_decay)


def _lists(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    moments: Sequence[Tensor],
    scales: Sequence[Tensor],
    options: StepOptions,
) -> StepLists:
    return StepLists("lion_step_", params, grads, (States("moments", moments, torch.int8, scales),), None, options)


@torch.no_grad()
def _reference(lists: StepLists, lr: float, beta_1: float, beta_2: float, weight_decay: float) -> None:
    for values in reference_values(lists):
        (m,) = values.states
        direction = m * values.scalar(beta_1) + values.g * values.scalar(1 - beta_1)
        direction = torch.where(direction.isnan(), direction, direction.sign())  # which of NaN is 0
        m = m * values.scalar(beta_2) + values.g * values.scalar(1 - beta_2)
        values.write(values.p * values.scalar(1 - lr * weight_decay) - direction * values.scalar(lr), m)


refuse_lazy_negation("lion_step_")


@fake("lion_step_")
def _(
    params: list[Tensor],
    grads: list[Tensor],
    moments: list[Tensor],
    scales: list[Tensor],
    lr: float,
    beta_1: float,
    beta_2: float,
    weight_decay: float,
    *options: Any,
) -> None:
    check_lists(_lists(params, grads, moments, scales, options_of(*options)))
