"""torch's compiler and its symbols, kept out of commands that only compute shapes: their imports take 1.2 seconds."""

import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import torch

_COMPILER, _SYMBOLS, _SYMPY = "torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy"
_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("expect_true", "guard_or_false", "guard_or_true", "statically_known_true"), bool),
    "is_nested_int": lambda _: False,
    "sym_and": lambda *values: all(values),
    "sym_eq": lambda first, second: first == second,
    "sym_or": lambda *values: any(values),
}
"""Torch's functions of sizes for plain numbers, with which its own do the same."""


class _StandIn(ModuleType):
    """Stands for a module that takes long to import, and imports it for a name that it lacks."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # Python's own questions, such as for a package's path
            raise AttributeError(name)
        # Torch imports more functions of sizes than it calls for numbers.
        is_function = self.__name__ == _SYMBOLS and name.islower()
        return partial(_of_sizes, name) if is_function else _true(self.__name__, name)


def _of_sizes(name: str, *values: Any, **options: Any) -> Any:
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    is_plain = name in _OF_NUMBERS and all(type(part) in (bool, int) for part in parts)
    return (_OF_NUMBERS[name] if is_plain else _true(_SYMBOLS, name))(*values, **options)


def _true(module: str, name: str) -> Any:
    _remove_stand_ins()
    return getattr(importlib.import_module(module), name)


def _remove_stand_ins() -> None:
    for name in (_COMPILER, _SYMBOLS, _SYMPY):
        if isinstance(sys.modules.get(name), _StandIn):
            vars(sys.modules.pop(name)).pop("Basic", None)  # where a module keeps the stand-in, it asks the true one


@contextmanager
def compiler_left_out() -> Iterator[None]:
    """Let torch compute on the meta device without importing its compiler, its symbols and sympy.

    Torch's kernels of this device are Python. They disable the compiler around them, which holds by itself while there
    is none, and ask whether numbers are symbols. For a command's only thread, and for code that compiles nothing;
    nothing changes where the modules are imported already.
    """
    functions: list[Any] = []

    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        functions.append(function)
        return function

    stand_ins = [_StandIn(name) for name in (_COMPILER, _SYMBOLS, _SYMPY)]
    vars(stand_ins[0])["disable"] = disable
    vars(stand_ins[2])["Basic"] = type("Basic", (), {})  # of which no number is an instance
    for stand_in in stand_ins:
        sys.modules.setdefault(stand_in.__name__, stand_in)
    try:
        yield
    finally:
        _remove_stand_ins()
        for function in functions:
            # Where torch keeps what `disable` gave; the next call asks the true one.
            vars(function).pop("__dynamo_disable", None)


def is_exporting() -> bool:
    """True while `torch.export` runs the present code, which compiled code of torch 2.11 takes for true always."""
    return torch.compiler._is_exporting_flag  # pyright: ignore[reportPrivateUsage]


def bound_method(function: Callable[..., Any], instance: Any, owner: Any) -> Callable[..., Any]:
    """The method of an instance, in a form that torch.compile of torch 2.11 traces, too."""
    return partial(function, instance) if torch.compiler.is_compiling() else function.__get__(instance, owner)


def _traced_new(cls: type) -> Any:
    return object.__new__(cls)


new: Any = object.__new__ if torch.__version__ >= "2.13" else _traced_new
"""`object.__new__` under a name, which is looked up in 10 ns less; torch.compile of torch 2.11 does not trace that."""
