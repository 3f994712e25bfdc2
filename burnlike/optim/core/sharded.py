"""Steps under `fully_shard`: each rank updates the part of a parameter that it holds.

Update rules go element by element, so a part needs no other; only a norm is of the whole.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ...module import Param, ParamId
from ...module.torch_objects.wrappers import distributed_type, is_distributed, local as local, part_of
from .state import map_tensors


class Parts(list[Tensor]):
    """This rank's parts of parameters. What is kept of one has memory of its own, which torch's checkpoints ask for."""


@dataclass(frozen=True, slots=True)
class OtherStages:
    """Of a model that is cut into stages: what a norm of all gradients needs of the other processes.

    Attributes:
        summed: the sum of a tensor over the processes; all call it in each step, and for as many values.
        counted_elsewhere: ids of parameters that an earlier stage has, too, and whose gradients it counts.
    """

    summed: Callable[[Tensor], Tensor]
    counted_elsewhere: frozenset[ParamId]

    def own_sum(self, squares: Tensor, ids: Sequence[ParamId | None]) -> Tensor:
        """The sum of what this process counts, float64 `[1]`, of the sums of squares of its gradients."""
        counts = torch.tensor([it not in self.counted_elsewhere for it in ids], device=squares.device, dtype=torch.bool)
        return squares.where(counts, 0.0).sum(0, keepdim=True)


def local_state(state: Any, tensor: Tensor) -> Any:
    """The state of a parameter with this rank's part of each tensor that is whole or a DTensor."""
    if state is None or not is_distributed(tensor):
        return state
    return map_tensors(state, lambda value: _local_part(value, tensor))


@dataclass(frozen=True, slots=True)
class Division:
    """How a parameter is sharded: device mesh, placements, shape and stride of the whole, shape of this rank's part."""

    mesh: Any
    placements: tuple[Any, ...]
    shape: torch.Size
    stride: tuple[int, ...]
    local_shape: torch.Size


def division_of(tensor: Any) -> Division | None:
    """The way in which a parameter is sharded; None for a whole one."""
    if not is_distributed(tensor):
        return None
    return Division(tensor.device_mesh, tensor.placements, tensor.shape, tensor.stride(), local(tensor).shape)


def divided_state(state: Any, division: Division | None) -> Any:
    """The state of a parameter with this rank's parts as DTensors that are divided as the parameter is."""
    if division is None:
        return state
    from torch.distributed.tensor import DTensor

    def divided(value: Tensor) -> Tensor:
        if is_distributed(value) or value.shape != division.local_shape:
            return value
        place = {"shape": division.shape, "stride": division.stride, "run_check": False}
        return DTensor.from_local(value, division.mesh, division.placements, **place)

    return map_tensors(state, divided)


def _local_part(value: Tensor, tensor: Tensor) -> Tensor:
    if is_distributed(value):
        return local(value)
    if value.shape == tensor.shape != local(tensor).shape:
        return local(part_of(value, tensor)).clone()
    shares = isinstance(value, Tensor) and value.nbytes < value.untyped_storage().nbytes()
    return value.clone() if shares else value


def whole(tensor: Any) -> Tensor:
    """The whole of `tensor`, the same on each rank; `tensor` itself where it is not divided."""
    return tensor.full_tensor() if is_distributed(tensor) else tensor


def summed_over_ranks(sums: Tensor, tensors: Sequence[Any]) -> Tensor:
    """Sums over this rank's parts of `tensors` as sums over the whole tensors: one reduction for each mesh."""
    places: dict[Any, list[int]] = {}
    for place, tensor in enumerate(tensors):
        if is_distributed(tensor):
            dims = tuple(dim for dim, it in enumerate(tensor.placements) if not it.is_replicate())
            places.setdefault((tensor.device_mesh, dims), []).append(place)
    found = sums.clone()
    for (mesh, dims), some in places.items():
        part = sums[some]
        for dim in dims:
            torch.distributed.all_reduce(part, group=mesh.get_group(dim))
        found[some] = part
    return found


@torch.no_grad()
def placed_gradients(params: Sequence[Param], grads: Sequence[Tensor]) -> list[Tensor]:
    """The gradients, each divided among the ranks as its parameter.

    Under sequence parallelism each rank has a summand of the gradient of a replicated parameter (`Partial` of torch):
    these are added up. All ranks call it.
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
    if divided is None:
        return grads
    partial = [isinstance(grad, divided) and any(it.is_partial() for it in grad.placements) for grad in grads]
    if not any(partial):
        return grads
    from torch.distributed.tensor import Replicate

    return [
        grad.redistribute(placements=[Replicate() if it.is_partial() else it for it in grad.placements])
        if is_partial
        else grad
        for grad, is_partial in zip(grads, partial, strict=True)
    ]
