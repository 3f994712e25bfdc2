"""What the code of a forward reads: only code that reads nothing else than a native op may be replaced by it.

A trial shows what a module computes now. It does not show what a number in the module will change later, nor a branch
that the trial did not take. So this is a list of what the code may read, and what is not in it is left alone.
"""

import dis
import inspect
import math
import types
from collections.abc import Iterator
from typing import Any

from torch import nn

from .rebinding import codes_of, instructions_of, is_plain, uses_of_globals

# What code with branches may ask of tensors and torch: no sizes, of which a trial has few.
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
_FORMATS = frozenset({"dtype", "to", "float", "half", "bfloat16", "float16", "float32", "type_as"})
_IN_BRANCHES = _FORMATS | {"nn", "functional", "silu", "gelu", "pow", "square", "mean", "rsqrt", "sqrt"}


def one_argument(function: types.FunctionType) -> str | None:
    """The name of the only argument that a forward requires; None where it requires another number."""
    _, *parameters = inspect.signature(function).parameters.values()
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    required = [
        it for it in parameters if it.default is it.empty and it.kind not in (it.VAR_POSITIONAL, it.VAR_KEYWORD)
    ]
    return required[0].name if len(required) == 1 and required == parameters[:1] and required[0].kind in kinds else None


def names_of(module: nn.Module, function: types.FunctionType) -> frozenset[str]:
    """Names of attributes and globals in a forward, and in methods of the class that it calls."""
    codes = (code for it in _functions(type(module), function, {function}) for code in codes_of(it.__code__))
    return frozenset(name for code in codes for name in code.co_names)


def read_otherwise(module: nn.Module, function: types.FunctionType, known: frozenset[str]) -> str:
    """What a module's forward reads beside its attributes `known` and torch's functions; empty for nothing."""
    for part in _functions(type(module), function, {function}):
        if not is_plain(part):
            return "its forward is decorated"
        codes = list(codes_of(part.__code__))
        names = {name for code in codes for name in code.co_names}
        for name in ("training", "super"):
            if name in names:
                return f"its code reads `{name}`"
        for name in sorted(uses_of_globals(part.__code__)):
            if name in part.__globals__ and not _is_of_torch(part.__globals__[name]):
                return f"its code reads the global `{name}`"
        for name in sorted(names - known - uses_of_globals(part.__code__).keys()):
            if _is_own(module, name):
                return f"its code reads `{name}`"
        methods = {name for name in names if isinstance(_method(type(module), name), types.FunctionType)}
        allowed = _IN_BRANCHES | known | methods | uses_of_globals(part.__code__).keys()
        if names - allowed and any(it.opcode in _JUMPS for code in codes for it in instructions_of(code)):
            return f"its code has a branch, and reads `{min(names - allowed)}`"
    return ""


def _functions(owner: type, function: Any, seen: set[Any]) -> Iterator[Any]:
    """The function, and methods of the class that it names."""
    yield function
    for code in codes_of(function.__code__):
        for name in code.co_names:
            method = _method(owner, name)
            if isinstance(method, types.FunctionType) and method not in seen:
                seen.add(method)
                yield from _functions(owner, method, seen)


def _method(owner: type, name: str) -> Any:
    """An attribute of the class that `nn.Module` has not."""
    return None if hasattr(nn.Module, name) else inspect.getattr_static(owner, name, None)


def _is_own(module: nn.Module, name: str) -> bool:
    if hasattr(nn.Module, name):
        return False
    if isinstance(inspect.getattr_static(type(module), name, None), types.FunctionType):
        return False  # read by itself
    return hasattr(type(module), name) or name in {
        *vars(module),
        *module._parameters,
        *module._buffers,
        *module._modules,
    }


def _is_of_torch(value: Any) -> bool:
    if isinstance(value, types.ModuleType):
        return value is math or value.__name__.partition(".")[0] == "torch"
    return (getattr(value, "__module__", "") or "").partition(".")[0] == "torch"
