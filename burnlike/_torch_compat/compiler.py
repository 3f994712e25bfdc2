"""torch's compiler and its symbols, kept out of commands that only compute shapes: their imports take 1.2 seconds."""

import importlib
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
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

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__path__, self.__spec__ = list[str](), ModuleSpec(name, None)  # a package, for `_Parts`

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in ("__all__", "__version__"):  # Python's own questions
            raise AttributeError(name)
        # Torch imports more functions of sizes than it calls for numbers.
        if self.__name__ == _SYMBOLS and name.islower():
            return partial(_of_sizes, name)
        value = vars(self)[name] = _true(self.__name__, name)
        return value


def _of_sizes(name: str, *values: Any, **options: Any) -> Any:
    parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
    is_plain = name in _OF_NUMBERS and all(type(part) in (bool, int) for part in parts)
    return (_OF_NUMBERS[name] if is_plain else _true(_SYMBOLS, name))(*values, **options)


def _true(module: str, name: str) -> Any:
    _remove(part for part in map(sys.modules.get, (_COMPILER, _SYMBOLS, _SYMPY)) if isinstance(part, _StandIn))
    return getattr(importlib.import_module(module), name)


def _remove(stand_ins: Iterable[_StandIn]) -> None:
    for stand_in in stand_ins:
        if sys.modules.get(stand_in.__name__) is stand_in:
            del sys.modules[stand_in.__name__]
            vars(stand_in).pop("Basic", None)  # where a module keeps the stand-in, it asks the true one


class _Parts(Loader):
    """Imports a part of a module for which a stand-in stands, as it is imported with the true one."""

    @staticmethod
    def find_spec(name: str, *_: Any) -> ModuleSpec | None:
        parent = name.rpartition(".")[0]
        return ModuleSpec(name, _Parts()) if isinstance(sys.modules.get(parent), _StandIn) else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        _true(spec.name.rpartition(".")[0], "__name__")
        module = importlib.import_module(spec.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # not that of this loader


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

    stand_ins = [_StandIn(name) for name in (_COMPILER, _SYMBOLS, _SYMPY) if name not in sys.modules]
    for stand_in in stand_ins:
        if stand_in.__name__ == _COMPILER:
            vars(stand_in)["disable"] = disable
        if stand_in.__name__ == _SYMPY:
            vars(stand_in)["Basic"] = type("Basic", (), {})  # of which no number is an instance
        sys.modules[stand_in.__name__] = stand_in
    sys.meta_path.insert(0, _Parts)
    try:
        yield
    finally:
        sys.meta_path.remove(_Parts)
        _remove(stand_ins)
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
