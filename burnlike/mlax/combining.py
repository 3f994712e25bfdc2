"""Putting modules and parts of modules together."""

from collections.abc import Sequence
from typing import Any, TypeVar

from torch import Tensor, nn

from ..errors import ConflictError, MissingParamError, StructureMismatchError
from ..module.containers import ModuleTuple
from ..module.slots import meta_of
from ..module.wrappers import own_class, unwrap
from .data import DataTree
from .holding import share
from .hyperparameters import hyperparameters, same
from .parameter import Parameter
from .structure import Place, awaits, by_position, places, settle, view

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
    if strict:
        _check_exact([by_position(part) for part in parts])
    columns = [{place.position: place for place in places(part)} for part in parts]
    own = columns[next(index for index, part in enumerate(parts) if part is base)]
    copies = view(base)
    replaced: dict[Tensor, Tensor] = {}
    for position, (_, owner, name, before) in own.items():
        winner = _first_there(columns, position)
        if winner is None or winner.owner is owner:
            continue
        share(winner.owner, winner.name, copies.of(owner), name)
        if isinstance(before, Tensor) and isinstance(winner.held, Tensor) and before is not winner.held:
            replaced[before] = winner.held
    settle(copies.parts, replaced)
    return copies.root  # pyright: ignore[reportReturnType]


def _first_there(columns: list[dict[str, Place]], position: str) -> Place | None:
    for column in columns:
        place = column[position]
        if not meta_of(place.owner, place.name).hole:
            return place
    return None


def _check_exact(found: list[dict[str, Parameter]]) -> None:
    columns = [[part[position] for part in found] for position in found[0]]
    missing = [handles[0].path for handles in columns if all(handle.is_hole for handle in handles)]
    if missing:
        raise MissingParamError(f"no part has {', '.join(map(repr, missing))}; give the part that does")
    for first, *others in columns:
        count = sum(not handle.is_hole for handle in (first, *others))
        if count > 1:
            raise ConflictError(f"'{first.path}' is in {count} of the parts; strict parts don't overlap")
        for handle in others:
            if handle.id != first.id:
                raise ConflictError(
                    f"'{first.path}' has the ids {first.id} and {handle.id}: these are parts of different modules"
                )


def check_same_structure(a: nn.Module, b: nn.Module, path: str = "") -> None:
    """Refuse trees that can't be put or mapped together.

    Raises:
        StructureMismatchError: they differ in class, fields or hyperparameters; the message has path and both values.
        TypeError: `b` is no module.
    """
    if not isinstance(b, nn.Module):
        raise TypeError(f"expected a module of the structure of {type(a).__name__}, got {type(b).__name__}")
    a, b = unwrap(a), unwrap(b)
    if a is b:
        return
    if type(a) is not type(b) and own_class(a) is not own_class(b):
        raise _mismatch(path, own_class(a), own_class(b))
    if isinstance(a, ModuleTuple) and isinstance(b, ModuleTuple) and len(a) != len(b):
        raise _mismatch(path, _Words(f"{len(a)} items"), _Words(f"{len(b)} items"))
    prefix = f"{path}." if path else ""
    fields, others = _fields(a), _fields(b)
    for name in fields if fields.keys() == others.keys() else {**fields, **others}:
        mine, yours = fields.get(name, _NOTHING), others.get(name, _NOTHING)
        if mine is yours:
            continue
        if isinstance(mine, _Child) and isinstance(yours, _Child):
            check_same_structure(mine.module, yours.module, prefix + name)
        elif name not in fields or name not in others or isinstance(mine, _Child) or not same(mine, yours):
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
            found[name] = _HELD if tensor is not None or awaits(module, name) else None
    return found


def _mismatch(path: str, a: Any, b: Any) -> StructureMismatchError:
    place = f"'{path}'" if path else "the root"
    return StructureMismatchError(f"the modules differ at {place}: {_shown(a)} and {_shown(b)}; nothing was made")


def _shown(value: Any) -> str:
    text = value.__name__ if isinstance(value, type) else repr(value)
    return text if len(text) < 80 else f"{text[:77]}..."
