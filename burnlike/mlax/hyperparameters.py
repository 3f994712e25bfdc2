"""The static part of a module: its class, and its fields that are not parameters or modules."""

import math
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from .._torch_compat.modules import RNN_NOTES
from ..module.attributes.plain_attributes import plain_names
from ..module.torch_objects.wrappers import own_class
from .data import DataTree
from .guards import without_guard
from .parameter import Parameter
from .structure import places

# What containers note about themselves, parametrized tensors about their base, and a recurrent layer of its parameters.
_NOTES = {*("_burnlike_user_container", "_above", "_known", "_count", "_keys"), *("_base_name", *RNN_NOTES)}


def hyperparameters(module: nn.Module) -> dict[str, Any]:
    """The attributes of `module` that are neither parameters nor modules nor torch's own."""
    parts = without_guard(module.__dict__)
    return {name: parts[name] for name in plain_names(parts) if name not in _NOTES}


def own_containers(parts: Iterable[nn.Module]) -> None:
    """Give the modules of a new tree copies of their lists, dicts and sets, so that changes stay within."""
    for part in parts:
        for name, value in hyperparameters(part).items():
            if type(value) in (list, dict, set):
                part.__dict__[name] = _copied(value)


def _copied(value: Any) -> Any:
    """A copy of the lists, dicts and sets in `value`, of what they hold not."""
    if type(value) is list:
        return [_copied(item) for item in value]
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    return set(value) if type(value) is set else value


def static_key(module: nn.Module) -> tuple[Any, ...]:
    """The static part of a tree as a key: equal for modules that a function compiled for one of them also fits.

    It has the classes, the hyperparameters with their types, and of each parameter trainability, label and kind;
    no values, and no plain tensors.

    Raises:
        TypeError: a hyperparameter can't be hashed; the message names it.
    """
    flags = [(place.position, Parameter.at(((place.owner, place.name),))) for place in places(module)]
    return (
        _static(module, ""),
        tuple(sorted((position, it.trainable, it.name or "", it.kind) for position, it in flags)),
    )


def _static(module: nn.Module, prefix: str) -> tuple[Any, ...]:
    values = []
    for name, value in sorted(hyperparameters(module).items()):
        if not isinstance(value, Tensor):
            values.append((name, _hashable(value, prefix + name)))
    children = tuple(
        (name, child.static_key() if isinstance(child, DataTree) else _static(child, f"{prefix}{name}."))
        for name, child in module.named_children()
    )
    return own_class(module), tuple(values), children


def _hashable(value: Any, path: str) -> tuple[type, Any]:
    if type(value) is tuple:
        return tuple, tuple(_hashable(item, path) for item in value)
    if isinstance(value, float) and math.isnan(value):
        return float, "nan"
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"hyperparameter '{path}' is a {type(value).__name__}, which can't be part of a key: use a tuple or another"
            " hashable value"
        ) from None
    return type(value), value
