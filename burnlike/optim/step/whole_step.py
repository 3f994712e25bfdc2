"""Steps of rules that need whole tensors, under `fully_shard`."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor

from ...module.identity.torch_wrappers import part_of
from ...ops import StepOptions
from ..core.gradient_transform import finish
from ..core.sharded import local, whole
from ..rules.simple_optimizer import SimpleOptimizer


def step_whole(
    rule: SimpleOptimizer[Any],
    lr: float,
    tensors: Sequence[Tensor],
    grads: Sequence[Tensor],
    states: Sequence[Any],
    options: StepOptions,
) -> Sequence[Any]:
    """Update DTensors: every rank gathers them, computes the same, and keeps its part of the weights.

    The states are whole on each rank: what a rule that needs whole tensors costs in memory.

    Args:
        rule: that is not `elementwise`.
        lr: learning rate.
        tensors: DTensors.
        grads: their gradients, DTensors too.
        states: whole ones.
        options: of this rank's parts.
    """
    wholes = [whole(tensor) for tensor in tensors]
    after = rule.step_many(
        lr, wholes, [whole(grad) for grad in grads], states, replace(options, copies=(), zero_grads=False)
    )
    parts = [local(tensor) for tensor in tensors]
    for part, tensor, values in zip(parts, tensors, wholes, strict=True):
        part.copy_(local(part_of(values, tensor)))
    finish(parts, [local(grad) for grad in grads], options)
    return after
