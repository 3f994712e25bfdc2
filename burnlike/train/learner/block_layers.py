"""The linear layers of a model's blocks, which may compute in 8 bits while the model is trained."""

from collections.abc import Iterator
from typing import Any

from torch import nn

from ...module.torch_objects.wrappers import is_distributed, own_class
from ...nn import Linear
from ..parallel.fsdp2 import blocks_of


def linear_layers(model: nn.Module) -> Iterator[tuple[str, Any, list[int]]]:
    """Paths, layers and the sizes of the weights that this process computes with, without layers with adapters.

    These are `nn.Linear` and burnlike's `Linear`, with the forward of their class.
    """
    of_blocks = {id(it) for block in blocks_of(model) for it in block.modules()}
    for path, module in model.named_modules():
        if id(module) not in of_blocks or own_class(module) not in (nn.Linear, Linear):
            continue
        is_plain = type(module).forward in (nn.Linear.forward, Linear.forward) and "forward" not in vars(module)
        if is_plain and "parametrizations" not in module._modules:
            yield path, module, _computed(module.weight)


def _computed(weight: Any) -> list[int]:
    """The shape of the part of a weight that this process computes with: tensor parallelism divides a layer."""
    shape = [*weight.shape]
    if is_distributed(weight):
        mesh = weight.device_mesh
        for place, name in enumerate(mesh.mesh_dim_names or ()):
            dim = getattr(weight.placements[place], "dim", None)
            if name == "tensor" and dim is not None:
                shape[dim] //= mesh.size(place)
    return shape
