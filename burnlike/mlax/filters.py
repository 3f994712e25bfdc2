"""Filters of parameters, in all their forms, and common predicates."""

import re
from collections.abc import Callable, Iterable, Set
from types import EllipsisType
from typing import Any as Anything

from torch import Tensor, nn

from ..module.groups.param_group import ParamGroup
from ..module.identity.param_id import ParamId
from ..module.tree.param import Param
from .parameter import Parameter
from .static_part import leaves

Predicate = Callable[..., bool]


class FilterSet:
    """Several filters in one: base of `Any`, `All` and `Not`."""

    decide: Callable[[Iterable[bool]], bool]
    """Makes the answer of those of the filters."""

    def __init__(self, *filters: "Filter") -> None:
        self.filters = filters


class Any(FilterSet):
    """Selects what one of the filters selects."""

    decide = staticmethod(any)


class All(FilterSet):
    """Selects what all of the filters select."""

    decide = staticmethod(all)


class Not(FilterSet):
    """Selects what the filter does not select."""

    decide = staticmethod(lambda answers: not all(answers))

    def __init__(self, filter: "Filter") -> None:
        super().__init__(filter)


Filter = Callable[..., Anything] | bool | EllipsisType | str | re.Pattern[str] | ParamGroup | Set[ParamId] | FilterSet
"""What selects parameters: a function of the Parameter; True or `...` for all; a kind (`weight`, `state`) or another
text for the label `name`; a pattern that is found in the path; a ParamGroup; a set of ParamIds; `Any`, `All` and `Not`
of these."""


def as_predicate(f: Filter, module: nn.Module, with_path: bool = False) -> Predicate:
    """The function that `f` stands for: of a Parameter of `module`, after its path if asked, and those at its place.

    Raises:
        ParamPathError: a ParamGroup names a path that `module` does not have.
        TypeError: `f` is no filter.
    """
    if isinstance(f, FilterSet):
        inner = [as_predicate(one, module, with_path) for one in f.filters]
        return lambda leaf, *rest: f.decide(one(leaf, *rest) for one in inner)
    if f is ... or isinstance(f, bool):
        return lambda leaf, *rest: f is not False
    if isinstance(f, str):
        return lambda leaf, *rest: (leaf.kind if f in ("weight", "state") else leaf.name) == f
    if isinstance(f, re.Pattern):
        return lambda leaf, *rest: any(f.search(path) for path in (leaf.path, *leaf.aliases))
    if isinstance(f, ParamGroup):
        # A parameter that holds several tensors is meant if it is itself, or one of them.
        paths = [param.path for param in f.select(module, leaves(module))]
        return lambda leaf, *rest: f.matches(leaf) or any(path.startswith(f"{leaf.path}.") for path in paths)
    if isinstance(f, Set):
        for wrong in [it for it in f if not isinstance(it, ParamId)]:
            raise TypeError(f"expected a set of ParamIds, got one with {wrong!r}; ParamGroup.from_paths is for paths")
        return lambda leaf, *rest: leaf.id in f
    if callable(f):
        return lambda leaf, *rest: _answer(leaf, f(leaf.path, leaf, *rest) if with_path else f(leaf, *rest))
    raise TypeError(
        "expected a filter (a function, ..., a kind, a name, a pattern, a ParamGroup, a set of ids, or Any, All, Not of"
        f" these), got {type(f).__name__}"
    )


def _answer(leaf: Parameter, answer: Anything) -> bool:
    if isinstance(answer, Tensor) and answer.numel() != 1:
        raise TypeError(
            f"the filter gave a tensor of shape {list(answer.shape)} for '{leaf.path}': expected one truth value,"
            " such as (...).any().item()"
        )
    return bool(answer)


def is_parameter(value: object) -> bool:
    """True if `value` is a parameter's handle; a hole's too."""
    return isinstance(value, Param)


def is_trainable(param: Param) -> bool:
    """True if `param` is meant to be trained; False for a hole."""
    return param.trainable is True


def is_non_trainable(param: Param) -> bool:
    """True if `param` is frozen or a state; False for a hole."""
    return param.trainable is False
