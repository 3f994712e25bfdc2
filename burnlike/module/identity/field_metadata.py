"""burnlike's data about the fields of a module: ids, labels and other facts for which torch has no place.

All of it is one dict of Fields by attribute name, `_burnlike` in the module's `__dict__`: deepcopy, `.to("meta")`,
`load_state_dict(assign=True)`, FSDP2 and quantization replace tensors and drop their attributes, but keep this. It is
plain data, numbers, texts and dicts, so that a pickled module needs nothing of burnlike's.

The ParamId of a field is also noted on the tensor, as programs and torch's tools move a parameter object to another
module. Where the two differ,
the first of these counts: an id that the program gave to the place; of an `nn.Parameter` the one on the object; the
place's; of a buffer, whose object is replaced by each assignment, the one on the object.
"""

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from itertools import count
from typing import Any, Literal, TypedDict

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ...errors import ModuleTreeError
from .param_id import ParamId

Kind = Literal["weight", "state"]
"""What a parameter or buffer is: a weight is trained, a state, such as a running mean, is not."""
Mapper = Callable[[Tensor], Tensor]


@dataclass(slots=True)
class Meta:
    """The data about a tensor besides the tensor and its id.

    Attributes:
        trainable: the intent that `train()` restores, while `valid()` has the tensor not require grad; None otherwise:
            then `requires_grad` is the intent.
        name: a label of the user's.
        load_mapper: from the form of a record to the form of the module.
        save_mapper: from the form of the module to the form of a record.
        stood_for: the `requires_grad` of the `nn.Parameter` in whose place a plain tensor is while a function of the
            module is transformed or compiled.
        own_id: whether the program gave the id, so that another one for the same tensor is a mistake.
        tied: whether the id is that of another place, with which this one shared its tensor.
        hole: whether a partition took the tensor out; its kind is `kind`.
    """

    trainable: bool | None = None
    name: str | None = None
    load_mapper: Mapper | None = None
    save_mapper: Mapper | None = None
    stood_for: bool | None = None
    own_id: bool = False
    tied: bool = False
    hole: bool = False
    kind: Kind = "weight"

    def intent(self, tensor: Tensor) -> bool:
        """True if `tensor`, to which this belongs, is meant to be trained."""
        return self.tracks(tensor) if self.trainable is None else self.trainable

    def tracks(self, tensor: Tensor) -> bool:
        """True if `tensor`, or the parameter in whose place it is, requires grad."""
        if self.stood_for is not None and not isinstance(tensor, nn.Parameter):
            return self.stood_for
        return tensor.requires_grad

    def plain(self) -> dict[str, Any]:
        """The form that a module keeps."""
        return {name: getattr(self, name) for name in _META}  # torch.compile traces asdict twenty times as slowly


_META = tuple(field.name for field in fields(Meta))
_DEFAULT = Meta()
_PLAIN = _DEFAULT.plain()
Holds = Literal["constant", "list", "item"]


class KeptId:
    """An id as a module and a tensor keep it: in pickles it is eight bytes, which anyone can read.

    `home` is the module that it was made for, as long as that lives; `moved` whether the tensor was met elsewhere, in a
    tree without this module.
    """

    __slots__ = ("home", "id", "moved")

    def __init__(self, param_id: ParamId, module: nn.Module | None = None) -> None:
        self.id = param_id
        # Weakly: tensors have the id, too, and would keep the module alive.
        self.home = None if module is None else weakref.ref(module)
        self.moved = False

    def has_left(self, module: nn.Module) -> bool:
        """True if the tensor of this id was moved away from `module`, of which no copy is meant."""
        return self.moved and self.home is not None and self.home() is module

    def __reduce__(self) -> tuple[Any, ...]:
        return bytearray, (self.id.value.to_bytes(8, "little"),)

    # The same object in copies: that a place and its tensor agree is seen by `is`.
    def __deepcopy__(self, memo: dict[int, Any]) -> "KeptId":
        return self


class Field(TypedDict, total=False):
    """A module's data about one of its attributes; never changed in place, so that copies of a tree share it.

    Attributes:
        id: the ParamId of the tensor that it holds, or held.
        meta: what else is known of that tensor: a Meta as a dict.
        holds: what an attribute is that is no tensor and no module: a `constant` only refers to something; a plain
            `list` or dict may come to hold parts of a tree; an `item` has a state that is saved.
        parts: of a tensor of torch's that holds several of burnlike's, the numbers of their ids.
    """

    id: "KeptId | bytearray"
    meta: dict[str, Any]
    holds: Holds
    parts: tuple[int, ...]


FIRST_USE: Any = threading.RLock()
"""Held while ids are decided on, so that threads which meet a module at the same time find the same ones."""

os.register_at_fork(after_in_child=FIRST_USE._at_fork_reinit)  # the thread that held it is not in the child

KEPT = "_burnlike"
"""Where a module has its Fields. Those of a class with `_burnlike_ordered` are in order of declaration."""

NO_FIELD: Field = {}
_NO_FIELDS: dict[str, Field] = {}


def fields_of(module: nn.Module) -> Mapping[str, Field]:
    """The Fields of `module`, to be read only."""
    fields = module.__dict__.get(KEPT)
    return _NO_FIELDS if fields is None else fields


def fields_with(module: nn.Module, key: str, value: object = None) -> list[str]:
    """The names of the Fields of `module` that have `key`, or have `value` there."""
    names = []
    for name, field in module.__dict__.get(KEPT, _NO_FIELDS).items():
        if key in field and (value is None or field[key] == value):
            names.append(name)
    return names


def change_field(module: nn.Module, name: str, changes: Field) -> Field:
    """Merge `changes`, which is not used again, into the Field of the attribute `name`; returns the Field before."""
    return merge_field(own_fields(module), name, changes)


def own_fields(module: nn.Module) -> dict[str, Field]:
    """The Fields of `module`, to be changed by the functions here; made if there are none yet."""
    if KEPT not in module.__dict__:
        if torch.compiler.is_compiling():  # torch 2.11 traces no `setdefault` of a module's `__dict__`
            module.__dict__[KEPT] = {}
        else:
            module.__dict__.setdefault(KEPT, {})
    return module.__dict__[KEPT]


def merge_field(fields: dict[str, Field], name: str, changes: Field) -> Field:
    """As `change_field`, of a module with the Fields `fields`."""
    if torch.compiler.is_compiling():
        before = fields.get(name, NO_FIELD)
        fields[name] = {**before, **changes}
        return before
    if fields.setdefault(name, changes) is changes:  # in one step of the interpreter
        return NO_FIELD
    with FIRST_USE:  # two threads may change different things about it
        before = fields.get(name, NO_FIELD)
        fields[name] = {**before, **changes}
        return before


def put_field(module: nn.Module, name: str, field: Field | None) -> None:
    """Replace the Field of the attribute `name`; None removes it, and its place in the order."""
    fields: dict[str, Field] = module.__dict__[KEPT]
    if field is None:
        fields.pop(name, None)
    else:
        fields[name] = field


def remember_field(module: nn.Module, name: str) -> None:
    """Note the place of `name` in the order of declaration."""
    if name not in fields_of(module):
        own_fields(module).setdefault(name, NO_FIELD)


def ordered_fields(module: nn.Module) -> Mapping[str, Field]:
    """The Fields of `module` if they are in order of declaration, else nothing."""
    return fields_of(module) if getattr(type(module), "_burnlike_ordered", False) else _NO_FIELDS


def order_fields(module: nn.Module, names: Iterable[str]) -> None:
    """Put the Fields of `module` into the order of `names`."""
    fields = fields_of(module)
    module.__dict__[KEPT] = {**{name: fields.get(name, NO_FIELD) for name in names}, **fields}


def held_as(module: nn.Module, name: str) -> Holds | None:
    """The kind of value that the attribute `name` holds, as far as it is noted."""
    return fields_of(module).get(name, NO_FIELD).get("holds")


def hold_as(module: nn.Module, name: str, holds: Holds | None) -> None:
    """Note what the attribute `name` holds now, and its place in the order of declaration."""
    remember_field(module, name)
    if held_as(module, name) != holds:
        with FIRST_USE:
            field = fields_of(module)[name].copy()
            field.pop("holds", None)
            put_field(module, name, {**field, "holds": holds} if holds else field)


def group_of(module: nn.Module, kind: Kind) -> dict[str, Any]:
    """torch's dict of the tensors of `kind` that `module` itself has, by attribute name."""
    return module._parameters if kind == "weight" else module._buffers


def meta_of(module: nn.Module, name: str) -> Meta:
    """The Meta of the tensor `name`, read only."""
    field = module.__dict__.get(KEPT, _NO_FIELDS).get(name, NO_FIELD)  # a call of fields_of is slow for many
    return Meta(**field["meta"]) if "meta" in field else _DEFAULT


def set_meta(module: nn.Module, name: str, meta: Meta | None = None, /, **changes: Any) -> None:
    """Set the Meta of the tensor `name` to `meta`, or the present one, with `changes`."""
    before = fields_of(module).get(name, NO_FIELD).get("meta", _PLAIN) if meta is None else meta.plain()
    change_field(module, name, {"meta": {**before, **changes}})


def copy_meta(module: nn.Module, name: str, other: nn.Module, other_name: str) -> None:
    """Let the tensor `other_name` of `other` have the Meta of `name` of `module`."""
    change_field(other, other_name, {"meta": fields_of(module).get(name, NO_FIELD).get("meta", _PLAIN)})


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
        # From a counter of C: `+= 1` of two threads could give the same number twice.
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
