"""Operations of one shape as rows of a table: a row is a name and a text, the body is a copy of a template.

A `Family` is a template of `core/templates.py`, a signature, and the rows. `methods(FAMILY, ..)` above a class gives it
the methods of families, `functions(__name__, FAMILY, ..)` makes the free functions of a module. Type checkers read
their types in the stub beside the module, which `make docs` writes from the same rows (`tools/tensor_stubs.py`).

A copy of the code object is what a hand-written method would be: nothing is looked up by name at a call, and Dynamo,
tracebacks, `inspect.signature` and `help` see a function of its own. A copy takes 5 us when the class is made;
compiling the text of each would take forty times as long.
"""

import dataclasses
import sys
from collections.abc import Callable, Iterator
from itertools import groupby
from types import FunctionType
from typing import Any, TypeVar

from .kinds import MAX_RANK
from .spec import title

C = TypeVar("C", bound=type)
F = TypeVar("F", bound=Callable[..., Any])


@dataclasses.dataclass(frozen=True)
class Family:
    """Operations that share a signature and a body.

    Attributes:
        template: the body; see `core/templates.py` for the words in it that a row replaces.
        signature: `(self: Floats[B, D], dim: int) -> Tensor[B, D, Float]`: names, types and defaults.
        rows: name -> text: a sentence, then ` Torch: ` and torch's function, then ` Differs: ..` if it does.
        shapes: the shapes of operands and result, written after the sentence: `[..] -> [..]`.
        differs: the difference from torch, of rows that don't say one.
        aliases: name -> further names, operators among them: `__add__ __radd__`.
        suffix: a part of the names that the backend's functions lack: `_scalar`.
        operations: name -> the backend's function, where it is another.
        titles: name -> the operation's name in messages, where it is not that of the name, `Sum Dim`.
    """

    template: Callable[..., Any]
    signature: str
    rows: dict[str, str]
    shapes: str = ""
    differs: str = ""
    aliases: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    suffix: str = ""
    operations: dict[str, str] = dataclasses.field(default_factory=dict[str, str])
    titles: dict[str, str] = dataclasses.field(default_factory=dict[str, str])

    def functions(self, module: str, owner: str = "") -> Iterator[tuple[str, FunctionType]]:
        """Each name, aliases after theirs, and its function, as one that `module` (and its class `owner`) defines."""
        annotations = annotations_of(self.signature)
        for name, text in self.rows.items():
            operation = self.operations.get(name) or name.removesuffix(self.suffix)
            function = _copy(self.template, name, operation, self.titles.get(name) or title(name), annotations)
            function.__module__, function.__qualname__ = module, f"{owner}.{name}" if owner else name
            function.__doc__ = self._doc(text)
            for each in (name, *self.aliases.get(name, "").split()):
                yield each, function

    def _doc(self, text: str) -> str:
        sentence, _, torch = text.partition(" Torch: ")
        shapes = f" {self.shapes}." if self.shapes else ""
        differs = f" Differs: {self.differs}." if self.differs and "Differs: " not in torch else ""
        return f"{sentence}{shapes}\nTorch: {torch}{differs}"


def methods(*families: Family) -> Callable[[C], C]:
    """A decorator that gives a class the methods of these families, before those that it writes itself."""

    def decorate(cls: C) -> C:
        for family in families:
            for name, function in family.functions(cls.__module__, cls.__qualname__):
                setattr(cls, name, function)
        return cls

    return decorate


def functions(module: str, *families: Family) -> None:
    """Put the functions of these families into a module."""
    namespace = vars(sys.modules[module])
    for family in families:
        namespace.update(family.functions(module))


_BUILTINS: dict[str, Any] = {"None": None, "int": int, "float": float, "": Any}


def annotations_of(signature: str) -> dict[str, Any]:
    """The annotation of each argument of a signature, and `return`."""
    arguments, _, result = signature.removeprefix("(").rpartition(") -> ")
    annotations: dict[str, Any] = {}
    depth, start = 0, 0
    for place, letter in enumerate(f"{arguments},"):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            name, _, annotation = arguments[start:place].strip().partition(": ")
            annotation = annotation.partition(" = ")[0]
            annotations[name] = _BUILTINS.get(annotation, annotation)
            start = place + 1
    return annotations | {"return": result}


def _copy(template: Any, name: str, operation: str, heading: str, annotations: dict[str, Any]) -> FunctionType:
    """A function like `template` whose words are those of a row, and whose arguments have the annotated names."""
    code = template.__code__
    attributes = {"operation": operation, "operation_dim": f"{operation}_dim"}
    texts = {"operation": operation, "method": name, "Title": heading}
    arguments = [argument for argument in annotations if argument != "return"]
    code = code.replace(
        co_name=name,
        co_qualname=name,
        co_names=tuple(attributes.get(word, word) for word in code.co_names),
        co_consts=tuple(texts.get(value, value) if type(value) is str else value for value in code.co_consts),
        co_varnames=(*arguments, *code.co_varnames[len(arguments) :]),
    )
    function = FunctionType(code, template.__globals__, name, template.__defaults__)
    function.__annotations__ = {name: annotation for name, annotation in annotations.items() if annotation is not Any}
    return function


def overloads(*signatures: str) -> Callable[[F], F]:
    """A decorator that says the overloads of a function, for its stub and the page of the API.

    A signature with `{n}` stands for eight, of the ranks 1 to 8; one with `{n}` and `{m}` for seven, m = n + 1.
    """

    def decorate(function: F) -> F:
        vars(function)["overloads"] = signatures
        return function

    return decorate


def expanded_overloads(function: Any) -> list[str]:
    """The overloads that `overloads` said of a function, rank by rank; signatures that follow each other alternate."""
    forms: list[str] = []
    for ranked, group in groupby(getattr(function, "overloads", ()), lambda it: "{n}" in it):
        signatures = list(group)
        if not ranked:
            forms += signatures
            continue
        for rank in range(1, MAX_RANK + 1):
            forms += [it.format(n=rank, m=rank + 1) for it in signatures if rank < MAX_RANK or "{m}" not in it]
    return forms
