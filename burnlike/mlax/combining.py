"""Putting modules and parts of modules together."""

from collections.abc import Sequence
from typing import Any, TypeVar

from torch import nn

from ..errors import ConflictError, MissingParamError, StructureMismatchError
from ..module.containers import ModuleTuple
from ..module.slots import meta_of
from ..module.tree import own_class, unwrap
from .data import DataTree
from .hyperparameters import hyperparameters, same
from .parameter import id_at, share
from .structure import Place, places, view

M = TypeVar("M", bound=nn.Module)


def combine(module: M, *rest: nn.Module, strict: bool = False) -> M:
    """A new module that has, of each parameter, the first that is no hole: of `module`, then of `rest` in order.

    It shares the tensors of those it is made of. Hyperparameters are those of `module`, which all must have.

    Args:
        module: a module or part of one.
        rest: modules or parts of the same structure.
        strict: accept only parts that fit exactly.

    Raises:
        StructureMismatchError: the modules differ in class, fields or hyperparameters.
        ConflictError: `strict`, and two of them have a parameter, or ids differ.
        MissingParamError: `strict`, and none of them has a parameter.
    """
    return _combine(module, [module, *rest], strict)


def overlay(module: M, *patches: nn.Module) -> M:
    """A new module that has, of each parameter, the last that is no hole: of `patches`, or else of `module`.

    Raises:
        StructureMismatchError: the modules differ in class, fields or hyperparameters.
    """
    return _combine(module, [*reversed(patches), module], False)


def _combine(base: M, parts: Sequence[nn.Module], strict: bool) -> M:
    for other in parts:
        check_same_structure(base, other)
    found = [{place.position: place for place in places(part)} for part in parts]
    if strict:
        _check_exact(found)
    new = view(base)
    for target in places(new):
        winner = next((it[target.position] for it in found if not _is_hole(it[target.position])), None)
        if winner is not None:
            share(winner.owner, winner.name, target.owner, target.name)
    return new


def _check_exact(found: list[dict[str, Place]]) -> None:
    missing = []
    for position in found[0]:
        having = [part[position] for part in found if not _is_hole(part[position])]
        if not having:
            missing.append(position)
        elif len(having) > 1:
            raise ConflictError(f"'{position}' is in {len(having)} of the parts; strict parts don't overlap")
        ids = list(dict.fromkeys(id_at(part[position].owner, part[position].name) for part in found))
        if len(ids) > 1:
            raise ConflictError(f"'{position}' has the ids {ids[0]} and {ids[1]}: these are parts of different modules")
    if missing:
        raise MissingParamError(f"no part has {', '.join(map(repr, missing))}; give the part that does")


def _is_hole(place: Place) -> bool:
    return meta_of(place.owner, place.name).hole


def check_same_structure(a: nn.Module, b: nn.Module, path: str = "") -> None:
    """Refuse trees that can't be put or mapped together.

    Raises:
        StructureMismatchError: they differ in class, fields or hyperparameters; the message has path and both values.
    """
    a, b = unwrap(a), unwrap(b)
    if a is b:
        return
    if own_class(a) is not own_class(b):
        raise _mismatch(path, own_class(a), own_class(b))
    if isinstance(a, ModuleTuple) and isinstance(b, ModuleTuple) and len(a) != len(b):
        raise _mismatch(path, _Words(f"{len(a)} items"), _Words(f"{len(b)} items"))
    prefix = f"{path}." if path else ""
    fields, others = _fields(a), _fields(b)
    for name in dict.fromkeys((*fields, *others)):
        if name not in fields or name not in others:
            raise _mismatch(prefix + name, fields.get(name, _NOTHING), others.get(name, _NOTHING))
        mine, yours = fields[name], others[name]
        if isinstance(mine, _Child) and isinstance(yours, _Child):
            check_same_structure(mine.module, yours.module, prefix + name)
        elif not (mine is yours or (not isinstance(mine, _Child) and same(mine, yours))):
            raise _mismatch(prefix + name, mine, yours)


class _Child:
    """A field that is a module."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module

    def __repr__(self) -> str:
        return f"a {type(self.module).__name__}"


class _Words:
    """What a message says of a field that has no value to show."""

    def __init__(self, words: str) -> None:
        self.words = words

    def __repr__(self) -> str:
        return self.words


_HELD, _NOTHING = _Words("a parameter"), _Words("no such field")


def _fields(module: nn.Module) -> dict[str, Any]:
    found: dict[str, Any] = hyperparameters(module)
    for name, child in module._modules.items():
        found[name] = None if child is None else _HELD if isinstance(child, DataTree) else _Child(child)
    for group in (module._parameters, module._buffers):
        for name, tensor in group.items():
            meta = meta_of(module, name)
            held = tensor is not None or meta.hole or meta.trainable is not None
            found[name] = _HELD if held else None
    return found


def _mismatch(path: str, a: Any, b: Any) -> StructureMismatchError:
    place = f"'{path}'" if path else "the root"
    return StructureMismatchError(f"the modules differ at {place}: {_shown(a)} and {_shown(b)}; nothing was made")


def _shown(value: Any) -> str:
    text = value.__name__ if isinstance(value, type) else repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."
