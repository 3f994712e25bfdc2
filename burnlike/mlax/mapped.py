"""Makes a new module from the results of a function for each parameter."""

import copy
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .._torch_compat.transforms import is_wrapped
from ..module.identity.field_metadata import meta_of, set_meta
from ..module.torch_objects.lazy_parameter import is_lazy
from ..module.torch_objects.memory import Memory
from ..module.transforms import mapping
from ..module.tree.param import Param
from .data import as_data, check_trainable, tensors_in
from .guards import guard_holes
from .parameter import Parameter
from .pytrees import level_of, map_items
from .static_part import check_same_structure
from .structure import at_same_places, counterpart, leaves, update_references, view

M = TypeVar("M", bound=nn.Module)


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
        given = (leaf.path, leaf) if with_path else (leaf,)
        left = not include_empty and any(it.is_hole for it in partners)
        results.append(leaf if left else _checked(leaf, f(*given, *partners)))
    own = _Own([leaf for found in (old, *others) for leaf in found])
    copies = view(module, torch.clone)
    replaced: dict[Tensor, Tensor] = {}
    for source, result in zip(old, results, strict=True):
        leaf = counterpart(source, copies)
        before = leaf.data
        _put(leaf, source, result, own)
        after = leaf.data
        if isinstance(before, Tensor) and isinstance(after, Tensor):
            replaced[before] = after
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


def _put(leaf: Parameter, source: Parameter, result: Any, own: "_Own") -> None:
    """Let `leaf`, of the new module, have what the function made of `source`."""
    if not isinstance(result, Param):
        leaf.replace(own.data(result), bool(source.trainable), source.tracked)
        return
    data = result.data if isinstance(result, Parameter) else result.tensor
    if data is None:
        return
    meta = meta_of(*result.home)
    leaf.replace(own.data(as_data(data)), bool(result.trainable), result.requires_grad)
    set_meta(*leaf.home, name=meta.name, load_mapper=meta.load_mapper, save_mapper=meta.save_mapper)


class _Own:
    """Gives the data of the new module memory that neither `given` has, nor other data of the new module.

    What torch.compile traces does not know where tensors lie: there, only the tensors themselves are told apart.
    """

    def __init__(self, given: list[Parameter]) -> None:
        tensors = [tensor for leaf in given if leaf.data is not None for tensor in tensors_in(leaf.data)]
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
        made = data.clone() if data in self._known else data
        self._known[made] = None
        return made
