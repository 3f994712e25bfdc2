"""Parameters that belong to no module yet."""

from typing import Any

from torch import nn

from ..errors import ArgumentError, DTypeError
from ..module.identity.field_metadata import KeptId, Meta, change_field
from ..module.identity.param_id import ParamId
from ..module.tree.param import Kind
from .data import as_data, check_trainable
from .holding import empty, write


class Unbound(nn.Module):
    """Holds, as `value`, a Parameter that no module has yet."""


def declared(
    trainable: bool | None, data: Any, name: str | None, kind: Kind | None, param_id: ParamId | None
) -> Unbound:
    """The object that holds a Parameter until a module has it; arguments and errors are those of `Parameter`."""
    if trainable is not None and not isinstance(trainable, bool):
        raise TypeError(f"Parameter: expected trainable to be True, False or None, got {trainable!r}")
    if kind not in (None, "weight", "state"):
        raise ArgumentError(f"Parameter: expected kind 'weight' or 'state', got {kind!r}")
    if kind == "state" and trainable:
        raise DTypeError("Parameter: a state can't be trainable; use trainable=False")
    if trainable is None and data is not None:
        raise ArgumentError("Parameter: expected trainable=True or False for data, got None, which marks a hole")
    holder = Unbound()
    meta = Meta(name=name, own_id=param_id is not None, kind=kind or "weight")
    if data is None:
        meta.trainable, meta.hole = trainable, trainable is None
        empty(holder, "value", meta.kind)
    else:
        data = as_data(data)
        if trainable:
            check_trainable(data, "Parameter")
    change_field(holder, "value", {"id": KeptId(param_id or ParamId.new("Parameter")), "meta": meta.plain()})
    if data is not None:
        write(holder, "value", data, bool(trainable), meta.kind)
    return holder
