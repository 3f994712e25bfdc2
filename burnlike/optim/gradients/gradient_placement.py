"""Shards the gradients of DTensor parameters as these are sharded, before anything is done with them."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ...module import Param
from ...module.identity.torch_wrappers import distributed_type


@torch.no_grad()
def placed(params: Sequence[Param], grads: Sequence[Tensor]) -> list[Tensor]:
    """The gradients, each divided among the ranks as its parameter.

    Under sequence parallelism each rank has a summand of the gradient of a replicated parameter (`Partial` of torch):
    these are added up. All ranks call it.

    Args:
        params: the parameters.
        grads: of each.
    """
    divided = distributed_type()
    if divided is None or not any(isinstance(grad, divided) for grad in grads):
        return list(grads)
    both: list[tuple[Any, Any]] = [(grad, param.tensor) for param, grad in zip(params, grads, strict=True)]
    return [
        grad.redistribute(tensor.device_mesh, tensor.placements)
        if isinstance(grad, divided) and isinstance(tensor, divided) and grad.placements != tensor.placements
        else grad
        for grad, tensor in both
    ]


def added_up(grads: Sequence[Any]) -> Sequence[Tensor]:
    """The gradients; of each that ranks have summands of, the sum."""
    divided = distributed_type()
    if divided is None or not any(isinstance(grad, divided) and _is_partial(grad) for grad in grads):
        return grads
    from torch.distributed.tensor import Replicate

    def added(grad: Any) -> Tensor:
        if not isinstance(grad, divided) or not _is_partial(grad):
            return grad
        return grad.redistribute(placements=[Replicate() if it.is_partial() else it for it in grad.placements])

    return [added(grad) for grad in grads]


def _is_partial(grad: Any) -> bool:
    return any(it.is_partial() for it in grad.placements)
