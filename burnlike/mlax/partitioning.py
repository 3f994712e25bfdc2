"""Takes modules apart into views with holes, and puts such parts together."""

from collections.abc import Sequence
from typing import TypeVar

from torch import Tensor, nn

from ..errors import ArgumentError, ConflictError, MissingParamError
from .filters import Filter, as_predicate, is_trainable
from .guards import guard_holes
from .holding import is_hole, share
from .parameter import Parameter
from .static_part import check_same_structure
from .structure import at_same_places, by_position, leaves, places, punch, update_references, view

M = TypeVar("M", bound=nn.Module)


def filter(module: M, f: Filter, *rest: nn.Module, inverse: bool = False, with_path: bool = False) -> M:
    """A view of `module` that keeps what `f` selects; the rest are holes. `module` is untouched, and shares the
    tensors.

    Args:
        f: what to keep. A function gets each Parameter once, never a hole.
        rest: modules of the same structure: a function gets the Parameter of each of them too. What is a hole in one of
            them is not selected.
        inverse: keep what `f` does not select.
        with_path: a function gets the path first.

    Raises:
        StructureMismatchError: a module of `rest` differs in class, fields or hyperparameters.
        TypeError: the function returned something that is neither true nor false.
    """
    found = leaves(module)
    chosen = _choose(module, found, [f], rest, with_path)
    return _keep(module, found, [(number == 0) is not inverse for number in chosen])


def partition(module: M, f: Filter = is_trainable, *rest: nn.Module, with_path: bool = False) -> tuple[M, M]:
    """Two views of `module`: what `f` selects, by default what is to be trained, and what it does not.

    `f` is asked once for each parameter; see `filter`.
    """
    found = leaves(module)
    selected = [number == 0 for number in _choose(module, found, [f], rest, with_path)]
    return _keep(module, found, selected), _keep(module, found, [not it for it in selected])


def split(module: M, *filters: Filter, with_path: bool = False) -> tuple[M, ...]:
    """One view of `module` for each of `filters`: each parameter goes to the first that selects it.

    If none does it is an ArgumentError; `...` as the last filter takes all the others.
    """
    found = leaves(module)
    chosen = _choose(module, found, filters, (), with_path)
    left = [leaf.path for leaf, number in zip(found, chosen, strict=True) if number is None]
    if left:
        raise ArgumentError(
            f"no filter selects {', '.join(map(repr, left))}; give `...` as the last one for the others"
        )
    return tuple(_keep(module, found, [number == index for number in chosen]) for index in range(len(filters)))


def _choose(
    module: nn.Module, found: list[Parameter], filters: Sequence[Filter], rest: Sequence[nn.Module], with_path: bool
) -> list[int | None]:
    """For each leaf, which filter selects it first; None for none."""
    for other in rest:
        check_same_structure(module, other)
    predicates = [as_predicate(f, module, with_path) for f in filters]
    others = [at_same_places(module, other) for other in rest]
    chosen: list[int | None] = []
    for index, leaf in enumerate(found):
        row = [column[index] for column in others]
        asked = [] if any(other.is_hole for other in row) else predicates
        chosen.append(next((number for number, predicate in enumerate(asked) if predicate(leaf, *row)), None))
    return chosen


def _keep(module: M, found: list[Parameter], kept: list[bool]) -> M:
    copies = view(module)
    for leaf, keep in zip(found, kept, strict=True):
        owner, name = leaf.owners[0]
        if leaf.home[0] is not owner:  # the base tensor of a parametrization, known by its size while it is there
            copies.of(owner).__dict__["_base_name"] = name
        if not keep:
            punch(leaf, copies)
    update_references(copies.parts)
    guard_holes(copies.root)
    return copies.root  # pyright: ignore[reportReturnType]


def combine(module: M, *rest: nn.Module, strict: bool = False) -> M:
    """A new module that has, of each parameter, the first that is not a hole: of `module`, then of `rest` in order.

    It shares the tensors of those it is made of. Hyperparameters are those of `module`, which all must have. `strict`
    accepts only parts that fit exactly.

    Raises:
        StructureMismatchError: the modules differ in class, fields or hyperparameters.
        ConflictError: `strict`, and two of them have a parameter, or ids differ.
        MissingParamError: `strict`, and none of them has a parameter.
    """
    return _combine(module, [module, *rest], strict)


def overlay(module: M, *patches: nn.Module) -> M:
    """A new module that has, of each parameter, the last that is not a hole: of `patches`, or else of `module`.

    It is a StructureMismatchError if the modules differ in class, fields or hyperparameters.
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
        there = (column[position] for column in columns)
        winner = next((place for place in there if not is_hole(place.owner, place.name)), None)
        if winner is None or winner.owner is owner:
            continue
        share(winner.owner, winner.name, copies.of(owner), name)
        if isinstance(before, Tensor) and isinstance(winner.content, Tensor) and before is not winner.content:
            replaced[before] = winner.content
    update_references(copies.parts, replaced)
    guard_holes(copies.root)
    return copies.root  # pyright: ignore[reportReturnType]


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
