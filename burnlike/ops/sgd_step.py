"""One step of stochastic gradient descent over many tensors, in one call.

    g = g + weight_decay * p
    v = g at time 1, later momentum * v + (1 - dampening) * g
    p = p - lr * v, or with Nesterov's momentum p - lr * (g + momentum * v)

As in Burn and torch.optim.SGD; Sutskever et al. 2013 for both kinds of momentum. Without velocities p = p - lr * g.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..errors import ArgumentError
from ._library import fake, op, refuse_lazy_negation
from ._step import options_of, reference_values, run_step
from ._step_lists import States, StepLists, check_lists
from .step_options import StepOptions

_sgd_step = op("sgd_step_")
_DEFAULT = StepOptions()


def sgd_step_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    velocities: Sequence[Tensor] = (),
    *,
    times: Sequence[int],
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    scales: Sequence[Tensor] = (),
    options: StepOptions = _DEFAULT,
) -> None:
    """Update parameters and their velocities in place.

    All is computed in float32 (float64 for float64) in one pass and rounded once, to the dtype of each tensor. All
    tensors are on one device; nothing is changed when one of them is refused.

    Args:
        params: float32, float16, bfloat16 or float64, of any shapes.
        grads: one for each parameter, of its shape and dtype.
        velocities: like `moments_1` of `adamw_step_`; empty to go without momentum.
        times: for each parameter the number of this step, from 1, at which a velocity is the gradient, undampened.
        lr: learning rate.
        momentum: what stays of a velocity.
        dampening: what is left out of a gradient from the second step on.
        nesterov: look ahead by one step of the velocity.
        weight_decay: times the parameter is added to the gradient.
        scales: of velocities in 8 bits; see `blockwise`.
        options: what else the step does.

    Raises:
        ArgumentError, ShapeError, DTypeError, DeviceError, AutodiffError: as `adamw_step_`; also for `nesterov`
            without velocities.
    """
    if nesterov and not velocities and params:
        raise ArgumentError("sgd_step_: expected velocities for Nesterov's momentum, got none")
    lists = _lists(params, grads, velocities, scales, times, options)
    scalars = (lr, momentum, dampening, nesterov, weight_decay)
    run_step(
        lists,
        _sgd_step,
        (params, grads, velocities, scales, times, *scalars),
        lambda lists: _reference(lists, *scalars),
    )


def sgd_step_reference(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    velocities: Sequence[Tensor] = (),
    *,
    times: Sequence[int],
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    scales: Sequence[Tensor] = (),
    options: StepOptions = _DEFAULT,
) -> None:
    """The same as `sgd_step_` in plain torch, on any device."""
    lists = _lists(params, grads, velocities, scales, times, options)
    _reference(lists, lr, momentum, dampening, nesterov, weight_decay)


def _lists(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    velocities: Sequence[Tensor],
    scales: Sequence[Tensor],
    times: Sequence[int],
    options: StepOptions,
) -> StepLists:
    states = States("velocities", velocities, torch.int8, scales, is_optional=True)
    return StepLists("sgd_step_", params, grads, (states,), times, options)


@torch.no_grad()
def _reference(
    lists: StepLists, lr: float, momentum: float, dampening: float, nesterov: bool, weight_decay: float
) -> None:
    for values in reference_values(lists):
        p, g = values.p, values.g
        if weight_decay:
            g = g + p * values.scalar(weight_decay)
        if not values.states:
            values.write(p - g * values.scalar(lr))
            continue
        later = g * values.scalar(1 - dampening) + values.states[0] * values.scalar(momentum)
        is_first = torch.as_tensor(values.time, device=p.device) == 1
        v = torch.where(is_first, g, later)
        update = v * values.scalar(momentum) + g if nesterov else v
        values.write(p - update * values.scalar(lr), v)


refuse_lazy_negation("sgd_step_")


@fake("sgd_step_")
def _(
    params: list[Tensor],
    grads: list[Tensor],
    velocities: list[Tensor],
    scales: list[Tensor],
    times: list[int],
    lr: float,
    momentum: float,
    dampening: float,
    nesterov: bool,
    weight_decay: float,
    *options: Any,
) -> None:
    check_lists(_lists(params, grads, velocities, scales, times, options_of(*options)))
