"""Write docs/tensor_api.md from the code: `python -m tools.tensor_api`, or `--check` to compare only.

Each method and free function of the typed tensor is one row: its signature, the kinds that it is defined for (from the
annotation of its first parameter), and the `Torch:` and `Differs:` lines of its docstring.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, NamedTuple, get_overloads

from burnlike import Tensor
from burnlike.tensor.core.base import TensorBase
from burnlike.tensor.core.table import annotations_of, expanded_overloads

from .pages import DOCS, beside_torch, main, table

PAGE = DOCS / "tensor_api.md"
MODULES = ("activation", "module", "linalg", "signal", "grid", "loss")
KINDS = ("Float", "Int", "Bool")
RECEIVERS = {"Floats": {"Float"}, "Tracked": {"Float"}, "Ints": {"Int"}, "Bools": {"Bool"}}
RECEIVERS |= {name: {"Float", "Int"} for name in ("Numeric", "Numbers")}
HEAD = """# The tensor API

Every method of the typed tensor beside torch's function. `Tensor[B, D, K]` is a torch tensor `.inner` with a backend
B, a rank D and a kind K. Names and what they compute are those of Burn 0.22.1. Operations
never change an operand, full reductions have shape `[1]`, and negative dimensions count from the end. The difference
is the one to the torch function named, `-` where there is none. `make docs` writes this page from the docstrings.
"""
OPERATORS = {
    "__add__": "x + y",
    "__sub__": "x - y",
    "__mul__": "x * y",
    "__truediv__": "x / y",
    "__mod__": "x % y",
    "__neg__": "-x",
    "__matmul__": "x @ y",
    "__pow__": "x ** y",
    "__and__": "x & y",
    "__or__": "x | y",
    "__xor__": "x ^ y",
    "__invert__": "~x",
    "__lshift__": "x << y",
    "__rshift__": "x >> y",
}


class Row(NamedTuple):
    """One method or function.

    Attributes:
        name: with its prefix, as in `linalg.lu`.
        call: the signature, and the operator if there is one.
        kinds: those that it is defined for.
        torch: what torch has for it.
        differs: how that differs, or `-`.
    """

    name: str
    call: str
    kinds: str
    torch: str
    differs: str


class Group(NamedTuple):
    """A heading and its rows."""

    title: str
    rows: list[Row]


def kinds_of(function: Callable[..., Any], static: bool) -> str:
    """The kinds that the annotations of a function allow; all where they name none."""
    found: set[str] = set()
    told_forms = [annotations_of(it) for it in expanded_overloads(function)]
    for annotations in told_forms or [inspect.get_annotations(form) for form in get_overloads(function) or [function]]:
        names = inspect.signature(function).parameters
        first = str(annotations.get(next(iter(names), ""), ""))
        free = static or "self" not in names
        text = str(annotations.get("return", "")) if free and "Tensor[" not in first else first
        found.update(kinds_in(text, inspect.unwrap(function).__globals__))
    # A creation takes the kind as an argument; its first line says which ones.
    told = re.search(r"`, ((?:Float|Int|Bool)(?: or (?:Float|Int|Bool))*)\.$", summary_of(function)) if static else None
    if told:
        found &= set(told[1].split(" or "))
    return ", ".join(kind for kind in KINDS if kind in found)


def kinds_in(annotation: str, names: dict[str, Any]) -> set[str]:
    """The kinds in `Tensor[B, D, Float]` or `Tensor[B, D, N]`, where N is a type variable; all if it has no third.

    A union has those of its parts; the aliases of receivers have those of `RECEIVERS`.
    """
    if (receiver := annotation.partition("[")[0]) in RECEIVERS:
        return RECEIVERS[receiver]
    found: set[str] = set()
    for name in re.findall(r"\[[^\[\]]*,[^\[\]]*, *(\w+)\]", re.sub(r"\w+\[(\w+)\]", r"\1", annotation)):
        allowed = getattr(names.get(name), "__constraints__", ())
        found.update([name] if name in KINDS else [kind.__name__ for kind in allowed] or KINDS)
    return found or set(KINDS)


def summary_of(found: Any) -> str:
    """The first paragraph of a docstring, on one line, without what torch has for it."""
    return " ".join((inspect.getdoc(found) or "").split("\n\n")[0].split()).split(" Torch: ")[0]


def signature_of(name: str, function: Callable[..., Any], skip_first: bool) -> str:
    """The call as one writes it: names and defaults; of the last overload where the function itself has no names."""
    forms = get_overloads(function)
    if forms and any(it.kind is it.VAR_POSITIONAL for it in inspect.signature(function).parameters.values()):
        function = forms[-1]
    parts: list[str] = []
    starred = False
    for parameter in list(inspect.signature(function).parameters.values())[1 if skip_first else 0 :]:
        if parameter.annotation is None:  # only there to be refused
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts.append("*")
            starred = True
        if parameter.kind is parameter.VAR_POSITIONAL:
            starred = True
        shown = str(parameter.replace(annotation=parameter.empty))
        if parameter.default is not parameter.empty:
            default = parameter.default
            shown = f"{parameter.name}={default.__name__ if inspect.isclass(default) else repr(default)}"
        parts.append(shown)
    return f"{name}({', '.join(parts)})"


def row_of(name: str, found: Any, operators: str = "") -> Row:
    """The row of a method, a static function or a property."""
    if isinstance(found, property):
        doc = inspect.getdoc(found) or ""
        return Row(name, f"`{name}`", ", ".join(KINDS), *beside_torch(doc))
    static = isinstance(found, staticmethod | classmethod)
    function = found.__func__ if isinstance(found, staticmethod | classmethod) else found
    doc = inspect.getdoc(function) or ""
    call = signature_of(name, function, skip_first=not static or isinstance(found, classmethod))
    call = f"`Tensor.{call}`" if static else f"`{call}`"
    if operators:
        call += f", `{operators}`"
    return Row(name, call, kinds_of(function, static), *beside_torch(doc))


def title_of(found: Any) -> str:
    """The first sentence of a docstring, without the full stop."""
    return (inspect.getdoc(found) or found.__name__).splitlines()[0].split(". ")[0].rstrip(".")


def method_groups() -> Iterator[Group]:
    """The methods by the class that they come from."""
    seen: set[str] = set()
    parts: list[type] = [part.__origin__ for part in vars(Tensor)["__orig_bases__"]]
    for owner in (*parts, TensorBase):
        rows: list[Row] = []
        for name, found in vars(owner).items():
            inherited = any(vars(base).get(name) is found for base in owner.__mro__[1:])
            if name.startswith("_") or name in seen or inherited or name in owner.__dict__.get("__slots__", ()):
                continue
            if not (callable(found) or isinstance(found, staticmethod | classmethod | property)):
                continue
            seen.add(name)
            own = [sign for dunder, sign in OPERATORS.items() if vars(owner).get(dunder) is found]
            rows.append(row_of(name, found, "`, `".join(own)))
        if rows:
            yield Group(title_of(owner), rows)


def functions_of(module: ModuleType) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions that a module or a package defines; those of a package in the order of the alphabet."""
    names = vars(module)
    for name in sorted(names) if hasattr(module, "__path__") else names:
        found = names[name]
        if not name.startswith("_") and inspect.isfunction(found) and found.__module__.startswith(module.__name__):
            yield name, found


def function_groups() -> Iterator[Group]:
    """The free functions by module."""
    for name in MODULES:
        module = importlib.import_module(f"burnlike.tensor.{name}")
        rows: list[Row] = []
        for function_name, found in functions_of(module):
            doc = inspect.getdoc(found) or ""
            call = signature_of(f"{name}.{function_name}", found, skip_first=False)
            rows.append(Row(f"{name}.{function_name}", f"`{call}`", kinds_of(found, False), *beside_torch(doc)))
        yield Group(f"`{name}`: {title_of(module)}", rows)


def groups() -> list[Group]:
    """Everything public, in the order of the page."""
    return [*method_groups(), *function_groups()]


def page() -> str:
    """The whole page."""
    parts = [HEAD]
    for title, rows in groups():
        parts.append(table(f"## {title}", ("call", "kinds", "torch", "difference"), rows))
    return "".join(parts)


if __name__ == "__main__":
    sys.exit(main("tools.tensor_api", page, PAGE))
