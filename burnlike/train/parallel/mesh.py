"""The place of a process among the others of its job: torch's device meshes, and the groups that a step needs."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from ..._torch_compat.distributed import forget_earlier_meshes
from .configs import MeshSizes


class Mesh:
    """The processes of a job, by what they divide among them. All processes make it together.

    Attributes:
        sizes: how many processes each dimension has.
        root: the dimensions `pipeline`, `replicate`, `shard`, `tensor`, without those of one process but for `shard`.
            Its `shard` has the processes of `shard` and of `context`, as parameters are divided among both.
        context: the processes that share a sequence, one dimension; None for one.
        expert: the processes that share the experts of a layer, one dimension; None for one.
        same_experts: the processes with the same experts, which divide these as `fsdp` does the rest; or None.
        coordinates: the number of this process in each dimension of `sizes`.
        data_group: the processes with other items or another part of a sequence; None: all.
    """

    def __init__(self, sizes: MeshSizes, device: torch.device) -> None:
        forget_earlier_meshes()
        self.sizes = sizes
        shape = {
            "pipeline": sizes.pipeline,
            "replicate": sizes.replicate,
            "shard": sizes.shard * sizes.context,
            "tensor": sizes.tensor,
        }
        shape = {name: size for name, size in shape.items() if size > 1 or name == "shard"}
        self.root = init_device_mesh(device.type, tuple(shape.values()), mesh_dim_names=tuple(shape))
        before = ("pipeline", "replicate", "shard", "context", "tensor")
        ranks = torch.arange(sizes.world).view(sizes[:-1])
        place = (ranks == dist.get_rank()).nonzero()[0].tolist()
        self.coordinates: dict[str, int] = dict(zip(before, place, strict=True))
        self.context = None if sizes.context == 1 else _row(device, ranks.movedim(3, -1))
        self.expert = self.same_experts = None
        if sizes.expert > 1:
            self.expert, self.same_experts = _of_experts(device, ranks, sizes)
        self.data_group: Any = None  # torch says that a group may be an int
        # All processes make all of its groups in one order, as torch demands, also those that they are not in.
        if sizes.mean < sizes.world:
            groups = ranks.permute(0, 4, 1, 2, 3).reshape(-1, sizes.mean)
            self.data_group, _ = dist.new_subgroups_by_enumeration(groups.tolist())

    @property
    def data_rank(self) -> int:
        """Number of the part of a batch that this process reads, of `sizes.data`."""
        return self.coordinates["replicate"] * self.sizes.shard + self.coordinates["shard"]

    @property
    def is_first_of_data(self) -> bool:
        """True if this process is the first of `data_group`."""
        return self.data_rank == self.coordinates["context"] == 0

    @property
    def fsdp(self) -> DeviceMesh:
        """The processes that parameters are divided among, and before these those with copies of all, if there are."""
        return self._below("replicate", "shard") if self.sizes.replicate > 1 else self._below("shard")

    @property
    def tensor(self) -> DeviceMesh | None:
        """The processes that share each layer; None for one."""
        return self._below("tensor") if self.sizes.tensor > 1 else None

    @property
    def pipeline(self) -> DeviceMesh | None:
        """The processes with the stages of the model; None for one."""
        return self._below("pipeline") if self.sizes.pipeline > 1 else None

    def names_of_groups(self) -> dict[tuple[int, ...], str]:
        """Names of this process's groups, by their ranks."""
        names = {tuple(range(self.sizes.world)): "all"}
        if self.data_group is not None:
            names[tuple(dist.get_process_group_ranks(self.data_group))] = "data"
        meshes = [("context", self.context), ("expert", self.expert)]
        meshes += [(name, self._below(name)) for name in self.root.mesh_dim_names or ()]
        return names | {tuple(it.mesh.tolist()): name for name, it in meshes if it is not None}

    def group_of_stages(self, places: Sequence[int]) -> Any:
        """The processes of this one's pipeline with these places; None where it has none. All of the job make it."""
        below = self.sizes.world // self.sizes.pipeline
        groups = [[first + below * place for place in places] for first in range(below)]
        group, _ = dist.new_subgroups_by_enumeration(groups)
        return group

    def _below(self, *names: str) -> DeviceMesh:
        return self.root if self.root.mesh_dim_names == names else self.root[names]


def _of_experts(device: torch.device, ranks: Any, sizes: MeshSizes) -> tuple[DeviceMesh, DeviceMesh]:
    """The processes that share experts, neighbours among those with items of their own; and those with the same."""
    of_data = ranks.reshape(sizes.pipeline, -1, sizes.expert, sizes.context, sizes.tensor)
    replicate = sizes.replicate if sizes.shard > 1 else sizes.replicate // sizes.expert
    same = of_data.unflatten(1, (replicate, -1)).permute(0, 3, 5, 1, 2, 4).flatten(4)
    expert = _row(device, of_data.movedim(2, -1))
    if replicate == 1:
        return expert, _row(device, same)
    names = ("other", "replicate", "shard")
    return expert, DeviceMesh(device.type, same.flatten(0, 2), mesh_dim_names=names)["replicate", "shard"]


def _row(device: torch.device, ranks: Any) -> DeviceMesh:
    """The row, along the last dimension, that this process is in."""
    size = ranks.shape[-1]
    mesh = DeviceMesh(device.type, ranks.reshape(-1, size), mesh_dim_names=("other", "own"))
    return mesh["own"]
