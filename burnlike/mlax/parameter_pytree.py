"""Parameters as pytrees, for `torch.func` and torch's tree functions."""

from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from .._torch_compat import pytree
from ..module.identity.field_metadata import set_meta
from ..module.identity.param_id import ParamId
from ..module.tree.param import Kind
from ..module.tree.param_values import differentiable


@dataclass(frozen=True)
class ParameterForm:
    """A Parameter without its data; equal for those that can be mapped together.

    Attributes:
        trainable: the intent; None for a hole.
        name: the label.
        filled: whether there is data.
        kind: `weight` or `state`.
        id: the identity.
    """

    trainable: bool | None
    name: str | None
    filled: bool
    kind: Kind = field(compare=False)
    id: ParamId = field(compare=False)


class DataOf:
    """The result of a tree function for a Parameter when its results can't be data: shapes, None.

    Attributes:
        made: the class of the handle.
        form: of the Parameter.
        data: with those results.
    """

    __slots__ = ("data", "form", "made")

    def __init__(self, made: type, form: ParameterForm, data: Any) -> None:
        self.made = made
        self.form = form
        self.data = data


def register_handle(cls: type, made: type) -> None:
    """Let the handles of class `cls` be pytrees; tree functions make handles of class `made`."""

    def unflatten(values: Any, form: ParameterForm) -> Any:
        values = list(values)
        tensors = pytree.tree_leaves(values)
        if not all(isinstance(tensor, Tensor) for tensor in tensors):
            return DataOf(made, form, *values)
        trainable = form.trainable and all(map(differentiable, tensors))
        param = made(trainable, *values, name=form.name, kind=form.kind, id=form.id)
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
    made, form = context
    return pytree.SUPPORTED_NODES[made].unflatten_fn(values, form)


pytree.register_pytree_node(DataOf, lambda held: ([held.data], (held.made, held.form)), _unflatten_data)
