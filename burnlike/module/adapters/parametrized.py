"""Putting a module's tensor behind `torch.nn.utils.parametrize`, and taking it out again.

`module.name` becomes torch's property, which computes the tensor from what torch's ParametrizationList holds. Only the
way there is our own, since `register_parametrization` writes to the tensor and computes with it, changes a class that
copies of the module share, runs the module's `__delattr__`, and makes a class that refuses pickling.
"""

from collections.abc import Callable
from functools import update_wrapper
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from ..identity.field_metadata import KEPT, order_fields
from ..torch_objects.wrappers import own_class, parametrizations_of
from ..tree.traversal import field_names

_CHANGED = ("_parameters", "_modules", KEPT)


def restoring(module: nn.Module) -> Callable[[], None]:
    """A function that makes the module what it is, for use if something fails after `take_over`."""
    parts, cls = module.__dict__, type(module)
    before = {key: dict(parts[key]) for key in _CHANGED if key in parts}
    lists = dict(parametrizations_of(module))

    def restore() -> None:
        _set_class(module, cls)
        for key in _CHANGED:
            if key in before:
                _refill(parts[key], before[key])
            else:
                parts.pop(key, None)
        _refill(parametrizations_of(module), lists)

    return restore


def take_over(module: nn.Module, name: str, reparameterization: nn.Module) -> None:
    """Let `module.name` be what `reparameterization` makes of the parameter `name`, which stays the same object."""
    lists = parametrizations_of(module)
    computed, list_of = _torchs_parts(name)
    cls = _parametrized_class(own_class(module), _properties(module) | {name: computed})
    order_fields(module, field_names(module))  # torch's order would move the tensor behind its siblings
    list_of._modules["0"] = reparameterization.train(module.training)
    list_of._parameters["original"] = module._parameters.pop(name)
    if not lists:
        module._modules["parametrizations"] = nn.ModuleDict()
    module._modules["parametrizations"]._modules[name] = list_of  # pyright: ignore[reportOptionalMemberAccess]
    _set_class(module, cls)


def give_back(module: nn.Module, name: str) -> None:
    """Make the tensor behind `name` the parameter again, in its old place, without what `take_over` put around it."""
    order = list(field_names(module))
    lists, properties = parametrizations_of(module), _properties(module)
    tensors = module._parameters | {name: lists.pop(name)._parameters["original"]}
    del properties[name]
    if lists:
        _set_class(module, _parametrized_class(own_class(module), properties))
    else:
        _set_class(module, own_class(module))
        del module._modules["parametrizations"]
    ordered = {key: tensors[key] for key in order if key in tensors}
    _refill(module._parameters, ordered | tensors)


def _torchs_parts(name: str) -> tuple[property, Any]:
    """torch's parts of a parametrized tensor `name`: the property that computes it, and the list of its tensors."""
    module = nn.Module()
    module.register_parameter(name, nn.Parameter(torch.empty(0), requires_grad=False))
    parametrize.register_parametrization(module, name, nn.Identity(), unsafe=True)
    return vars(type(module))[name], parametrizations_of(module)[name]


def _properties(module: nn.Module) -> dict[str, property]:
    return {name: vars(type(module))[name] for name in parametrizations_of(module)}


def _parametrized_class(layer_class: Any, properties: dict[str, property]) -> Any:
    """A class like the one that torch makes, but with the name of `own`, and with pickling and copying.

    Its forward is that of a parametrization which computes the layer by itself (`layer_forward`), or else the layer's.
    """

    def forward(module: Any, *arguments: Any, **keywords: Any) -> Any:
        for list_of in parametrizations_of(module).values():
            compute = getattr(list_of._modules["0"], "layer_forward", None)
            result = None if compute is None else compute(module, layer_class, *arguments, **keywords)
            if result is not None:
                return result
        return super(cls, module).forward(*arguments, **keywords)

    extras = {
        "forward": update_wrapper(forward, layer_class.forward),
        "__module__": parametrize.__name__,
        "__qualname__": layer_class.__qualname__,
        "__getstate__": layer_class.__getstate__,
        "__reduce_ex__": _reduce,
        "_burnlike_ordered": True,
    }
    cls = type(layer_class.__name__, (layer_class,), extras | properties)
    return cls


def _reduce(module: nn.Module, protocol: Any) -> tuple[Any, ...]:
    state: Any = module.__getstate__()  # pyright: ignore[reportAttributeAccessIssue]
    if isinstance(state, dict):
        # RNNs keep the tensors that they last computed with; torch copies no results.
        state = {key: _without_history(value) for key, value in state.items()}
    return _rebuild, (own_class(module), tuple(parametrizations_of(module))), state


def _without_history(value: Any) -> Any:
    if isinstance(value, list) and any(isinstance(item, Tensor) for item in value):
        return [_without_history(item) for item in value]
    return value.detach() if isinstance(value, Tensor) and not value.is_leaf else value


def _rebuild(layer_class: type[nn.Module], names: tuple[str, ...]) -> nn.Module:
    """A module with these tensors parametrized, to be filled with a state."""
    cls = _parametrized_class(layer_class, {name: _torchs_parts(name)[0] for name in names})
    return cls.__new__(cls)


def _set_class(module: nn.Module, cls: type) -> None:
    object.__setattr__(module, "__class__", cls)  # a burnlike Module takes an attribute that is set for a field


def _refill(kept: dict[str, Any], values: dict[str, Any]) -> None:
    kept.clear()
    kept.update(values)
