"""One step of AdamW over many tensors, in one call.

    m = beta_1 * m + (1 - beta_1) * g        v = beta_2 * v + (1 - beta_2) * g^2
    delta = (m / (1 - beta_1^t)) / (sqrt(v / (1 - beta_2^t)) + epsilon)
    p = p * (1 - lr * weight_decay) - lr * delta

Loshchilov & Hutter 2019, algorithm 2, in the order of Burn. Each parameter has its own time t: it may have been
frozen for a while.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import AutodiffError
from ._adamw_lists import check_lists, spread
from ._checks import DEVICES
from ._library import WITHOUT_NATIVE, fake, op

_adamw_step = op("adamw_step_")


def adamw_step_(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    moments_1: Sequence[Tensor],
    moments_2: Sequence[Tensor],
    *,
    times: Sequence[int],
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-5,
    weight_decay: float = 1e-4,
    cautious: bool = False,
    max_moments_2: Sequence[Tensor] | None = None,
    grad_scale: float = 1.0,
) -> None:
    """Update parameters and their moments in place.

    All is computed in float32 (float64 for float64) in one pass and rounded once, to the dtype of each tensor. All
    tensors are on one device; nothing is changed when one of them is refused.

    Args:
        params: float32, float16, bfloat16 or float64, of any shapes.
        grads: one for each parameter, of its shape and dtype.
        moments_1: first moments, of the parameters' shapes; of their dtype, or float32 for float16 and bfloat16. A flat
            tensor among them holds the moments of several parameters in a row, end to end: with many small parameters
            that saves half of a step's time, which goes into handing tensors over.
        moments_2: second moments, like `moments_1`.
        times: for each parameter the number of this step, from 1.
        lr: learning rate.
        beta_1: decay of the first moments, in [0, 1).
        beta_2: decay of the second moments, in [0, 1).
        epsilon: added to the denominator.
        weight_decay: decoupled decay; a step shrinks by `lr * weight_decay`.
        cautious: decay only values whose sign is that of their first moment (zero counts as positive).
        max_moments_2: the largest second moments so far, like `moments_2`: turns amsgrad on.
        grad_scale: gradients are multiplied by it first.

    Raises:
        ArgumentError: lists of different lengths, a time below 1, or an expanded tensor to be written.
        ShapeError: a tensor does not have its parameter's shape.
        DTypeError: a tensor has another dtype.
        DeviceError: a tensor is on another kind of device than cpu and cuda, or not on the first parameter's.
        AutodiffError: a tensor to be written requires grad, and gradients are on: call it under `torch.no_grad()`.
    """
    largest = [] if max_moments_2 is None else max_moments_2
    lists = (params, grads, moments_1, moments_2, largest, times)
    scalars = (lr, beta_1, beta_2, epsilon, weight_decay, cautious, grad_scale)
    if torch.is_grad_enabled():
        _refuse_tracked(params, moments_1, moments_2, largest)
    device_type = params[0].device.type if params else "cpu"
    if not params or device_type in WITHOUT_NATIVE or device_type not in DEVICES:
        check_lists(*lists)
        _reference(*lists, *scalars)
        return
    try:
        _adamw_step(*lists, *scalars)
    except RuntimeError:
        check_lists(*lists)
        raise
    if not torch.compiler.is_compiling():
        # No dispatcher key does it for lists, and autograd would not see that a tensor it saved has changed.
        torch.autograd.graph.increment_version([*params, *moments_1, *moments_2, *largest])


def adamw_step_reference(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    moments_1: Sequence[Tensor],
    moments_2: Sequence[Tensor],
    *,
    times: Sequence[int],
    lr: float,
    beta_1: float = 0.9,
    beta_2: float = 0.999,
    epsilon: float = 1e-5,
    weight_decay: float = 1e-4,
    cautious: bool = False,
    max_moments_2: Sequence[Tensor] | None = None,
    grad_scale: float = 1.0,
) -> None:
    """The same as `adamw_step_` in plain torch, on any device."""
    largest = [] if max_moments_2 is None else max_moments_2
    _reference(
        *(params, grads, moments_1, moments_2, largest, times),
        *(lr, beta_1, beta_2, epsilon, weight_decay, cautious, grad_scale),
    )


@torch.no_grad()
def _reference(
    params: Sequence[Tensor],
    grads: Sequence[Tensor],
    moments_1: Sequence[Tensor],
    moments_2: Sequence[Tensor],
    max_moments_2: Sequence[Tensor],
    times: Sequence[int],
    lr: float,
    beta_1: float,
    beta_2: float,
    epsilon: float,
    weight_decay: float,
    cautious: bool,
    grad_scale: float,
) -> None:
    moments_1, moments_2 = spread("moments_1", moments_1, params), spread("moments_2", moments_2, params)
    max_moments_2 = spread("max_moments_2", max_moments_2, params) if max_moments_2 else []
    decay = lr * weight_decay
    for index, (param, grad, moment_1, moment_2, time) in enumerate(
        zip(params, grads, moments_1, moments_2, times, strict=True)
    ):
        dtype = torch.promote_types(param.dtype, torch.float32)
        p, g, m, v = param.to(dtype), grad.to(dtype) * grad_scale, moment_1.to(dtype), moment_2.to(dtype)
        m = m * beta_1 + g * (1 - beta_1)
        v = v * beta_2 + g.square() * (1 - beta_2)
        second = v
        if max_moments_2:
            second = torch.maximum(max_moments_2[index].to(dtype), v)
            max_moments_2[index].copy_(second)
        delta = (m / (1 - beta_1**time)) / ((second / (1 - beta_2**time)).sqrt() + epsilon)
        kept = torch.where((p >= 0) == (m >= 0), p - p * decay, p) if cautious else p * (1 - decay)
        param.copy_(kept - delta * lr)
        moment_1.copy_(m)
        moment_2.copy_(v)


def _refuse_tracked(*lists: Sequence[Tensor]) -> None:
    for tensors in lists:
        for tensor in tensors:
            if tensor.requires_grad:
                raise AutodiffError(
                    "adamw_step_: a tensor to be written requires grad, and autograd would lose track of it; "
                    "call it under torch.no_grad()"
                )


@fake("adamw_step_")
def _(
    params: list[Tensor],
    grads: list[Tensor],
    moments_1: list[Tensor],
    moments_2: list[Tensor],
    max_moments_2: list[Tensor],
    times: list[int],
    *scalars: float,
) -> None:
    check_lists(params, grads, moments_1, moments_2, max_moments_2, times)
