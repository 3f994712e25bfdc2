"""What `torch.nn.utils.parametrize` makes of a module's tensors, and which of them is the base of each."""

from typing import Any

from torch import Tensor, nn

from ..._torch_compat.fsdp import sharded
from ..identity.torch_wrappers import own_class


def parametrizations_of(module: nn.Module) -> dict[str, Any]:
    """Tensor name -> the ParametrizationList that took it over (`torch.nn.utils.parametrize`); the dict torch keeps."""
    lists = module._modules.get("parametrizations")
    return lists._modules if isinstance(lists, nn.ModuleDict) and type(module) is not own_class(module) else {}


def base_tensor(module: nn.Module, name: str) -> Tensor | None:
    """The tensor of the field `name`, without computing it: of a parametrized one, what it is computed from."""
    list_of = parametrizations_of(module).get(name)
    if list_of is not None:
        key = base_name(list_of)
        module, name = list_of, key
    groups = (module._parameters, module._buffers, module.__dict__)
    shown = next((group[name] for group in groups if isinstance(group.get(name), Tensor)), None)
    return None if shown is None else sharded(module, name, shown)


def reparameterization_of(module: nn.Module, name: str) -> nn.Module | None:
    """The burnlike reparameterization (LoRA, ...) of the tensor `name` of `module`, or None."""
    found = parametrizations_of(module).get(name)
    first = found._modules.get("0") if found is not None else None
    return first if hasattr(type(first), "reparameterization_name") else None


def base_name(list_of: nn.Module) -> str:
    """Which of a parametrization's tensors takes the place of the original: the largest, of equal ones the last.

    In a part of a module, from which tensors were filtered out, it is noted which it was.
    """
    if "_base_name" in list_of.__dict__:
        return list_of.__dict__["_base_name"]
    sizes = {
        key: 0 if tensor is None else tensor.numel()
        for key, tensor in (*list_of._parameters.items(), *list_of._buffers.items())
    }
    return max(sizes, key=lambda key: (sizes[key], key))
