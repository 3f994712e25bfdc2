"""Finds lists that got a module after they were assigned, too late to register it."""

from collections.abc import Container, Iterable, Iterator
from typing import Any

from torch import nn

from ...errors import ModuleTreeError
from .nested import DEEPEST

_KEY = "_burnlike_lists"


def note_list(module: nn.Module, name: str, value: object) -> None:
    """Note whether the field `name` is a plain list or dict, which may come to hold parts of a tree."""
    if isinstance(value, list | dict):
        module.__dict__.setdefault(_KEY, {})[name] = None
    elif noted := module.__dict__.get(_KEY):
        noted.pop(name, None)


def noted_lists(modules: Iterable[nn.Module]) -> list[tuple[nn.Module, str, Any]]:
    """The plain lists and dicts that are fields of `modules`, each with its module and name."""
    noting = [module for module in modules if _KEY in module.__dict__]
    fields = ((module, name, module.__dict__.get(name)) for module in noting for name in module.__dict__[_KEY])
    return [field for field in fields if isinstance(field[2], list | dict)]


def check_loose_parts(fields: Iterable[tuple[nn.Module, str, Any]], known: Container[int]) -> None:
    """Raise where a plain list holds a module or parameter that nothing else makes a part of the tree.

    Args:
        fields: the plain lists in the tree.
        known: addresses of the modules and tensors that are in the tree.

    Raises:
        ModuleTreeError: there is one: it would be neither trained nor saved.
    """
    for module, name, value in fields:
        for part in _parts(value):
            if id(part) not in known:
                raise ModuleTreeError(
                    f"{type(module).__name__}.{name} was assigned before it held the {type(part).__name__} that it"
                    " holds now, which is no part of the module: it would be neither trained nor saved. Assign the"
                    " list when it is filled, or begin with burnlike.module.ModuleVec(); if it only refers to the"
                    f" {type(part).__name__}, assign burnlike.constant(...)"
                )


def _parts(value: object, depth: int = 0) -> Iterator[Any]:
    if isinstance(value, nn.Module | nn.Parameter):
        yield value
    elif isinstance(value, list | tuple | dict) and depth < DEEPEST:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _parts(item, depth + 1)
