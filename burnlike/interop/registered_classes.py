"""Twins of classes that are not torch's own: classes derived from torch's layers, and modules that call layers."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from .. import nn as layers
from ..nn.torch_counterpart import Counterpart
from .special_layers import Linear, ReadWeight
from .torch_counterparts import burnlike_layers, of_torch, torch_layers


@dataclass(frozen=True, slots=True)
class Registered:
    """A class and its twin, and the pairs of the layer of torch's that `theirs` is derived from, if it is from one."""

    theirs: type[nn.Module]
    ours: type[nn.Module]
    pairs: tuple[Counterpart, ...]
    expect: Callable[[Any], object]

    def pair_of(self, layer: nn.Module) -> Counterpart | None:
        """The pair of the layer of torch's behind an object of either class."""
        is_theirs = type(layer) is self.theirs
        return next((pair.of(layer) for pair in self.pairs if not is_theirs or pair.fits(layer)), None)


_OF_THEIRS: dict[type[nn.Module], Registered] = {}
_OF_OURS: dict[type[nn.Module], Registered] = {}
_FAMILIES = {"timm": "timm_layers", "torchvision": "torchvision_layers"}
"""Package -> the module that registers twins of its classes, imported when one of these is met."""


def register_twin(
    theirs: type[nn.Module], ours: type[nn.Module], expect: Callable[[Any], object] = lambda layer: None
) -> None:
    """Let `from_torch` make an object of `ours` of each object of `theirs`, and `to_torch` the reverse.

    There are two kinds:

    * `theirs` is derived from a layer of torch's that has a twin: `ours` is derived from that twin. Tensors and options
      of torch's layer become those of the twin; what the class has beside them (parameters, modules, attributes)
      is there under the same names, its modules converted. `forward` computes the same with burnlike's layer,
      whose `weight` is `[d_input, d_output]` if it is a `Linear`.
    * `theirs` is any other class, which calls a layer that its twin is called differently from (`nn.LSTM`,
      `nn.MultiheadAttention`, ...): `ours` is derived from `theirs`, with that call changed.

    `__init__` of neither class is called. timm's layers, and blocks of torchvision, are registered already; a later
    registration takes the place of an earlier one of the same class.

    Example:
        >>> import torch, burnlike as bl
        >>> class Scaled(torch.nn.Linear):
        ...     scale = 2.0
        ...     def forward(self, x):
        ...         return super().forward(x) * self.scale
        >>> class ScaledTwin(bl.nn.Linear):
        ...     scale = 2.0
        ...     def forward(self, x):
        ...         return super().forward(x) * self.scale
        >>> bl.interop.register_twin(Scaled, ScaledTwin)
        >>> type(bl.interop.from_torch(torch.nn.Sequential(Scaled(2, 2)))[0]).__name__
        'ScaledTwin'

    Args:
        theirs: the class, exactly; an object of a class derived from it is refused as before.
        ours: derived as above, and the twin of no other class; else it is a TypeError.
        expect: called with each object of `theirs`; raises `NoCounterpartError` for options that `ours` has not.
    """
    for kind in (theirs, ours):
        if not (isinstance(kind, type) and issubclass(kind, nn.Module)):
            raise TypeError(f"register_twin: expected two classes of modules, got {kind!r}")
    if theirs in torch_layers() | burnlike_layers() or theirs in _OF_OURS:
        raise TypeError(f"register_twin: {theirs.__name__} is a layer of torch's or burnlike's, not a class of its own")
    pairs = next((of_torch()[base] for base in theirs.__mro__ if base in of_torch()), [])
    if any(pair.call != "same" for pair in pairs):
        raise TypeError(
            f"register_twin: {theirs.__name__} is derived from {pairs[0].torch.__name__}, whose twin is called in"
            " another way; register the class that calls it"
        )
    expected = [getattr(layers, pair.layer) for pair in pairs] or [theirs]
    if not issubclass(ours, tuple(expected)) or ours in (theirs, *expected):
        names = " or ".join(f"{kind.__module__}.{kind.__qualname__}" for kind in dict.fromkeys(expected))
        raise TypeError(f"register_twin: the twin of {theirs.__name__} is to be derived from {names}, got {ours!r}")
    registration = _OF_OURS.get(ours)
    if registration is not None and registration.theirs is not theirs:
        raise TypeError(f"register_twin: {ours.__name__} is the twin of {registration.theirs.__qualname__} already")
    _load_family(theirs)
    if before := _OF_THEIRS.get(theirs):
        del _OF_OURS[before.ours]
    fitting = tuple(pair for pair in pairs if issubclass(ours, getattr(layers, pair.layer)))
    _OF_THEIRS[theirs] = _OF_OURS[ours] = Registered(theirs, ours, fitting, expect)
    if issubclass(ours, layers.Linear) and not issubclass(ours, Linear) and "weight" not in ours.__dict__:
        # Programs may read its weight as that of torch's layers, too.
        ours.weight, ours._own_weight = ReadWeight(), Linear._own_weight  # pyright: ignore


def registered(kind: type[nn.Module]) -> Registered | None:
    """The registration of a class, as theirs or ours."""
    if kind not in _OF_THEIRS and kind not in _OF_OURS:
        _load_family(kind)
    return _OF_THEIRS.get(kind) or _OF_OURS.get(kind)


def _load_family(kind: type) -> None:
    family = _FAMILIES.pop(kind.__module__.partition(".")[0], None)
    if family is not None:
        importlib.import_module(f"{__package__}.families.{family}").register()
