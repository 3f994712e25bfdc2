"""Steps under `fully_shard`: each rank updates the part of a parameter that it holds.

Update rules go element by element, so a part needs no other; only a norm is of the whole.
"""

import dataclasses
from typing import Any

from torch import Tensor

from ..module.wrappers import is_distributed


def local(tensor: Any) -> Tensor:
    """The part of `tensor` that this rank holds, sharing its memory; `tensor` itself where it is whole."""
    return tensor.to_local() if is_distributed(tensor) else tensor


def local_state(state: Any, tensor: Tensor) -> Any:
    """The state of a parameter that was sharded since: of each whole tensor the part that belongs to this rank's.

    Args:
        state: a dataclass of tensors of the parameter's shape, or None.
        tensor: the parameter, a DTensor or not.

    Returns:
        The state with this rank's parts; the state itself where it has them.
    """
    if state is None or not is_distributed(tensor):
        return state
    parts = {}
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if dataclasses.is_dataclass(value):
            parts[field.name] = local_state(value, tensor)
        elif isinstance(value, Tensor) and value.shape == tensor.shape != local(tensor).shape:
            parts[field.name] = _part(value, tensor)
    return dataclasses.replace(state, **parts) if parts else state


def _part(value: Tensor, like: Any) -> Tensor:
    from torch.distributed.tensor import distribute_tensor

    # Every rank has the whole: nothing is sent.
    return distribute_tensor(value, like.device_mesh, like.placements, src_data_rank=None).to_local().clone()
