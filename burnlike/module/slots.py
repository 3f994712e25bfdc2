"""What burnlike keeps on a module about each tensor it holds: the ParamId, and what torch has no place for.

All of it lies in the module's `__dict__` by attribute name, not on the tensors: deepcopy, `.to("meta")`,
`load_state_dict(assign=True)`, FSDP2 and quantization replace tensors and drop their attributes, but keep this.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy as is_shapeless

from ..errors import ModuleTreeError
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
        hole = self.__copy__()
        hole.trainable = hole.name = None
        hole.hole = True
        hole.kind = kind
        return hole

    def __copy__(self) -> "Meta":
        # Written out: torch.compile traces dataclasses.replace twenty times as slowly.
        return Meta(
            self.trainable,
            self.name,
            self.load_mapper,
            self.save_mapper,
            self.stood_for,
            self.own_id,
            self.tied,
            self.hole,
            self.kind,
        )


_DEFAULT = Meta()
KEPT = ("_burnlike_ids", "_burnlike_metas", "_burnlike_fields", "_burnlike_lists", "_burnlike_items")
"""Where a module keeps what burnlike knows of its attributes, each a dict by their names; any may be missing."""


def group_of(module: nn.Module, kind: Kind) -> dict[str, Any]:
    """Where torch keeps the tensors of `kind` that `module` itself holds, by attribute name."""
    return module._parameters if kind == "weight" else module._buffers


def tell_holder(module: nn.Module | None) -> None:
    """Let the user's container that `module` is the inside of, if it is, take over what changed in it."""
    if module is None:
        return
    parts = module.__dict__
    above = parts.get("_burnlike_held_by")
    held = module if "_burnlike_held" in parts else None if above is None else above()
    if held is not None:
        held.refresh()  # pyright: ignore[reportCallIssue]


def stored_ids(module: nn.Module) -> dict[str, ParamId]:
    """The ids kept on `module` itself, by attribute name; made when missing."""
    return module.__dict__.setdefault("_burnlike_ids", {})


def ensure_id(module: nn.Module, name: str) -> ParamId:
    """The id of the attribute `name` of `module`, drawn if it has none yet.

    Raises:
        ModuleTreeError: it has none, and torch.compile is tracing, where none can be drawn.
    """
    ids = stored_ids(module)
    if name not in ids:
        if torch.compiler.is_compiling():
            raise ModuleTreeError(
                f"'{name}' of {type(module).__name__} has no ParamId yet, and none can be drawn in compiled code: call"
                " burnlike.module.params(module) before"
            )
        tensor = module._parameters.get(name, module._buffers.get(name))
        ids[name] = ParamId.new(f"{type(module).__qualname__}.{name} {shape_text(tensor)}")
    return ids[name]


def shape_text(tensor: Tensor | None) -> str:
    """The shape of `tensor` as a part of a fingerprint."""
    return "" if tensor is None or is_shapeless(tensor) else str(list(tensor.shape))


def meta_of(module: nn.Module, name: str) -> Meta:
    """What is kept about `name`, to be read only."""
    return module.__dict__.get("_burnlike_metas", {}).get(name, _DEFAULT)


def set_meta(module: nn.Module, field: str, meta: Meta | None = None, /, **changes: Any) -> None:
    """Keep `meta`, or what is kept, about `field`, with `changes`."""
    metas = module.__dict__.setdefault("_burnlike_metas", {})
    metas[field] = changed = (meta or metas.get(field, _DEFAULT)).__copy__()
    for name, value in changes.items():
        setattr(changed, name, value)


def remember_field(module: nn.Module, name: str) -> None:
    """Note the place of `name` in the order of declaration."""
    known = module.__dict__.get("_burnlike_fields")
    if known is None:
        known = module.__dict__["_burnlike_fields"] = {}
    if name not in known:
        known[name] = None
