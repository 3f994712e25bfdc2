"""Combines modules and parts of modules."""

from collections.abc import Sequence
from typing import TypeVar

from torch import Tensor, nn

from ..errors import ConflictError, MissingParamError
from .comparing import check_same_structure
from .guards import guard_holes
from .holding import is_hole, share
from .parameter import Parameter
from .structure import LeafSlot, by_position, places, update_references, view

M = TypeVar("M", bound=nn.Module)


def combine(module: M, *rest: nn.Module, strict: bool = False) -> M:
    """A new module that has, of each parameter, the first that is not a hole: of `module`, then of `rest` in order.

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
    """A new module that has, of each parameter, the last that is not a hole: of `patches`, or else of `module`.

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
        if isinstance(before, Tensor) and isinstance(winner.content, Tensor) and before is not winner.content:
            replaced[before] = winner.content
    update_references(copies.parts, replaced)
    guard_holes(copies.root)
    return copies.root  # pyright: ignore[reportReturnType]


def _first_there(columns: list[dict[str, LeafSlot]], position: str) -> LeafSlot | None:
    for column in columns:
        place = column[position]
        if not is_hole(place.owner, place.name):
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
