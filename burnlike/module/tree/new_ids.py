"""New ids for a module, and the ids of one rank for all."""

from typing import Any, TypeVar

from torch import nn

from ...errors import ModuleTreeError
from ..identity.field_ids import keep_id, noting, place_id
from ..identity.field_metadata import meta_of, set_meta
from ..identity.param_id import ParamId
from .identities import fingerprint_of_tree
from .paths import first_difference
from .traversal import slots_of
from .walk import params

M = TypeVar("M", bound=nn.Module)


def fresh_ids(module: nn.Module) -> nn.Module:
    """Give every parameter of `module` a new id, for a copy that is to live beside its original; returns `module`."""
    tree = fingerprint_of_tree(module)
    drawn: dict[int, ParamId] = {}
    for slot in slots_of(module):
        param_id = drawn.get(id(slot.tensor)) or ParamId.new(f"{tree}/{slot.path}")
        drawn[id(slot.tensor)] = param_id
        keep_id(slot.home_module, slot.home_name, param_id, noting(slot.kind, slot.tensor))
        if meta_of(slot.home_module, slot.home_name).own_id:
            set_meta(slot.home_module, slot.home_name, own_id=False)
    return module


def agree_ids(module: M, group: Any = None) -> M:
    """Give `module` on every rank the ids that it has on the first one, by one broadcast; returns the module.

    Ranks draw equal ids by themselves, unless one rank alone has first built more layers of the same classes and
    shapes, or traversed a part of the tree before the whole; or the ranks were started by hand, with neither
    `MASTER_ADDR` and `WORLD_SIZE` nor a process group when the ids were drawn. Call it on all ranks of `group` (None:
    all) at once, before optimizer states and gradients are kept by id. Without a process group it does nothing.

    It is a ModuleTreeError on the ranks whose tree has other paths than that of the first; their ids are as they were.
    """
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_rank(group) < 0:
        return module
    params(module)  # so that each place has an id
    slots = slots_of(module)
    ours = [(slot.path, place_id(slot.home_module, slot.home_name)) for slot in slots]
    box: list[Any] = [ours]
    distributed.broadcast_object_list(box, group=group, group_src=0)
    theirs: list[tuple[str, ParamId]] = box[0]
    if different := first_difference((path for path, _ in ours), (path for path, _ in theirs)):
        rank, (here, there) = distributed.get_rank(group), different
        raise ModuleTreeError(f"rank {rank}: expected the tree of rank 0, got {here} where that has {there}")
    for slot, (_, param_id) in zip(slots, theirs, strict=True):
        keep_id(slot.home_module, slot.home_name, param_id, noting(slot.kind, slot.tensor))
    return module
