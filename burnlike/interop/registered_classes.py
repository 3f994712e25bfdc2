"""Twins of classes that are not torch's own: classes derived from torch's layers, and modules that call layers.

Where code that was written for torch's layers needs more than burnlike's do, `from_torch` makes subclasses of the same
names: layers that write into their input, as torch's with `inplace=True`, and a `Linear` whose weight that code reads
in torch's layout.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .. import nn as layers
from ..nn.torch_counterpart import Counterpart
from .torch_counterparts import burnlike_layers, of_torch, pairs, torch_layers

READERS = "_torch_readers"
"""The attribute with the classes whose methods read the weight in torch's layout."""


class WritesIntoInput(nn.Module):
    """A layer with torch's `inplace=True`: others see its output in its input.

    It computes with a copy, since autograd may keep what a layer computes with.
    """

    def forward(self, x: Any) -> Any:
        if not isinstance(x, Tensor):
            return super().forward(x)
        copied = x.clone() if torch.is_grad_enabled() and x.requires_grad else x
        output = super().forward(copied)
        return x if output is copied else x.copy_(output)  # a Dropout in evaluation writes nothing


class ReadWeight:
    """The attribute `weight` of a `Linear`: its transpose for the methods of converted classes, and what they call.

    They were written for torch's layout, as `functional.linear(x, self.qkv.weight)`. All other code gets the parameter.
    """

    def __get__(self, layer: Any, owner: type | None = None) -> Any:
        if layer is None:
            return self
        weight = layer._parameters.get("weight")
        if weight is None:
            raise AttributeError(f"'{type(layer).__name__}' object has no attribute 'weight'")
        readers = layer.__dict__.get(READERS, ())
        # Code that is traced has no frames to look at; it is that of a module's call.
        read = readers and (torch.compiler.is_dynamo_compiling() or _called_by(readers))
        return weight.mT if read else weight


def _called_by(kinds: Collection[type]) -> bool:
    """True if the code that reads the attribute runs within a method of one of the classes."""
    # Frame 0 is this function's, 1 that of `__get__`, 2 the reader's.
    frame: Any = sys._getframe(2)
    if frame.f_globals.get("__name__", "").startswith(("burnlike.", "torch.")):
        return False
    while frame is not None:
        code = frame.f_code
        if code.co_argcount and (kind := type(frame.f_locals.get(code.co_varnames[0]))) in kinds:
            owner = code.co_qualname.rpartition(".")[0]
            if any(owner == base.__qualname__ for base in kind.__mro__):
                return True
        frame = frame.f_back
    return False


class Linear(layers.Linear):
    """A `burnlike.nn.Linear` in a program that may read its weight."""

    if not TYPE_CHECKING:
        weight = ReadWeight()

    def _own_weight(self) -> Any:
        # The parameter itself: torch.compile need not look for who reads it.
        weight = self.__dict__.get("weight", self._parameters.get("weight"))
        return self.weight if weight is None else weight


INPLACE: dict[type[nn.Module], type[nn.Module]] = {
    kind: type(kind.__name__, (WritesIntoInput, kind), {"__module__": __name__, "__doc__": kind.__doc__})
    for kind in dict.fromkeys(
        getattr(layers, pair.layer) for pair in pairs() if "inplace" in inspect.signature(pair.torch).parameters
    )
}
"""burnlike's class -> the class of the same name, here, whose layers write into their input."""

globals().update({kind.__name__: kind for kind in INPLACE.values()})  # where pickles look for them

_PLAIN = {Linear: layers.Linear, **{inplace: kind for kind, inplace in INPLACE.items()}}


def plain_class(kind: type[nn.Module]) -> type[nn.Module]:
    """burnlike's class behind one of those here; any other class is itself."""
    return _PLAIN.get(kind, kind)


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
    # First: the family's own registration would take the place of this one later.
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
    # Once: its module registers all of its classes.
    family = _FAMILIES.pop(kind.__module__.partition(".")[0], None)
    if family is not None:
        importlib.import_module(f"{__package__}.families.{family}").register()
