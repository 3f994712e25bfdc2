"""Layers that `from_torch` makes where code that was written for torch's layers needs more than burnlike's do.

They are subclasses of the same names: layers that write into their input, as torch's with `inplace=True`, and a
`Linear` whose weight that code reads in torch's layout.
"""

import inspect
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from .. import nn as layers
from .torch_counterparts import pairs

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
