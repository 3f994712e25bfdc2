"""One step of AdamW or Adam over many tensors, in one call.

    m = beta_1 * m + (1 - beta_1) * g        v = beta_2 * v + (1 - beta_2) * g^2
    delta = (m / (1 - beta_1^t)) / (sqrt(v / (1 - beta_2^t)) + epsilon)
    p = p * (1 - lr * weight_decay) - lr * delta

Loshchilov & Hutter 2019, algorithm 2, in the order of Burn. Adam (Kingma & Ba 2015) adds weight_decay * p to g instead.
Each parameter has its own time t: it may have been frozen for a while.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ._step import ReferenceValues, States, Step, StepOptions, reference_of, step_op

_DEFAULT = StepOptions()


@step_op
def adamw_step_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    moments_1: Sequence[Tensor],
    moments_2: Sequence[Tensor],
    *,
    max_moments_2: Sequence[Tensor] | None = None,
    scales_1: Sequence[Tensor] = (),
    scales_2: Sequence[Tensor] = (),
    times: Sequence[int],
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-5,
    weight_decay: float = 1e-4,
    coupled: bool = False,
    cautious: bool = False,
    options: StepOptions = _DEFAULT,
) -> Step:
    """Update parameters and their moments in place.

    All is computed in float32 (float64 for float64) in one pass and rounded once, to the dtype of each tensor. All
    tensors are on one device; nothing is changed when one of them is refused.

    Args:
        params: float32, float16, bfloat16 or float64, of any shapes.
        grads: one for each parameter, of its shape and dtype.
        moments_1: first moments, of the parameters' shapes; of their dtype, float32, bfloat16, or int8 codes of
            `blockwise`. A flat tensor among them that is not of codes holds the moments of several parameters in a row,
            end to end: with many small parameters that saves half of a step's time, which goes into handing tensors
            over.
        moments_2: second moments, like `moments_1` but for codes, which are uint8; of the same or another dtype.
        max_moments_2: the largest second moments so far, like `moments_2`, never in 8 bits: turns amsgrad on.
        scales_1: for each of `moments_1` in 8 bits its scales, float32 `[ceil(n / 256)]`.
        scales_2: the same for `moments_2`.
        times: for each parameter the number of this step, from 1.
        lr: learning rate.
        beta_1: decay of the first moments, in [0, 1).
        beta_2: decay of the second moments, in [0, 1).
        epsilon: added to the denominator.
        weight_decay: decoupled decay; a step shrinks by `lr * weight_decay`.
        coupled: add `weight_decay` times the parameter to the gradient instead, as Adam does.
        cautious: decay only values whose sign is that of their first moment (zero counts as positive); of no effect on
            coupled decay.
        options: what else the step does.

    Raises:
        ArgumentError: lists of different lengths, a time below 1, a tensor to be written that is expanded, has
            overlapping strides or is lazily negated, or one whose memory was freed.
        ShapeError: a tensor does not have its parameter's shape, or scales another than their moment needs.
        DTypeError: a tensor has another dtype.
        DeviceError: a tensor is on another kind of device than cpu and cuda, or not on the first parameter's.
        AutodiffError: a tensor to be written requires grad, and gradients are on: call it under `torch.no_grad()`.
    """
    states = (
        States("moments_1", moments_1, torch.int8, scales_1, "scales_1"),
        States("moments_2", moments_2, torch.uint8, scales_2, "scales_2"),
        States("max_moments_2", max_moments_2 or (), is_optional=True),
    )
    decay = 0.0 if coupled else lr * weight_decay
    is_cautious = cautious and weight_decay != 0 and not coupled

    def formula(values: ReferenceValues) -> None:
        p, g, time = values.p, values.g, values.time
        if coupled and weight_decay:
            g = g + p * values.scalar(weight_decay)
        m, v, *largest = values.states
        m = m * values.scalar(beta_1) + g * values.scalar(1 - beta_1)
        v = v * values.scalar(beta_2) + g.square() * values.scalar(1 - beta_2)
        second = torch.maximum(largest[0], v) if largest else v
        root = (second / _correction(values, beta_2, time)).sqrt() + values.scalar(epsilon)
        delta = (m / _correction(values, beta_1, time)) / root
        if is_cautious:
            kept = torch.where((p >= 0) == (m >= 0), p - p * values.scalar(decay), p)
        else:
            kept = p * values.scalar(1 - decay)
        values.write(kept - delta * values.scalar(lr), m, v, *([second] if largest else []))

    scalars = (lr, beta_1, beta_2, epsilon, weight_decay, coupled, cautious)
    return Step(params, grads, states, times, scalars, formula, options)


adamw_step_reference = reference_of(adamw_step_)


def _correction(values: ReferenceValues, beta: float, time: float | Tensor) -> float | Tensor:
    if isinstance(time, Tensor):
        return (1 - beta**time).to(values.dtype)
    # Python's own power raises where it overflows.
    return values.scalar(1 - torch.tensor(beta, dtype=torch.float64, device="cpu").pow(time).item())
