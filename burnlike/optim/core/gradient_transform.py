"""Changes the gradients of a step before the rule sees them, for rules that have no kernel; and checks of gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ..._torch_compat import foreach
from ..._torch_compat.fsdp import distributed_type
from ...errors import ArgumentError
from ...module import Param
from ...ops import StepOptions

PLAIN = StepOptions()
"""A step that is its formula, and nothing else."""


def computing_dtype(dtype: torch.dtype) -> torch.dtype:
    """The dtype to compute values of `dtype` in: float32 or float64, as float16 can't hold usual squares."""
    return torch.promote_types(dtype, torch.float32)


def is_skipped(options: StepOptions) -> bool:
    """True if the step is to change nothing; on CUDA it waits for the value."""
    return options.skip is not None and bool(options.skip != 0)


# Gradients of `create_graph=True` have a graph, which states made of them would keep alive.
@torch.no_grad()
def transformed_wide(grads: Sequence[Tensor], options: StepOptions) -> list[Tensor]:
    """The gradients that the formula is to see; where they are changed as copies, of half precision in float32."""
    changed = list(grads)
    if options.factors is not None or options.grad_scale != 1.0:
        # A scaled loss is what makes small gradients fit into float16: unscaled they would not.
        changed = [grad.to(computing_dtype(grad.dtype)) for grad in changed]
    if options.grad_scale != 1.0 and changed:
        changed = list(foreach.mul(changed, options.grad_scale))
    if options.factors is not None and changed:
        dtype, factors = changed[0].dtype, options.factors
        if factors.numel() == 1 and all(grad.dtype == dtype for grad in changed):
            changed = list(foreach.mul(changed, factors.reshape(()).to(dtype)))
        else:
            changed = [grad * by for grad, by in zip(changed, factors.expand(len(changed)).unbind(), strict=True)]
    if options.clip_value != float("inf") and changed:
        changed = list(foreach.clamp_min(changed, -options.clip_value))
        foreach.clamp_max_(changed, options.clip_value)
    return changed


def finish(tensors: Sequence[Tensor], grads: Sequence[Tensor], options: StepOptions, *, written: bool = True) -> None:
    """Hand out the new weights and zero the gradients, where the options say so."""
    if written and options.copies:
        foreach.copy_(list(options.copies), list(tensors))
    if options.zero_grads and grads:
        foreach.zero_(list(grads))


def meshes_of(params: Sequence[Param]) -> list[tuple[Any, list[Param]]]:
    """The meshes of ranks on CPUs, and the parameters that are divided among each."""
    divided = distributed_type()
    if divided is None:
        return []
    by_mesh: dict[Any, list[Param]] = {}
    for param in params:
        tensor: Any = param.tensor
        if isinstance(tensor, divided) and tensor.device.type == "cpu":
            by_mesh.setdefault(tensor.device_mesh, []).append(param)
    return [*by_mesh.items()]


def check_alike(meshes: Sequence[tuple[Any, Sequence[Param]]], stepped: Sequence[Param]) -> None:
    """Raise ArgumentError on every rank if only some have a gradient; `meshes` is from `meshes_of`."""
    ours = {param.id for param in stepped}
    for mesh, params in meshes:
        # One reduction for all parameters of a mesh: a rank that lacks one would wait in the next exchange for ever.
        counts = torch.tensor([param.id in ours for param in params], dtype=torch.int32)
        for dim in range(mesh.ndim):
            torch.distributed.all_reduce(counts, group=mesh.get_group(dim))
        for param, count in zip(params, counts.tolist(), strict=True):
            if count not in (0, mesh.size()):
                here = "has one" if param.id in ours else "has none"
                raise ArgumentError(
                    f"'{param.path}' has a gradient on {count} of {mesh.size()} ranks (rank"
                    f" {torch.distributed.get_rank()} {here}): a step needs those of the same parameters on each;"
                    " nothing was changed"
                )
