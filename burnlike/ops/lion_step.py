"""One step of Lion over many tensors, in one call.

    u = sign(beta_1 * m + (1 - beta_1) * g)
    m = beta_2 * m + (1 - beta_2) * g
    p = p * (1 - lr * weight_decay) - lr * u

Chen et al. 2023 ("Symbolic Discovery of Optimization Algorithms"), algorithm 2, in the order of Burn.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ._step import ReferenceValues, States, Step, StepOptions, reference_of, step_op

_DEFAULT = StepOptions()


@step_op
def lion_step_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    moments: Sequence[Tensor],
    *,
    scales: Sequence[Tensor] = (),
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.99,
    weight_decay: float = 0.0,
    options: StepOptions = _DEFAULT,
) -> Step:
    """Update parameters and their moments in place, with the precision, the dtypes and the errors of `adamw_step_`.

    Args:
        params, grads: as for `adamw_step_`.
        moments: like `moments_1` of `adamw_step_`; zeros before the first step.
        scales: of moments in 8 bits; see `blockwise`.
        lr: learning rate, by which each value moves, up or down.
        beta_1: weight of the moment in the direction.
        beta_2: decay of the moments.
        weight_decay: decoupled decay; a step shrinks by `lr * weight_decay`.
        options: what else the step does; `skipped` is of no use here.
    """

    def formula(values: ReferenceValues) -> None:
        (m,) = values.states
        direction = m * values.scalar(beta_1) + values.g * values.scalar(1 - beta_1)
        direction = torch.where(direction.isnan(), direction, direction.sign())  # which of NaN is 0
        m = m * values.scalar(beta_2) + values.g * values.scalar(1 - beta_2)
        values.write(values.p * values.scalar(1 - lr * weight_decay) - direction * values.scalar(lr), m)

    states = (States("moments", moments, torch.int8, scales),)
    return Step(params, grads, states, None, (lr, beta_1, beta_2, weight_decay), formula, options)


lion_step_reference = reference_of(lion_step_)
