"""Putting a module's tensor behind `torch.nn.utils.parametrize`, and taking it out again.

torch does the work: `module.name` becomes a property that computes the tensor from the one it holds. Three of its
habits are undone here: it writes to the tensor and computes with it when it takes it over, it lets copies of a module
share the class that it changes, and it refuses pickling.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from .module import Module
from .tree import field_names, own_class

_CHANGED = ("_parameters", "_modules", "_fields")


class Snapshot:
    """What `take_over` changes of a module, to be put back if it fails later on."""

    def __init__(self, module: nn.Module) -> None:
        parts = module.__dict__
        self._module = module
        self._class = type(module)
        self._parts = {key: dict(parts[key]) for key in _CHANGED if key in parts}
        self._lists = dict(lists_of(module))

    def restore(self) -> None:
        """Make the module what it was."""
        parts = self._module.__dict__
        self._module.__class__ = self._class
        for key in _CHANGED:
            if key in self._parts:
                _refill(parts[key], self._parts[key])
            else:
                parts.pop(key, None)
        _refill(lists_of(self._module), self._lists)


def lists_of(module: nn.Module) -> dict[str, Any]:
    """Name of each parametrized tensor of `module` -> its ParametrizationList; the dict that torch keeps."""
    lists = module._modules.get("parametrizations")
    return lists._modules if isinstance(lists, nn.ModuleDict) and type(module) is not own_class(module) else {}


def take_over(module: nn.Module, name: str, reparameterization: nn.Module) -> None:
    """Let `module.name` be what `reparameterization` makes of the parameter `name`, which stays the same object."""
    tensor = module._parameters[name]
    if not isinstance(module, Module):
        # torch's order would move the tensor behind its siblings.
        module.__dict__.setdefault("_fields", dict.fromkeys(field_names(module)))
    if lists_of(module):
        _unshare_class(module)
    stand_in = nn.Parameter(torch.empty(0), requires_grad=False)
    module._parameters[name] = stand_in
    parametrize.register_parametrization(module, name, nn.Identity(), unsafe=True)
    held = lists_of(module)[name]
    held._modules["0"] = reparameterization.train(module.training)
    held._parameters["original"] = tensor
    _dress(type(module))


def give_back(module: nn.Module, name: str) -> None:
    """Make the tensor behind `name` the parameter again, in its old place, without what `take_over` put around it."""
    order = list(field_names(module))
    lists = lists_of(module)
    tensor = lists.pop(name)._parameters["original"]
    if lists:
        _unshare_class(module)
        delattr(type(module), name)
    else:
        module.__class__ = own_class(module)
        del module._modules["parametrizations"]
        if isinstance(module, Module):
            module.__dict__["_fields"].pop("parametrizations", None)
        else:
            del module.__dict__["_fields"]
    held = module._parameters | {name: tensor}
    ordered = {key: held[key] for key in order if key in held}
    _refill(module._parameters, ordered | held)


def _refill(kept: dict[str, Any], values: dict[str, Any]) -> None:
    kept.clear()
    kept.update(values)


def _unshare_class(module: Any) -> None:
    """Give `module` a class of its own: copies and views share the one that torch made, with its properties."""
    cls = type(module)
    module.__class__ = type(cls.__name__, cls.__bases__, dict(cls.__dict__))


def _dress(cls: Any) -> None:
    """Let the class that torch made go by the name of the module's own, and its instances be pickled."""
    own = cls.__bases__[0]
    cls.__name__, cls.__qualname__ = own.__name__, own.__qualname__
    cls.__reduce_ex__ = _reduce
    torchs = cls.__dict__.get("__deepcopy__")
    if torchs is not None and torchs.__module__ == parametrize.__name__:
        cls.__deepcopy__ = _copying_results(torchs)


def _copying_results(deepcopy: Any) -> Any:
    """Let modules be copied that keep the tensors they last computed with, as the RNNs do; torch copies no results."""

    def __deepcopy__(self: nn.Module, memo: dict[int, Any]) -> Any:
        for value in self.__dict__.values():
            for tensor in value if isinstance(value, list) else [value]:
                if isinstance(tensor, Tensor) and not tensor.is_leaf:
                    memo[id(tensor)] = tensor.detach().clone()
        return deepcopy(self, memo)

    return __deepcopy__


def _reduce(module: nn.Module, protocol: Any) -> tuple[Any, ...]:
    own: Any = own_class(module)
    return _rebuild, (own, tuple(lists_of(module))), own.__getstate__(module)


def _rebuild(cls: type[nn.Module], names: tuple[str, ...]) -> nn.Module:
    """A module of `cls` with these tensors parametrized, to be filled with a pickled state."""
    module = cls.__new__(cls)
    nn.Module.__init__(module)
    for name in names:
        module._parameters[name] = None
        take_over(module, name, nn.Identity())
    return module
