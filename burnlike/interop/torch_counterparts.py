"""The pairs of a layer of torch and one of burnlike, from the `COUNTERPARTS` in the files of layers."""

import importlib
import pkgutil
from collections.abc import Mapping, Set
from functools import cache

from torch import nn

from .. import nn as layers
from ..nn.torch_counterpart import Counterpart

KEPT = (nn.Identity, nn.Flatten, nn.Unflatten, nn.Softmax, nn.LogSoftmax, *(
    getattr(nn, f"{name}Pad{dims}d")
    for name in ("Zero", "Constant", "Reflection", "Replication", "Circular") for dims in (1, 2, 3)
))  # fmt: skip
"""Layers of torch without numbers of their own, which Burn's programs write as a line of `forward`."""


@cache
def pairs() -> tuple[Counterpart, ...]:
    """All pairs, by the names of their files. Of several of a layer of burnlike's the last is for four dimensions."""
    names = sorted(it.name for it in pkgutil.walk_packages(layers.__path__, f"{layers.__name__}.") if not it.ispkg)
    return tuple(it for name in names for it in getattr(importlib.import_module(name), "COUNTERPARTS", ()))


@cache
def of_torch() -> Mapping[type[nn.Module], list[Counterpart]]:
    """The pairs of each class of torch; one of them fits a layer."""
    by_class: dict[type[nn.Module], list[Counterpart]] = {}
    for pair in pairs():
        by_class.setdefault(pair.torch, []).append(pair)
    return by_class


@cache
def of_burnlike() -> Mapping[type[nn.Module], Mapping[type[nn.Module], Counterpart]]:
    """The pairs of each class of burnlike, by torch's class; the last is for layers that came from none."""
    by_class: dict[type[nn.Module], dict[type[nn.Module], Counterpart]] = {}
    for pair in pairs():
        by_class.setdefault(getattr(layers, pair.layer), {})[pair.torch] = pair
    return by_class


@cache
def torch_layers() -> Set[type]:
    """The classes of `torch.nn`, and what they are derived from, but for `nn.Module`."""
    public = [var for var in vars(nn).values() if isinstance(var, type) and issubclass(var, nn.Module)]
    return {base for it in public for base in it.__mro__ if issubclass(base, nn.Module)} - {nn.Module}


@cache
def burnlike_layers() -> Set[type]:
    """The classes of modules in `burnlike.nn`."""
    public = [getattr(layers, name) for name in dir(layers)]
    return {it for it in public if isinstance(it, type) and issubclass(it, nn.Module)}
