"""One step of stochastic gradient descent over many tensors, in one call.

    g = g + weight_decay * p
    v = g at time 1, later momentum * v + (1 - dampening) * g
    p = p - lr * v, or with Nesterov's momentum p - lr * (g + momentum * v)

As in Burn and torch.optim.SGD; Sutskever et al. 2013 for both kinds of momentum. Without velocities p = p - lr * g.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import ArgumentError
from ._step import ReferenceValues, States, Step, StepOptions, reference_of, step_op

_DEFAULT = StepOptions()


@step_op
def sgd_step_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    velocities: Sequence[Tensor] = (),
    *,
    scales: Sequence[Tensor] = (),
    times: Sequence[int],
    lr: float,
    momentum: float = 0.0,
    dampening: float = 0.0,
    nesterov: bool = False,
    weight_decay: float = 0.0,
    options: StepOptions = _DEFAULT,
) -> Step:
    """Update parameters and their velocities in place, with the precision, the dtypes and the errors of `adamw_step_`.

    Args:
        params, grads: as for `adamw_step_`.
        velocities: like `moments_1` of `adamw_step_`; empty to go without momentum.
        scales: of velocities in 8 bits; see `blockwise`.
        times: for each parameter the number of this step, from 1, at which a velocity is the gradient, undampened.
        lr: learning rate.
        momentum: what stays of a velocity.
        dampening: what is left out of a gradient from the second step on.
        nesterov: look ahead by one step of the velocity.
        weight_decay: times the parameter is added to the gradient.
        options: what else the step does.

    Raises:
        ArgumentError: also for `nesterov` without velocities.
    """
    if nesterov and not velocities and params:
        raise ArgumentError("sgd_step_: expected velocities for Nesterov's momentum, got none")

    def formula(values: ReferenceValues) -> None:
        p, g = values.p, values.g
        if weight_decay:
            g = g + p * values.scalar(weight_decay)
        if not values.states:
            values.write(p - g * values.scalar(lr))
            return
        later = g * values.scalar(1 - dampening) + values.states[0] * values.scalar(momentum)
        is_first = torch.as_tensor(values.time, device=p.device) == 1
        v = torch.where(is_first, g, later)
        update = v * values.scalar(momentum) + g if nesterov else v
        values.write(p - update * values.scalar(lr), v)

    states = (States("velocities", velocities, torch.int8, scales, is_optional=True),)
    scalars = (lr, momentum, dampening, nesterov, weight_decay)
    return Step(params, grads, states, times, scalars, formula, options)


sgd_step_reference = reference_of(sgd_step_)
