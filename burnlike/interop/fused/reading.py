"""The names that the code of a forward reads: only code that reads no more than a native op may be replaced by it.

A trial shows what a module computes now, with some inputs. It does not show what a number in the module will change
later, nor a clamp at a value that no input reaches. So this is a list of what the code may read and call, and code with
anything else in it is left alone.
"""

import inspect
import math
import types
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from ..torch_counterparts import torch_layers
from .forwards import is_written_in, stock_forward
from .rebinding import codes_of, instructions_of, is_plain, names_in, uses_of_globals

# What code may ask of tensors and torch. Each of these does the same to numbers of any size, and to any number of rows.
_FORMATS = {"dtype", "to", "type_as", "float", "half", "double", "bfloat16", "float16", "float32", "float64"}
_FUNCTIONS = {"pow", "square", "mean", "rsqrt", "sqrt", "mul", "add", "div", "silu", "gelu", "tanh", "sigmoid", "erf"}
_ALLOWED = _FORMATS | _FUNCTIONS | {"torch", "nn", "functional", "math", "pi"}
_MODULES = (torch, nn, F, math)
_ORDERS = ("<", "<=", ">", ">=")


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
    functions = (function, *(it for _, it in methods_of(type(module), function)))
    return frozenset().union(*map(names_in, functions))


def read_otherwise(module: object, function: types.FunctionType, allowed: frozenset[str]) -> str:
    """Say what a module's forward reads beside its attributes `allowed` and torch's functions; empty for nothing."""
    methods = dict(methods_of(type(module), function))
    for part in (function, *methods.values()):
        if not is_plain(part):
            return "its forward is decorated"
        if reason := _read_from_elsewhere(part):
            return reason
        uses = uses_of_globals(part.__code__)
        for name in sorted(names_in(part) - uses.keys() - allowed):
            if name in getattr(module, "__dict__", {}) or not (name in methods or _is_of_tensors(module, name)):
                return f"its code reads `{name}`"
    return ""


def _read_from_elsewhere(function: types.FunctionType) -> str:
    """Say what a function reads of globals, of the function around it, and of objects in its defaults."""
    for name in sorted(uses_of_globals(function.__code__)):
        if name not in function.__globals__:  # of Python itself, such as `getattr` and `super`
            return f"its code reads `{name}`"
        value = function.__globals__[name]
        is_allowed = any(value is module for module in _MODULES) or isinstance(value, torch.dtype)
        if not (is_allowed or (getattr(value, "__name__", "") in _ALLOWED and _is_of_torch(value))):
            return f"its code reads the global `{name}`"
    if function.__code__.co_freevars:
        return f"its code reads `{function.__code__.co_freevars[0]}` of the function around it"
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    if any(default is not None and not isinstance(default, bool | int | float | str) for default in defaults):
        return "its code has an object as the default of an argument"
    # A trial with a few sizes and values can't show what happens on the other side of a comparison.
    instructions = (it for code in codes_of(function.__code__) for it in instructions_of(code))
    if any(instruction.opname == "COMPARE_OP" and instruction.argval in _ORDERS for instruction in instructions):
        return "its code compares sizes or values"
    return ""


def methods_of(owner: type, function: types.FunctionType) -> tuple[tuple[str, types.FunctionType], ...]:
    """The methods of a class that a function names, and those that these name; but for those of every module."""
    methods: dict[str, types.FunctionType] = {}
    left = [function]
    while left:
        for name in sorted(names_in(left.pop()) - methods.keys()):
            method = None if hasattr(nn.Module, name) else inspect.getattr_static(owner, name, None)
            if isinstance(method, types.FunctionType) and method is not function:
                methods[name] = method
                left.append(method)
    return tuple(sorted(methods.items()))


def _is_of_tensors(module: object, name: str) -> bool:
    """True if a name stands for an attribute of tensors or torch: the module has none of this name itself."""
    held = {*module._parameters, *module._buffers, *module._modules} if isinstance(module, nn.Module) else {}
    return name in _ALLOWED and name not in held and (hasattr(nn.Module, name) or not hasattr(type(module), name))


def reads_only(activation: Any, settings: frozenset[str] = frozenset()) -> bool:
    """True if an activation is torch's, or code that reads nothing but these attributes of it."""
    if isinstance(activation, partial):
        return reads_only(activation.func)
    if isinstance(activation, nn.Module):
        owner, stock = stock_forward(type(activation))
        is_of_torch = stock is not None and owner in torch_layers() and is_written_in(owner, stock)
        return is_of_torch or (stock is not None and not read_otherwise(activation, stock, settings))
    return _is_of_torch(activation) or (
        isinstance(activation, types.FunctionType) and not read_otherwise(None, activation, frozenset())
    )


def _is_of_torch(function: Any) -> bool:
    """True if a function is torch's under its own name, and no other that a program put there."""
    is_theirs = any(getattr(function, "__globals__", vars(F)) is vars(it) for it in (torch, F))
    return is_theirs and any(getattr(it, getattr(function, "__name__", ""), None) is function for it in (torch, F))
