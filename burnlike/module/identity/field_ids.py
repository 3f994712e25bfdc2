"""The ParamId of each field: kept on the module, and noted on the tensor.

Programs and torch's tools move a parameter object to another module, so the tensor has it, too. Where the two differ,
the first of these counts: an id that the program gave to the place; of an `nn.Parameter` the one on the object; the
place's; of a buffer, whose object is replaced by each assignment, the one on the object.
"""

from itertools import count

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ...errors import ModuleTreeError
from .field_metadata import (
    FIRST_USE,
    NO_FIELD,
    KeptId,
    change_field,
    fields_of,
    merge_field,
    meta_of,
    own_fields,
    put_field,
    set_meta,
)
from .param_id import ParamId


def _id_of(kept: KeptId | bytearray) -> ParamId:
    return kept.id if type(kept) is KeptId else ParamId(int.from_bytes(kept, "little"))  # pyright: ignore


ON_TENSOR = "_burnlike_id"


def place_id(module: nn.Module, name: str) -> ParamId | None:
    kept = fields_of(module).get(name, NO_FIELD).get("id")
    return None if kept is None else _id_of(kept)


def noting(kind: str, tensor: Tensor | None) -> Tensor | None:
    """`tensor`, if ids are noted on it; not the plain one that a caller puts in a parameter's place for one call."""
    return tensor if kind == "state" or isinstance(tensor, nn.Parameter) else None


def noting_at(module: nn.Module, name: str) -> Tensor | None:
    """The tensor `name` of `module`, if ids are noted on it."""
    return module._buffers[name] if name in module._buffers else noting("weight", module._parameters.get(name))


def noted_id(tensor: Tensor | None) -> ParamId | None:
    """The id noted on `tensor` itself, or None."""
    kept = None if tensor is None else tensor.__dict__.get(ON_TENSOR)
    return None if kept is None else _id_of(kept)


def known_id(module: nn.Module, name: str, tensor: Tensor | None) -> ParamId | None:
    """The id of the tensor `name` of `module`, None if it has none yet; `tensor` is from `noting`."""
    kept = fields_of(module).get(name, NO_FIELD).get("id")
    place = None if kept is None else _id_of(kept)
    if torch.compiler.is_compiling():  # compiled code is not to depend on what ids are
        return place
    noted = None if tensor is None else tensor.__dict__.get(ON_TENSOR)
    if noted is None and tensor is not None and type(kept) is KeptId and kept.has_left(module):
        return place if meta_of(module, name).own_id else None
    if noted is None or noted is kept:
        return place
    if place is not None and (not isinstance(tensor, nn.Parameter) or meta_of(module, name).own_id):
        return place
    return _id_of(noted)


def keep_id(module: nn.Module, name: str, param_id: ParamId, tensor: Tensor | None) -> None:
    """Keep `param_id` for the tensor `name` of `module`, and note it on `tensor`, which is from `noting`."""
    noted = None if tensor is None else tensor.__dict__.get(ON_TENSOR)
    fields = own_fields(module)
    place = fields.get(name, NO_FIELD).get("id")
    if type(noted) is KeptId and noted.id == param_id:
        kept = noted
    else:
        kept = place if type(place) is KeptId and place.id == param_id else KeptId(param_id, module)
    if place is not kept:
        place = merge_field(fields, name, {"id": kept}).get("id")
    if tensor is not None and kept is not noted:
        setattr(tensor, ON_TENSOR, kept)
    if (place is not None and _id_of(place) != param_id) or (noted is not None and kept is not noted):
        RENAMED[0] = next(_CHANGES)


RENAMED = [0]
"""Another number whenever a place or a tensor that had an id was given another one: kept traversals begin anew."""

_CHANGES = count(1)


def made_elsewhere(module: nn.Module, tensor: Tensor | None) -> bool:
    """True if the id on a tensor was made for another module, which still lives."""
    kept = None if tensor is None else tensor.__dict__.get(ON_TENSOR)
    return type(kept) is KeptId and kept.home is not None and kept.home() not in (None, module)


def note_move(tensor: Tensor | None, is_move: bool) -> None:
    """Note on a tensor's id whether another tree than that of its first module has the tensor."""
    kept = None if tensor is None else tensor.__dict__.get(ON_TENSOR)
    if type(kept) is KeptId and kept.moved != is_move:
        kept.moved = is_move


def copy_id(module: nn.Module, name: str, other: nn.Module, other_name: str) -> None:
    """Copy the id of `name` of `module` to `other_name` of `other`; torch.compile does not trace into it."""
    field = fields_of(module).get(name, NO_FIELD)
    if "id" in field:
        change_field(other, other_name, {"id": field["id"]})


def drop_id(module: nn.Module, name: str) -> None:
    field = fields_of(module)[name].copy()
    field.pop("id", None)
    put_field(module, name, field)


def ensure_id(module: nn.Module, name: str) -> None:
    """Draw the id of the attribute `name` of `module` if it has none yet, but not in compiled code: ModuleTreeError."""
    if torch.compiler.is_compiling():
        if "id" not in fields_of(module).get(name, NO_FIELD):
            raise ModuleTreeError(
                f"'{name}' of {type(module).__name__} has no ParamId yet, and none can be drawn in compiled code: call"
                " burnlike.module.params(module) before"
            )
        return
    tensor = noting_at(module, name)
    with FIRST_USE:
        place = place_id(module, name)
        noted = noted_id(tensor) if isinstance(tensor, nn.Parameter) else None
        param_id = known_id(module, name, tensor) if noted is None else noted
        if param_id is None:
            held = module._parameters.get(name, tensor)
            param_id = ParamId.new(f"{type(module).__qualname__}.{name} {shape_text(held)}")
        elif param_id == place:
            return
        else:  # another place has it, too, or had it
            set_meta(module, name, tied=True, own_id=False)
        # Not noted on the tensor, which a tool may just be moving to another name: the next traversal knows better.
        keep_id(module, name, param_id, None)


def shape_text(tensor: Tensor | None) -> str:
    """The shape of `tensor` as a part of a fingerprint."""
    return "" if tensor is None or is_shapeless(tensor) else str(list(tensor.shape))
