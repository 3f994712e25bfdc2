"""The forward of a fused module: another function than its class's, for this module alone.

An `nn.Module` looks `forward` up at each call. What stands in its `__dict__` is called without the module, so it would
have to store the module, and compute with that one in a shallow copy or in a replica of `DataParallel`. So the class
gets a descriptor in the place of its function. Asked for the class's forward it gives the stock function; asked for a
module's, it gives that as well, unless the module has a mark in its `__dict__`.
"""

import sys
import types
from collections.abc import Callable
from typing import Any, Self

from torch import nn

from ..._torch_compat.compiler import bound_method
from ..._torch_compat.dispatch import never_compile_alone
from ...tensor.torch_bridge.torch_function import lift
from .rebinding import Replace, rebound

_MARK = "_burnlike_fused"


class FusedForward:
    """A forward with native ops: what a fused module has in its `__dict__`, and shares with its copies.

    Attributes:
        owner: the class that defines the stock forward.
        made_by: a function and its arguments that make it again, in another process.
    """

    def __init__(
        self, owner: type[nn.Module], function: Callable[..., Any], ops: tuple[str, ...], made_by: tuple[Any, ...]
    ) -> None:
        self.owner, self.function, self.ops, self.made_by = owner, function, ops, made_by

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        make, *arguments = self.made_by
        return make, tuple(arguments)


class StockForward:
    """The forward of a class, of which some modules are fused."""

    def __init__(self, owner: type[nn.Module], stock: types.FunctionType) -> None:
        self.owner, self.stock = owner, stock
        self.by_key: dict[Any, FusedForward] = {}

    def __get__(self, module: nn.Module | None, owner: Any = None) -> Any:
        if module is None:
            return self.stock
        mark = module.__dict__.get(_MARK)
        if mark is None or mark.owner is not self.owner:  # the latter for `super().forward(x)`
            return bound_method(self.stock, module, owner)
        return bound_method(mark.function, module, owner)


# By itself torch.compile can't compile it: it could not return a method that no attribute of the module has.
never_compile_alone(StockForward.__get__)


def stock_forward(module_class: type[nn.Module]) -> tuple[type[nn.Module], types.FunctionType | None]:
    """The class that defines a module's forward, and the function; None for what is no plain function."""
    owner = next(it for it in module_class.__mro__ if "forward" in vars(it))
    stock = vars(owner)["forward"]
    stock = stock.stock if isinstance(stock, StockForward) else stock
    return owner, stock if isinstance(stock, types.FunctionType) and owner is not nn.Module else None


def computes_weights(module_class: type[nn.Module]) -> bool:
    """True for a class that computes its weight or bias at each read, as one made by torch's parametrizations does."""
    return hasattr(module_class, "weight") or hasattr(module_class, "bias")


def is_written_in(owner: type[nn.Module], forward: types.FunctionType) -> bool:
    """True if a forward is code of the module that defines the class: a program may have put another one there."""
    lifted = forward.__globals__ is lift.__globals__
    code = getattr(forward, "__wrapped__", None) if lifted else forward
    return code is not None and code.__globals__ is vars(sys.modules[owner.__module__])


def fused_forward(
    owner: type[nn.Module], key: Any, make: Callable[[], tuple[Callable[..., Any], tuple[str, ...], tuple[Any, ...]]]
) -> FusedForward:
    """The forward of this key for modules of the class, made once: `make` gives its function, ops and `made_by`."""
    forward = vars(owner)["forward"]
    if not isinstance(forward, StockForward):
        forward = StockForward(owner, forward)
        owner.forward = forward  # pyright: ignore[reportAttributeAccessIssue]
    if key not in forward.by_key:
        forward.by_key[key] = FusedForward(owner, *make())
    return forward.by_key[key]


def code_forward(owner: type[nn.Module], replace: Replace) -> FusedForward | None:
    """The class's own code with native ops behind what it calls; None where no op computes any of it."""
    stock = stock_forward(owner)[1]
    forward = vars(owner)["forward"]
    if isinstance(forward, StockForward) and replace in forward.by_key:
        return forward.by_key[replace]
    if stock is None:
        return None
    function, ops = rebound(stock, replace)
    if not ops:
        return None
    if issubclass(owner, nn.RNNBase):
        never_compile_alone(function, with_callees=True)  # as torch.compile leaves the stock one alone
    return fused_forward(owner, replace, lambda: (function, ops, (code_forward, owner, replace)))


def mark(module: nn.Module, forward: FusedForward) -> None:
    module.__dict__[_MARK] = forward


def unmark(module: nn.Module) -> bool:
    """Give the module its class's forward again; returns whether it had another."""
    return module.__dict__.pop(_MARK, None) is not None


def mark_of(module: nn.Module) -> FusedForward | None:
    return module.__dict__.get(_MARK)
