"""Checks of a step's gradients: that there is one, and that all ranks of a job have those of the same parameters."""

import warnings
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from ...errors import ArgumentError
from ...module import Param
from ...module.torch_objects.wrappers import distributed_type


def meshes_of(params: Sequence[Param]) -> list[tuple[Any, list[Param]]]:
    """The meshes of ranks on CPUs, and the parameters that are divided among each."""
    divided = distributed_type()
    if divided is None:
        return []
    found: dict[Any, list[Param]] = {}
    for param in params:
        tensor: Any = param.tensor
        if isinstance(tensor, divided) and tensor.device.type == "cpu":
            found.setdefault(tensor.device_mesh, []).append(param)
    return [*found.items()]


def check_alike(meshes: Sequence[tuple[Any, Sequence[Param]]], stepped: Sequence[Param]) -> None:
    """Raise ArgumentError on every rank if only some have a gradient; `meshes` is from `meshes_of`."""
    ours = {param.id for param in stepped}
    for mesh, params in meshes:
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


Module = TypeVar("Module", bound=nn.Module)


class WarnsOfMissingGradients:
    """Warns once if a step finds no gradient for any parameter."""

    _has_warned = False

    def _without_gradients(self, module: Module) -> Module:
        """`module` after a step that found no gradient at all, which is said once."""
        if self._has_warned:
            return module
        self._has_warned = True
        if any(parameter.requires_grad for parameter in module.parameters()):
            causes = (
                "Is there a loss.backward() before step(), of a loss that this very module computed, not a copy of it?"
                " Note that zero_grad(), from_module() and from_grads() take gradients away, and"
                " backward(create_graph=True) leaves none in .grad"
            )
        else:
            causes = "All are frozen"
        warnings.warn(
            f"step: no parameter of the {type(module).__name__} that is to be trained has a gradient, so nothing has"
            f" changed. {causes}.",
            stacklevel=4,
        )
        return module
