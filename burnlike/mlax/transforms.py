"""Takes modules apart into views with holes, puts such parts together, and maps their parameters."""

import copy
import itertools
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .._torch_compat.transforms import is_wrapped
from ..errors import ArgumentError, ConflictError, MissingParamError
from ..module.identity.field_metadata import meta_of, set_meta
from ..module.torch_objects.lazy_parameter import is_lazy
from ..module.transforms import mapping
from ..module.transforms.mapping import Memory
from ..module.tree.param import IS_GRADIENT, Param
from .data import as_data, check_trainable, is_hole, share, tensors_in
from .filters import Filter, Predicate, as_predicate, is_trainable
from .guards import guard_holes
from .parameter import Parameter
from .pytrees import level_of, map_items
from .static_part import (
    at_same_places,
    by_position,
    check_same_structure,
    counterpart,
    leaves,
    places,
    punch,
    update_references,
    view,
)

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
    module_leaves = leaves(module)
    chosen = _choose(module, module_leaves, [f], rest, with_path)
    return _keep(module, module_leaves, [(number == 0) is not inverse for number in chosen])


def partition(module: M, f: Filter = is_trainable, *rest: nn.Module, with_path: bool = False) -> tuple[M, M]:
    """Two views of `module`: what `f` selects, by default what is to be trained, and what it does not.

    `f` is asked once for each parameter; see `filter`.
    """
    module_leaves = leaves(module)
    selected = [number == 0 for number in _choose(module, module_leaves, [f], rest, with_path)]
    return _keep(module, module_leaves, selected), _keep(module, module_leaves, [not it for it in selected])


def split(module: M, *filters: Filter, with_path: bool = False) -> tuple[M, ...]:
    """One view of `module` for each of `filters`: each parameter goes to the first that selects it.

    If none does it is an ArgumentError; `...` as the last filter takes all the others.
    """
    module_leaves = leaves(module)
    chosen = _choose(module, module_leaves, filters, (), with_path)
    left = [leaf.path for leaf, number in zip(module_leaves, chosen, strict=True) if number is None]
    if left:
        raise ArgumentError(
            f"no filter selects {', '.join(repr(it) for it in left)}; give `...` as the last one for the others"
        )
    return tuple(_keep(module, module_leaves, [number == index for number in chosen]) for index in range(len(filters)))


def _choose(
    module: nn.Module,
    module_leaves: list[Parameter],
    filters: Sequence[Filter],
    rest: Sequence[nn.Module],
    with_path: bool,
) -> list[int | None]:
    """For each leaf, which filter selects it first; None for none."""
    for other in rest:
        check_same_structure(module, other)
    predicates = [as_predicate(f, module, with_path) for f in filters]
    others = [at_same_places(module, other) for other in rest]
    rows = zip(*others, strict=True) if others else itertools.repeat(())
    return [_first(predicates, leaf, row) for leaf, row in zip(module_leaves, rows, strict=False)]


def _first(predicates: list[Predicate], leaf: Parameter, rest: Sequence[Parameter]) -> int | None:
    if rest and any(other.is_hole for other in rest):
        return None
    for index, predicate in enumerate(predicates):  # torch.compile traces it sooner than a generator
        if predicate(leaf, *rest):
            return index
    return None


def _keep(module: M, module_leaves: list[Parameter], kept: list[bool]) -> M:
    copies = view(module)
    for leaf, keep in zip(module_leaves, kept, strict=True):
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
    base_column = columns[next(index for index, part in enumerate(parts) if part is base)]
    copies = view(base)
    replaced: dict[Tensor, Tensor] = {}
    for position, (_, owner, name, before) in base_column.items():
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


def _check_exact(parts: list[dict[str, Parameter]]) -> None:
    columns = [[part[position] for part in parts] for position in parts[0]]
    missing = [handles[0].path for handles in columns if all(handle.is_hole for handle in handles)]
    if missing:
        raise MissingParamError(f"no part has {', '.join(repr(it) for it in missing)}; give the part that does")
    for first, *others in columns:
        count = sum(not handle.is_hole for handle in (first, *others))
        if count > 1:
            raise ConflictError(f"'{first.path}' is in {count} of the parts; strict parts don't overlap")
        for handle in others:
            if handle.id != first.id:
                raise ConflictError(
                    f"'{first.path}' has the ids {first.id} and {handle.id}: these are parts of different modules"
                )


def map(module: M, f: mapping.Mapping, *rest: nn.Module, with_path: bool = False, include_empty: bool = False) -> M:
    """A new module with what `f` gives for each parameter, which shares no memory with those it was given; ids stay.

    Args:
        f: called once with each Parameter (a tied one counts once; the data is whole). It returns new data, or a
            Parameter, whose trainability and label are taken over too. A ModuleMapper instead sees each tensor.
        rest: modules of the same structure: a function gets the Parameter of each of them too. What is a hole in one of
            them stays as it is.
        with_path: a function gets the path first.
        include_empty: call the function for holes too.

    Raises:
        StructureMismatchError: a module of `rest` differs in class, fields or hyperparameters.
        TypeError: the function returned something that can't be data, or whole numbers for what is trainable.
    """
    if isinstance(f, mapping.ModuleMapper):
        return mapping.map(module, f, *rest)
    for other in rest:
        check_same_structure(module, other)
    old = leaves(module, holes=include_empty)
    others = [at_same_places(module, other, include_empty) for other in rest]
    results = []
    for leaf, *partners in zip(old, *others, strict=True):
        arguments = (leaf.path, leaf) if with_path else (leaf,)
        left = not include_empty and any(partner.is_hole for partner in partners)
        results.append(leaf if left else _checked(leaf, f(*arguments, *partners)))
    separated = _Own([leaf for tree_leaves in (old, *others) for leaf in tree_leaves])
    copies = view(module, torch.clone)
    replaced: dict[Tensor, Tensor] = {}
    for source, result in zip(old, results, strict=True):
        leaf = counterpart(source, copies)
        before = leaf.data
        _put(leaf, source, result, separated)
        after = leaf.data
        if isinstance(before, Tensor) and isinstance(after, Tensor):
            replaced[before] = after
            if hasattr(source.data, IS_GRADIENT):  # a gradient stays one
                setattr(after, IS_GRADIENT, True)
    update_references(copies.parts, replaced)
    if include_empty:
        guard_holes(copies.root)
    return copies.root  # pyright: ignore[reportReturnType]


def _checked(leaf: Parameter, result: Any) -> Any:
    if isinstance(result, Param):
        if isinstance(result, Parameter) and result.data is None and leaf.data is not None:
            raise TypeError(f"the function returned a Parameter without data for '{leaf.path}'; filter makes holes")
        return result
    if isinstance(result, Tensor) or level_of(result) is not None:
        data = as_data(result, leaf.path)
        if leaf.trainable:
            check_trainable(data, leaf.path)
        return data
    raise TypeError(
        f"the function returned {type(result).__name__} for '{leaf.path}': expected a tensor (or a pytree of"
        " tensors) or a Parameter; the module is as it was"
    )


def _put(leaf: Parameter, source: Parameter, result: Any, separated: "_Own") -> None:
    """Let `leaf`, of the new module, have what the function made of `source`."""
    if not isinstance(result, Param):
        leaf.replace(separated.data(result), bool(source.trainable), source.tracked)
        return
    data = result.data if isinstance(result, Parameter) else result.tensor
    if data is None:
        return
    meta = meta_of(*result.home)
    leaf.replace(separated.data(as_data(data)), bool(result.trainable), result.requires_grad)
    set_meta(*leaf.home, name=meta.name, load_mapper=meta.load_mapper, save_mapper=meta.save_mapper)


class _Own:
    """Gives the data of the new module memory that neither `parameters` have, nor other data of the new module.

    What torch.compile traces does not know where tensors lie: there, only the tensors themselves are told apart.
    """

    def __init__(self, parameters: list[Parameter]) -> None:
        tensors = [tensor for leaf in parameters if leaf.data is not None for tensor in tensors_in(leaf.data)]
        self._memory = None if torch.compiler.is_compiling() else Memory(tensors)
        self._known = dict.fromkeys(tensors)

    def data(self, data: Any) -> Any:
        """`data`, with copies of the tensors that lie in memory of others."""
        return map_items(data, self._tensor)

    def _tensor(self, data: Tensor) -> Tensor:
        if is_lazy(data):
            return copy.deepcopy(data)
        if self._memory is not None and not is_wrapped(data):
            return self._memory.separate(data)
        separate = data.clone() if data in self._known else data
        self._known[separate] = None
        return separate
