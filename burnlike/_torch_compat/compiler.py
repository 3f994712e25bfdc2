"""torch's compiler, kept out of commands that only compute shapes: its import takes a second."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

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
