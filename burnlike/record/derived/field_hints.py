"""Reads the annotations of a module's class: which fields may be None, and the types of empty ones."""

import inspect
import re
import types
from dataclasses import dataclass
from typing import Any, Literal, Union, get_args, get_origin

from torch import Tensor, nn

from ...module import ModuleEnum, Param
from ...tensor.core.base import TensorBase

Holds = Literal["", "tensor", "module", "list"]

_TENSORS = (Tensor, TensorBase, Param)


@dataclass(frozen=True, slots=True)
class FieldHint:
    """One annotation.

    Attributes:
        optional: whether the field may be None.
        holds: what it holds if it is not: a tensor, a module, or a list of one of them; nothing for constants and
            what isn't known.
    """

    optional: bool = False
    holds: Holds = ""


def hints_of(cls: type) -> dict[str, FieldHint]:
    """The annotations of `cls` and its bases by name, but for torch's."""
    found: dict[str, FieldHint] = {}
    for base in reversed(cls.__mro__):
        if not base.__module__.startswith("torch."):
            found |= {name: _hint(annotation) for name, annotation in _annotations(base).items()}
    return found


def variants_of(cls: type) -> list[str]:
    """The variants that a ModuleEnum's class annotates, in order."""
    known = ModuleEnum.__mro__
    bases = [base for base in reversed(cls.__mro__) if base not in known]
    return [name for base in bases for name in inspect.get_annotations(base) if not name.startswith("_")]


def _annotations(cls: type) -> dict[str, Any]:
    """The annotations, as texts where a name in them is known to type checkers alone."""
    try:
        return inspect.get_annotations(cls, eval_str=True)
    except Exception:  # whatever the evaluation of a user's annotation raises
        return inspect.get_annotations(cls)


def _hint(annotation: Any) -> FieldHint:
    if isinstance(annotation, str):
        return _hint_of_text(annotation)
    origin, args = get_origin(annotation) or annotation, get_args(annotation)
    if origin in (Union, types.UnionType):
        rest = [arg for arg in args if arg is not types.NoneType]
        holds: set[Holds] = {_hint(arg).holds for arg in rest}
        return FieldHint(len(rest) < len(args), holds.pop() if len(holds) == 1 else "")
    if origin is list:
        return FieldHint(holds="list" if args and _hint(args[0]).holds else "")
    if not isinstance(origin, type):
        return FieldHint()
    if issubclass(origin, _TENSORS):
        return FieldHint(holds="tensor")
    return FieldHint(holds="module" if issubclass(origin, nn.Module) else "")


def _hint_of_text(text: str) -> FieldHint:
    holds: Holds = "tensor" if re.search(r"\b(Tensor|Parameter|Param|Buffer)\b", text) else ""
    if re.match(r"(typing\.)?[lL]ist\[", text) and holds:
        holds = "list"
    return FieldHint(bool(re.search(r"\bNone\b|\bOptional\b", text)), holds)
