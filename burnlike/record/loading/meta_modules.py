"""The tensors of a module on the meta device that no record has."""

import torch
from torch import Tensor, nn

from .unset import replace_tensors, unset_tensors

RESET = "reset_non_persistent_buffers"
"""The method of a module that computes its tensors which are in no record."""

Places = dict[int, tuple[nn.Module, str, str, Tensor]]


def registered(module: nn.Module) -> Places:
    """Address of each parameter and buffer -> its module, group and name, and the tensor itself."""
    return {
        id(tensor): (part, group, name, tensor)
        for part in module.modules()
        for group in ("_parameters", "_buffers")
        for name, tensor in getattr(part, group).items()
        if tensor is not None
    }


def compute_unsaved(module: nn.Module, places: Places, device: torch.device) -> list[str]:
    """Compute the tensors of a filled module that no record has, as far as the module can.

    Args:
        module: the module.
        places: its tensors before it was filled.
        device: where the values go.

    Returns:
        The paths of the tensors that still have none.
    """
    _follow(module, places)
    for part in module.modules():
        reset = getattr(part, RESET, None)
        if reset is not None and any("." not in path for path in unset_tensors(part)):
            with torch.device(device):
                reset(device)
    return [*unset_tensors(module)]


def _follow(module: nn.Module, places: Places) -> None:
    """Let plain attributes that refer to a parameter or buffer refer to the one that has taken its place."""

    def now(path: str, tensor: Tensor) -> Tensor:
        if not tensor.is_meta or id(tensor) not in places:
            return tensor
        part, group, name, _ = places[id(tensor)]
        return getattr(part, group).get(name, tensor)

    replace_tensors(module, now)
