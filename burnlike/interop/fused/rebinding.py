"""A function's own code with native ops behind some of the functions that it calls.

A stock `forward` often calls a function that a native op computes: `F.cross_entropy(...)`, `apply_rotary_pos_emb(...)`.
The code stays the model's own, and so does the Python module in which it looks up names: a `global` counter counts, and
a name that is assigned later is found. Only the names of such functions are replaced in the code: `F` becomes
`_burnlike_fused_F`, a name in the same Python module. At each call, the op runs if `F` is still the stock function.

A module of a library before:

    import torch.nn.functional as F

    def turn(q, k, cos, sin): ...

    def forward(self, x):
        q, k = turn(*self.project(x))                        # LOAD_GLOBAL turn, CALL
        return F.layer_norm(q + k, (8,))                     # LOAD_GLOBAL F, LOAD_ATTR layer_norm, CALL

and after `rebound(forward, replace)`, where `replace` knows an op for `turn` and for `F.layer_norm`:

    _burnlike_fused_turn = lambda *arguments: (op if turn is stock else turn)(*arguments)     # `instead_of`
    _burnlike_fused_F = Namespace(lambda: F)                 # its `layer_norm` is ours, other names are those of `F`

    def forward(self, x):                                    # the same instructions, with two entries of `co_names` new
        q, k = _burnlike_fused_turn(*self.project(x))
        return _burnlike_fused_F.layer_norm(q + k, (8,))

Only `co_names` changes, so no instruction moves, and line numbers, closures and exception tables stay right.
"""

import dis
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache, update_wrapper
from typing import Any

PREFIX = "_burnlike_fused_"
"""The beginning of the new names in a fused function's code."""

_NO_INSTRUCTIONS = ("EXTENDED_ARG", "CACHE")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")


@dataclass(frozen=True, slots=True)
class Use:
    """The way code uses a global: `F.relu(x)` uses `F` with the attribute `relu`, called; else it goes elsewhere."""

    attributes: tuple[str, ...]
    called: bool


Replace = Callable[[types.FunctionType, str, list[Use]], tuple[Any, tuple[str, ...]]]
"""The replacement of a global of a function, by how its code uses it, and its native ops; () for no replacement."""


def rebound(
    function: Callable[..., Any], replace: Replace, seen: dict[Any, tuple[Any, tuple[str, ...]]] | None = None
) -> tuple[Callable[..., Any], tuple[str, ...]]:
    """The function with its globals replaced, and the native ops that it has then; itself and () without any.

    Functions of the same package that it calls are rebound, too; `seen` has the results for those met already.
    """
    seen = {} if seen is None else seen
    if not isinstance(function, types.FunctionType):
        return function, ()
    if (inner := getattr(function, "__wrapped__", None)) is not None:
        new, ops = rebound(inner, replace, seen)
        wrapper = _around(function, inner, new) if ops else None
        return (function, ()) if wrapper is None else (wrapper, ops)
    if function in seen:
        return seen[function]
    seen[function] = function, ()  # a function that calls itself
    changed: dict[str, Any] = {}
    all_ops: list[str] = []
    for name, uses in sorted(uses_of_globals(function.__code__).items()):
        value: Any = function.__globals__.get(name)
        new, ops = replace(function, name, uses)
        is_same_package = is_plain(value) and _package(value) == _package(function)
        if not ops and is_same_package and all(use == Use((), called=True) for use in uses):
            new, ops = rebound(value, replace, seen)
            new = instead_of(function, name, new) if ops else None
        # An attribute `x.F`, or an assignment, has the same entry in `co_names`: renaming it would change that, too.
        if ops and _is_only_global(function.__code__, name):
            changed[name] = new
            all_ops += ops
    if changed:
        for name, new in changed.items():
            function.__globals__[PREFIX + name] = new
        code = _renamed(function.__code__, {name: PREFIX + name for name in changed})
        seen[function] = _with(function, code), tuple(dict.fromkeys(all_ops))
    return seen[function]


def instead_of(function: types.FunctionType, name: str, new: Callable[..., Any]) -> Callable[..., Any]:
    """A function that calls `new` while the global of this name is what it is now, else the global."""
    template = _with(_instead_template, _renamed(_instead_template.__code__, {"_NAME": name}), function.__globals__)
    return template(function.__globals__[name], new)


def _instead_template(stock: Callable[..., Any], new: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments, **keywords: (
        new if _NAME is stock else _NAME  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
    )(*arguments, **keywords)


def _around(decorated: Any, inner: Callable[..., Any], new: Callable[..., Any]) -> Callable[..., Any] | None:
    """A decorator's function made again around another one, which it finds in its closure; None if it doesn't."""
    cells = decorated.__closure__ or ()
    try:
        # A new cell: writing into the old one would change the stock function for all its users.
        made_cells = tuple(types.CellType(new) if cell.cell_contents is inner else cell for cell in cells)
    except ValueError:  # an empty cell
        return None
    if made_cells == cells:
        return None
    wrapper = types.FunctionType(
        decorated.__code__, decorated.__globals__, decorated.__name__, decorated.__defaults__, made_cells
    )
    wrapper.__kwdefaults__ = decorated.__kwdefaults__
    vars(wrapper).update({**vars(decorated), "__wrapped__": new})
    return wrapper


def is_plain(value: object) -> bool:
    """True if a value is a function whose code is all that it does: a decorator's result is not."""
    return isinstance(value, types.FunctionType) and not hasattr(value, "__wrapped__")


def codes_of(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and that of functions within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


@lru_cache(1024)  # asked for the globals of a code, its assignments, its comparisons and its statements, in turn
def instructions_of(code: types.CodeType) -> tuple[dis.Instruction, ...]:
    """Instructions that do something; before others' arguments there may be some that don't."""
    return tuple(it for it in dis.get_instructions(code) if it.opname not in _NO_INSTRUCTIONS)


def names_in(function: types.FunctionType) -> set[str]:
    """The names of globals and attributes in a function's code, and in functions within it."""
    return {name for code in codes_of(function.__code__) for name in code.co_names}


def uses_of_globals(code: types.CodeType) -> dict[str, list[Use]]:
    """The uses of each global by its name, in the code and in functions within it."""
    uses: dict[str, list[Use]] = {}
    for part in codes_of(code):
        instructions = instructions_of(part)
        for place, instruction in enumerate(instructions):
            if instruction.opname == "LOAD_GLOBAL":
                uses.setdefault(instruction.argval, []).append(_use(instructions, place))
    return uses


def helpers_unchanged(function: types.FunctionType) -> Callable[[], bool]:
    """A question: whether the globals that a function uses are what they are now; a program may replace one."""
    names = function.__globals__
    helpers = {name: names.get(name) for name in uses_of_globals(function.__code__)}
    return lambda: all(names.get(name) is helper for name, helper in helpers.items())


def _use(instructions: tuple[dis.Instruction, ...], place: int) -> Use:
    # A call needs a NULL beside the function: before all of it (to 3.12) or after it, or of one of its instructions.
    called = bool((instructions[place].arg or 0) & 1)
    attributes: list[str] = []
    after = place + 1
    is_method = False
    while not is_method and instructions[after].opname in _ATTRIBUTES:
        at = instructions[after]
        attributes.append(at.argval)
        is_method = at.opname == "LOAD_METHOD" or at.argrepr.startswith("NULL") or at.argrepr.endswith("NULL|self")
        after += 1
    beside = (instructions[place - 1].opname if place else "", instructions[after].opname)
    return Use(tuple(attributes), called or is_method or "PUSH_NULL" in beside)


def _is_only_global(code: types.CodeType, name: str) -> bool:
    """True if the name stands for nothing but the global: no attribute of the same name, nothing that assigns it."""
    instructions = (it for part in codes_of(code) for it in instructions_of(part))
    return all(
        it.opname == "LOAD_GLOBAL" for it in instructions if it.argval == name and it.opcode in (*dis.hasname, *_GLOBAL)
    )


_GLOBAL = [
    dis.opmap[name] for name in ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL", *_ATTRIBUTES) if name in dis.opmap
]


def _renamed(code: types.CodeType, names: dict[str, str]) -> types.CodeType:
    return code.replace(
        co_names=tuple(names.get(name, name) for name in code.co_names),
        co_consts=tuple(_renamed(it, names) if isinstance(it, types.CodeType) else it for it in code.co_consts),
    )


def _package(function: Callable[..., Any]) -> str:
    # A name, since a package has no other mark: it is where the author's helpers are, not what a function computes.
    return (function.__module__ or "").partition(".")[0]


def _with(function: Any, code: types.CodeType, namespace: dict[str, Any] | None = None) -> Any:
    names = function.__globals__ if namespace is None else namespace
    copied = types.FunctionType(code, names, function.__name__, function.__defaults__, function.__closure__)
    copied.__kwdefaults__ = function.__kwdefaults__
    update_wrapper(copied, function)
    del vars(copied)["__wrapped__"]  # it is no wrapper: its code is the function's
    return copied
