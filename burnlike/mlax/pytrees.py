"""The data of a Parameter as a pytree, level by level; and Parameters as pytrees, for `torch.func`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor, nn

from .._torch_compat import pytree
from ..module.identity.field_metadata import set_meta
from ..module.identity.param_id import ParamId
from ..module.tree.param import Kind, differentiable


class Level(NamedTuple):
    """The outermost level of some data: its type, and the names and items of what it holds.

    `node` is what torch's tree functions know it by, and what else there is to it; None for lists, tuples and dicts.
    """

    type: type
    names: tuple[str, ...]
    items: tuple[Any, ...]
    node: tuple[Any, Any] | None = None

    def holding(self, items: Any) -> Any:
        if self.node is not None:
            kind, context = self.node
            return pytree.SUPPORTED_NODES[kind].unflatten_fn(items, context)
        return dict(zip(self.names, items, strict=True)) if self.type is dict else self.type(items)


def level_of(data: Any) -> Level | None:
    """The outermost level of `data`; None for what is no pytree, and for modules and tensors."""
    kind = type(data)
    if kind is dict:
        return Level(kind, tuple(data), tuple(data.values()))
    if kind is list or kind is tuple:
        return Level(kind, tuple(map(str, range(len(data)))), tuple(data))
    if isinstance(data, Tensor | nn.Module):
        return None
    items, spec = pytree.tree_flatten(data, is_leaf=lambda value: value is not data)
    if len(items) == 1 and items[0] is data:
        return None
    return Level(kind, _names(data, len(items)), tuple(items), (spec.type, spec.context))


def _names(data: Any, count: int) -> tuple[str, ...]:
    """Names that torch takes for parameters: those of fields and keys where they are texts, else numbers."""
    numbers = tuple(map(str, range(count)))
    try:
        paths, _ = pytree.tree_flatten_with_path(data, is_leaf=lambda value: value is not data)
    except ValueError:  # the class was registered without them
        return numbers
    names = tuple(getattr(path[0], "name", getattr(path[0], "key", None)) for path, _ in paths)
    are_texts = all(isinstance(name, str) and name and "." not in name for name in names)
    return names if are_texts and len(set(names)) == count else numbers  # pyright: ignore[reportReturnType]


def map_items(data: Any, function: Callable[[Any], Any]) -> Any:
    """`data` with what `function` makes of each of its leaves."""
    level = level_of(data)
    return function(data) if level is None else level.holding([map_items(item, function) for item in level.items])


@dataclass(frozen=True)
class ParameterForm:
    """A Parameter without its data; equal for those that can be mapped together. Without trainability it is a hole."""

    trainable: bool | None
    name: str | None
    filled: bool
    kind: Kind = field(compare=False)
    id: ParamId = field(compare=False)


class DataOf:
    """The result of a tree function for a Parameter, with `data` that can't be data: shapes, None; `handle_type` is its
    class.
    """

    __slots__ = ("data", "form", "made")

    def __init__(self, handle_type: type, form: ParameterForm, data: Any) -> None:
        self.made = handle_type
        self.form = form
        self.data = data


def register_handle(cls: type, handle_type: type) -> None:
    """Let the handles of class `cls` be pytrees; tree functions make handles of class `handle_type`."""

    def unflatten(values: Any, form: ParameterForm) -> Any:
        values = list(values)
        tensors = pytree.tree_leaves(values)
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            return DataOf(handle_type, form, *values)
        trainable = form.trainable and all(map(differentiable, tensors))
        param = handle_type(trainable, *values, name=form.name, kind=form.kind, id=form.id)
        set_meta(*param.home, own_id=False)
        return param

    pytree.register_pytree_node(
        cls,
        _flatten,
        unflatten,
        serialized_type_name=f"burnlike.mlax.{cls.__name__}",
        flatten_with_keys_fn=_flatten_with_keys,
    )


def _flatten(param: Any) -> tuple[list[Any], ParameterForm]:
    data = param.data
    form = ParameterForm(param.trainable, param.name, data is not None, param.kind, param.id)
    return [data] if form.filled else [], form


def _flatten_with_keys(param: Any) -> tuple[list[tuple[Any, Any]], ParameterForm]:
    data, form = _flatten(param)
    return [(pytree.GetAttrKey("data"), it) for it in data], form


def _unflatten_data(values: Any, context: tuple[type, ParameterForm]) -> Any:
    handle_type, form = context
    return pytree.SUPPORTED_NODES[handle_type].unflatten_fn(values, form)


pytree.register_pytree_node(DataOf, lambda held: ([held.data], (held.made, held.form)), _unflatten_data)
