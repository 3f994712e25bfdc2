"""All parameters of a module as one vector, as L-BFGS sees them."""

from functools import reduce
from itertools import accumulate, pairwise
from typing import Any

import torch
from torch import Tensor, nn

from ..._torch_compat.fsdp import reshard
from ...errors import ArgumentError, DeviceError, ShapeError
from ...module import Param, params
from ...module.torch_objects.wrappers import is_distributed, part_of
from ..core.sharded import local, whole
from ..core.step_checks import check_alike, meshes_of
from ..gradients.gradients import GradientsParams


class FlatParameters:
    """The parameters of a module end to end, in the order of `params`, frozen ones too.

    One without gradient has zeros in the vector of gradients, and is never written. Under `fully_shard` each rank has
    the whole vectors. Their `dtype` is the widest of the parameters', float32 at least; `moving` are the parameters
    that are updated, none until `choose`.
    """

    def __init__(self, module: nn.Module) -> None:
        self.params: list[Param] = params(module, "weight")
        if not self.params:
            raise ArgumentError(f"Lbfgs: expected a module with parameters, got a {type(module).__name__} without any")
        devices = {param.tensor.device: param.path for param in self.params}
        if len(devices) > 1:
            shown = ", ".join(f"'{path}' on {device}" for device, path in devices.items())
            raise DeviceError(f"Lbfgs: expected all parameters on one device, got {shown}")
        self.device = self.params[0].tensor.device
        self.dtype = reduce(torch.promote_types, (param.tensor.dtype for param in self.params), torch.float32)
        ends = list(accumulate(param.tensor.numel() for param in self.params))
        self._places = {param.id: slice(*it) for param, it in zip(self.params, pairwise([0, *ends]), strict=True)}
        self.size = ends[-1]
        self.moving: list[Param] = []
        self._meshes = meshes_of(self.params)
        self._groups = _groups_of(module, [param.tensor for param in self.params])

    def choose(self, grads: GradientsParams) -> None:
        """Let the parameters that have a gradient be those that move; errors are those of `gradient`."""
        self._check(grads)
        ids = {param.id for param in grads.params}
        self.moving = [param for param in self.params if param.id in ids]

    def values(self) -> Tensor:
        """A copy of the values of what moves; zeros elsewhere."""
        flat = self._zeros()
        for param in self.moving:
            self._part(flat, param).copy_(whole(param.tensor.detach()))
        return flat

    def write(self, flat: Tensor) -> None:
        reshard(param.tensor for param in self.moving)
        for param in self.moving:
            tensor, values = param.tensor.detach(), self._part(flat, param)
            if is_distributed(tensor):
                local(tensor).copy_(local(part_of(values.to(tensor.dtype), tensor)))
            else:
                tensor.copy_(values)

    def gradient(self, grads: GradientsParams) -> Tensor:
        """The gradients of what moves as a vector; an error for one of another module or of another shape."""
        self._check(grads)
        flat = self._zeros()
        found = {param.id: value for param, value in zip(grads.params, grads.values, strict=True)}
        for param in self.moving:
            if (value := found.get(param.id)) is not None:
                self._part(flat, param).copy_(whole(value))
        return flat

    def still(self, flat: Tensor) -> Tensor:
        """The vector itself, set to zero where nothing moves."""
        moving = {param.id for param in self.moving}
        for param in self.params:
            if param.id not in moving:
                self._part(flat, param).zero_()
        return flat

    def agreed(self, loss: float) -> float:
        """The mean of a loss over the ranks that train the module together, so that all decide alike."""
        if not self._groups:
            return loss
        total = torch.tensor([loss], dtype=torch.float64, device=self.device)
        for group in self._groups:
            torch.distributed.all_reduce(total, group=group)
            total /= torch.distributed.get_world_size(group)
        return total.item()

    def _zeros(self) -> Tensor:
        return torch.zeros(self.size, dtype=self.dtype, device=self.device)

    def _part(self, flat: Tensor, param: Param) -> Tensor:
        return flat[self._places[param.id]].view(param.tensor.shape)

    def _check(self, grads: GradientsParams) -> None:
        check_alike(self._meshes, grads.params)
        by_id = {param.id: param for param in self.params}
        for param, value in zip(grads.params, grads.values, strict=True):
            if param.id not in by_id:
                raise ArgumentError(
                    f"Lbfgs: the closure gave a gradient of '{param.path}' ({param.id}), which is no parameter of the"
                    " module; take the gradients of the module that the closure is given"
                )
            shape = by_id[param.id].tensor.shape
            if value.shape != shape:
                raise ShapeError(
                    f"the gradient of '{param.path}' has shape {list(value.shape)}, expected {list(shape)}; the"
                    " parameters are as they were"
                )


def _groups_of(module: nn.Module, tensors: list[Tensor]) -> list[Any]:
    """The process groups over which losses are averaged: that of DDP, or those of the mesh of `fully_shard`."""
    if isinstance(module, nn.parallel.DistributedDataParallel):
        return [module.process_group]
    sharded: Any = next(filter(is_distributed, tensors), None)
    if sharded is None:
        return []
    mesh = sharded.device_mesh
    return [mesh.get_group(dim) for dim in range(mesh.ndim)]
