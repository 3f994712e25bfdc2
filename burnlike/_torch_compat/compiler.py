"""torch's compiler, kept out of commands that only compute shapes: its import takes a second."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import torch

_COMPILER = "torch._dynamo"


@contextmanager
def compiler_left_out() -> Iterator[None]:
    """Let torch compute on the meta device without importing its compiler.

    Torch's kernels of this device are Python, and disable the compiler around them, which holds by itself while there
    is none. For a command's only thread, and for code that compiles nothing; nothing changes where the compiler is
    imported already.
    """
    if _COMPILER in sys.modules:
        yield
        return
    functions: list[Any] = []

    def disable(function: Callable[..., Any], *_: Any, **__: Any) -> Callable[..., Any]:
        functions.append(function)
        return function

    stand_in = ModuleType(_COMPILER)
    vars(stand_in)["disable"] = disable
    sys.modules[_COMPILER] = stand_in
    try:
        yield
    finally:
        del sys.modules[_COMPILER]
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
