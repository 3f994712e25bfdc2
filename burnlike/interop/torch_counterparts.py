"""All pairs of a layer of `torch.nn` and a layer of `burnlike.nn`, from the families' `torch_counterparts.py`."""

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec

from torch import nn

from .. import nn as layers
from ..nn.torch_counterpart import Counterpart


def pairs() -> list[Counterpart]:
    """All of them, in the order of the families' names; of several of a layer the last is that of rank 4."""
    names = [
        f"{layers.__name__}.{it.name}.torch_counterparts" for it in pkgutil.iter_modules(layers.__path__) if it.ispkg
    ]
    return [it for name in names if find_spec(name) for it in importlib.import_module(name).COUNTERPARTS]


@cache
def of_torch() -> Mapping[type[nn.Module], list[Counterpart]]:
    """The pairs of each class of torch; one of them fits a layer."""
    found: dict[type[nn.Module], list[Counterpart]] = {}
    for it in pairs():
        found.setdefault(it.torch, []).append(it)
    return found


@cache
def of_burnlike() -> Mapping[type[nn.Module], Mapping[type[nn.Module], Counterpart]]:
    """The pairs of each class of burnlike, by torch's class; the last of them stands for those that nothing tells."""
    found: dict[type[nn.Module], dict[type[nn.Module], Counterpart]] = {}
    for it in pairs():
        found.setdefault(getattr(layers, it.layer), {})[it.torch] = it
    return found
