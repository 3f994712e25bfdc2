"""Changes the gradients of a step before the rule sees them, for rules that have no kernel."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ..._torch_compat import foreach
from ...ops import StepOptions

PLAIN = StepOptions()
"""A step that is its formula, and nothing else."""


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute values of `dtype` in: float32 or float64, as float16 can't hold usual squares."""
    return torch.promote_types(dtype, torch.float32)


def is_skipped(options: StepOptions) -> bool:
    """Whether the step is to change nothing; on CUDA it waits for what was computed."""
    return options.skip is not None and bool(options.skip != 0)


@torch.no_grad()
def transformed_wide(grads: Sequence[Tensor], options: StepOptions) -> list[Tensor]:
    """The gradients that the formula is to see; where they are changed as copies, of half precision in float32."""
    found = list(grads)
    if options.factors is not None or options.grad_scale != 1.0:
        # A scaled loss is what makes small gradients fit into float16: unscaled they would not.
        found = [grad.to(computing_dtype(grad.dtype)) for grad in found]
    if options.grad_scale != 1.0 and found:
        found = list(foreach.mul(found, options.grad_scale))
    if options.factors is not None and found:
        dtype, factors = found[0].dtype, options.factors
        if factors.numel() == 1 and all(grad.dtype == dtype for grad in found):
            found = list(foreach.mul(found, factors.reshape(()).to(dtype)))
        else:
            found = [grad * by for grad, by in zip(found, factors.expand(len(found)).unbind(), strict=True)]
    if options.clip_value != float("inf") and found:
        found = list(foreach.clamp_min(found, -options.clip_value))
        foreach.clamp_max_(found, options.clip_value)
    return found


def transformed(grads: Sequence[Tensor], options: StepOptions) -> list[Tensor]:
    return [found.to(grad.dtype) for found, grad in zip(transformed_wide(grads, options), grads, strict=True)]


def finish(tensors: Sequence[Tensor], grads: Sequence[Tensor], options: StepOptions, *, written: bool = True) -> None:
    """Hand out the new weights and zero the gradients, where the options say so."""
    if written and options.copies:
        foreach.copy_(list(options.copies), list(tensors))
    if options.zero_grads and grads:
        foreach.zero_(list(grads))
