"""A function's own code with other functions behind some of its global names.

A stock model's `forward` often computes what a native op computes in the middle of its code: `F.cross_entropy(...)`,
`apply_rotary_pos_emb(...)`. Here the code stays the model's own, of whatever version, and only what those names stand
for is changed, for one module.
"""

import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

Replace = Callable[[Any, frozenset[str]], tuple[Any, tuple[str, ...]]]
"""What stands for the value of a global in code that uses these names, and the native ops that this brings; the value
itself and () where nothing does."""


def rebound(function: Callable[..., Any], replace: Replace) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The function with its globals replaced, and the native ops that it has so; itself and () without any.

    Functions of the same package that it calls are rebound too.
    """
    return _rebound(function, replace, {})


def _rebound(
    function: Callable[..., Any], replace: Replace, seen: dict[Any, tuple[Any, tuple[str, ...]]]
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    if not isinstance(function, types.FunctionType):
        return function, ()
    if (inner := getattr(function, "__wrapped__", None)) is not None:
        new, ops = _rebound(inner, replace, seen)
        return (_around(function, inner, new), ops) if ops else (function, ())
    if function in seen:
        return seen[function]
    seen[function] = function, ()  # a function that calls itself
    changed: dict[str, Any] = {}
    all_ops: list[str] = []
    names = frozenset(_names(function.__code__))
    for name in sorted(names & function.__globals__.keys()):
        value = function.__globals__[name]
        new, ops = replace(value, names)
        if not ops and is_plain(value) and _package(value) == _package(function):
            new, ops = _rebound(value, replace, seen)
        if ops:
            changed[name] = new
            all_ops += ops
    if changed:
        seen[function] = _with_globals(function, changed), tuple(dict.fromkeys(all_ops))
    return seen[function]


def _around(decorated: Any, inner: Callable[..., Any], new: Callable[..., Any]) -> Callable[..., Any]:
    """A decorator's function made again around another one, which it finds in its closure."""
    cells = (types.CellType(new) if cell.cell_contents is inner else cell for cell in decorated.__closure__ or ())
    made = types.FunctionType(
        decorated.__code__, decorated.__globals__, decorated.__name__, decorated.__defaults__, tuple(cells)
    )
    made.__kwdefaults__ = decorated.__kwdefaults__
    vars(made).update({**vars(decorated), "__wrapped__": new})
    return made


def is_plain(value: object) -> bool:
    """Whether it is a function whose code is all that it does: a decorator's result is not."""
    return isinstance(value, types.FunctionType) and not hasattr(value, "__wrapped__")


def _package(function: Callable[..., Any]) -> str:
    return (function.__module__ or "").partition(".")[0]


def _names(code: types.CodeType) -> Iterator[str]:
    """Names of globals and attributes in the code and in functions within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)


def _with_globals(function: Callable[..., Any], changed: Mapping[str, Any]) -> Callable[..., Any]:
    # Without `__name__`: by it torch.compile would look globals up in the module that the function came from.
    namespace: dict[str, Any] = {name: value for name, value in function.__globals__.items() if name != "__name__"}
    namespace.update(changed)
    made = types.FunctionType(
        function.__code__, namespace, function.__name__, function.__defaults__, function.__closure__
    )
    made.__kwdefaults__ = function.__kwdefaults__
    made.__module__, made.__qualname__, made.__doc__ = function.__module__, function.__qualname__, function.__doc__
    return made
