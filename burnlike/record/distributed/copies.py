"""Copies of records of which each process has parts, to be saved while these change."""

import copy
from dataclasses import replace
from typing import Any

from torch import Tensor

from ..._torch_compat.distributed import cpu_mesh
from ...module.torch_objects.wrappers import is_distributed
from ..record import Record
from ..recorder import copied


def copied_parts(record: Record) -> Record:
    """The record with copies of this process's values in the CPU's memory; nothing is sent."""
    if not any(is_distributed(it) for it in record.tensors.values()):
        return copied(record)
    tensors = {name: _copied(it) for name, it in record.tensors.items()}
    return replace(record, tensors=tensors, values=copy.deepcopy(record.values))


def _copied(tensor: Any) -> Tensor:
    if not is_distributed(tensor):
        return tensor.detach().to("cpu", copy=True)
    from torch.distributed.tensor import DTensor

    own = tensor.detach().to_local().to("cpu", copy=True)
    place = {"shape": tensor.shape, "stride": tensor.stride(), "run_check": False}
    return DTensor.from_local(own, cpu_mesh(tensor.device_mesh), tensor.placements, **place)
