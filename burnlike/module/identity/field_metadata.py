"""What burnlike keeps on a module about each tensor it holds: the ParamId, and what torch has no place for.

All of it lies in the module's `__dict__` by attribute name: deepcopy, `.to("meta")`, `load_state_dict(assign=True)`,
FSDP2 and quantization replace tensors and drop their attributes, but keep this. It is plain data, numbers, texts and
dicts, so that a pickled module needs nothing of burnlike's.

The id is noted on the tensor, too, since programs and torch's tools move a parameter object to another module. Where
the two differ, the first of these counts: an id that the program gave to the place; of an `nn.Parameter` the one on the
object; the place's; of a buffer, whose object is replaced by each assignment, the one on the object.
"""

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ...errors import ModuleTreeError
from .param_id import ParamId

Kind = Literal["weight", "state"]
Mapper = Callable[[Tensor], Tensor]


@dataclass(slots=True)
class Meta:
    """What is known about one name beside its tensor and id.

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
        kind: `weight` or `state` of a hole.
    """

    trainable: bool | None = None
    name: str | None = None
    load_mapper: Mapper | None = None
    save_mapper: Mapper | None = None
    stood_for: bool | None = None
    own_id: bool = False
    tied: bool = False
    hole: bool = False
    kind: str = "weight"

    def intent(self, tensor: Tensor) -> bool:
        """Whether `tensor`, the parameter that this is about, is meant to be trained."""
        return self.tracks(tensor) if self.trainable is None else self.trainable

    def tracks(self, tensor: Tensor) -> bool:
        """Whether `tensor`, or the parameter in whose place it is, requires grad."""
        if self.stood_for is not None and not isinstance(tensor, nn.Parameter):
            return self.stood_for
        return tensor.requires_grad

    def as_hole(self, kind: str) -> "Meta":
        """What stays known of a parameter of `kind` that was taken out."""
        return Meta(**{**self.plain(), "trainable": None, "name": None, "hole": True, "kind": kind})

    def plain(self) -> dict[str, Any]:
        """What a module keeps of it."""
        # Written out: torch.compile traces dataclasses.asdict twenty times as slowly.
        return {
            "trainable": self.trainable,
            "name": self.name,
            "load_mapper": self.load_mapper,
            "save_mapper": self.save_mapper,
            "stood_for": self.stood_for,
            "own_id": self.own_id,
            "tied": self.tied,
            "hole": self.hole,
            "kind": self.kind,
        }


_DEFAULT = Meta()
KEPT = ("_burnlike_ids", "_burnlike_metas", "_burnlike_fields", "_burnlike_lists", "_burnlike_items")
"""Where a module keeps what burnlike knows of its attributes, each a dict by their names; any may be missing."""


def group_of(module: nn.Module, kind: Kind) -> dict[str, Any]:
    """Where torch keeps the tensors of `kind` that `module` itself holds, by attribute name."""
    return module._parameters if kind == "weight" else module._buffers


class KeptId:
    """An id as a module and a tensor keep it: in pickles it is eight bytes, which anyone can read.

    Attributes:
        id: the ParamId.
    """

    __slots__ = ("id",)

    def __init__(self, param_id: ParamId) -> None:
        self.id = param_id

    def __reduce__(self) -> tuple[Any, ...]:
        return bytearray, (self.id.value.to_bytes(8, "little"),)

    def __deepcopy__(self, memo: dict[int, Any]) -> "KeptId":
        return self


def _id_of(kept: Any) -> ParamId:
    if type(kept) is KeptId:
        return kept.id
    return kept if type(kept) is ParamId else ParamId(int.from_bytes(kept, "little"))  # older pickles have ParamIds


FIRST_USE: Any = threading.RLock()
"""Held while ids are decided on, so that threads which meet a module at the same time find the same ones."""

os.register_at_fork(after_in_child=FIRST_USE._at_fork_reinit)  # the thread that held it is not in the child

ON_TENSOR = "_burnlike_id"


def place_id(module: nn.Module, name: str) -> ParamId | None:
    """The id kept on `module` for the attribute `name`, or None."""
    kept = module.__dict__.get("_burnlike_ids", NO_IDS).get(name)
    return None if kept is None else _id_of(kept)


NO_IDS: dict[str, Any] = {}


def noting(kind: str, tensor: Tensor | None) -> Tensor | None:
    """`tensor`, if ids are noted on it; not the plain one that a caller puts in a parameter's place for one call."""
    return tensor if kind == "state" or isinstance(tensor, nn.Parameter) else None


def noting_at(module: nn.Module, name: str) -> Tensor | None:
    """What `module` holds as `name`, if ids are noted on it."""
    if name in module._buffers:
        return module._buffers[name]
    return noting("weight", module._parameters.get(name))


def noted_id(tensor: Tensor | None) -> ParamId | None:
    """The id noted on `tensor` itself, or None."""
    kept = None if tensor is None else tensor.__dict__.get(ON_TENSOR)
    return None if kept is None else _id_of(kept)


def known_id(module: nn.Module, name: str, tensor: Tensor | None) -> ParamId | None:
    """The id of what `module` holds as `name`, None if there is none yet; `tensor` is from `noting`."""
    place = place_id(module, name)
    if torch.compiler.is_compiling():  # compiled code is not to depend on what ids are
        return place
    noted = noted_id(tensor)
    if noted is None or noted == place:
        return place
    if place is not None and (not isinstance(tensor, nn.Parameter) or meta_of(module, name).own_id):
        return place
    return noted


def keep_id(module: nn.Module, name: str, param_id: ParamId, tensor: Tensor | None) -> None:
    """Keep `param_id` for what `module` holds as `name`, and note it on `tensor`, which is from `noting`."""
    before = None if tensor is None else tensor.__dict__.get(ON_TENSOR)
    kept = before if type(before) is KeptId and before.id == param_id else KeptId(param_id)
    module.__dict__.setdefault("_burnlike_ids", {})[name] = kept
    if tensor is not None and kept is not before:
        setattr(tensor, ON_TENSOR, kept)
        if before is not None:
            RENAMED[0] += 1


RENAMED = [0]
"""How often a tensor that had an id was given another one: other modules that hold it don't see that on themselves."""


def copy_id(module: nn.Module, name: str, other: nn.Module, other_name: str) -> None:
    """Let `other` keep for `other_name` what is kept for `name`; torch.compile does not look into it."""
    ids = module.__dict__.get("_burnlike_ids", NO_IDS)
    if name in ids:
        other.__dict__.setdefault("_burnlike_ids", {})[other_name] = ids[name]


def forget_id(module: nn.Module, name: str) -> None:
    """Keep no id for `name`."""
    module.__dict__["_burnlike_ids"].pop(name, None)


def ensure_id(module: nn.Module, name: str) -> None:
    """Draw the id of the attribute `name` of `module` if it has none yet; a parameter that has one brings it.

    Raises:
        ModuleTreeError: it has none, and torch.compile is tracing, where none can be drawn.
    """
    if torch.compiler.is_compiling():
        if name not in module.__dict__.get("_burnlike_ids", NO_IDS):
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


def meta_of(module: nn.Module, name: str) -> Meta:
    """What is kept about `name`, to be read only."""
    kept = module.__dict__.get("_burnlike_metas", _NO_METAS).get(name)
    return _DEFAULT if kept is None else as_meta(kept)


_NO_METAS: dict[str, Any] = {}


def as_meta(kept: Any) -> Meta:
    """What a module keeps about a name, with attributes."""
    return Meta(**kept) if type(kept) is dict else kept  # older pickles have Metas


def set_meta(module: nn.Module, field: str, meta: Meta | None = None, /, **changes: Any) -> None:
    """Keep `meta`, or what is kept, about `field`, with `changes`."""
    metas = module.__dict__.setdefault("_burnlike_metas", {})
    metas[field] = {**(meta or meta_of(module, field)).plain(), **changes}


def remember_field(module: nn.Module, name: str) -> None:
    """Note the place of `name` in the order of declaration."""
    module.__dict__.setdefault("_burnlike_fields", {}).setdefault(name)
