"""The id of each tensor of a tree: the one it had, whatever was done to the tree, or a new one; and new ids at will."""

import hashlib
from typing import Any, TypeVar

from torch import Tensor, nn

from ...errors import DuplicateParamIdError, ModuleTreeError
from ..identity.field_metadata import (
    Kind,
    keep_id,
    known_id,
    made_elsewhere,
    meta_of,
    note_move,
    noted_id,
    noting,
    place_id,
    set_meta,
    shape_text,
)
from ..identity.param_id import ParamId
from ..torch_objects.wrappers import own_class, unwrap
from .param import Param
from .paths import first_difference
from .traversal import slots_of

M = TypeVar("M", bound=nn.Module)

# The module and name that are to keep an id; whether another place has the tensor, or had it, None to leave that as it
# is; and the tensor that the id is to be noted on.
Decision = tuple[nn.Module, str, ParamId, bool | None, Tensor | None]


class Identities:
    """The decisions of one traversal. Until `keep`, the modules are as they were; `known` are the Params met, by their
    ids.

    Every place of a tied tensor keeps the tensor's id, so that it has one id from whichever part of the tree, and in
    whatever order, it is reached. Places that got the id from elsewhere are marked: once one of them holds a tensor of
    its own, that gets an id of its own.
    """

    def __init__(self, root: nn.Module) -> None:
        self.known: dict[int, Param] = {}
        self._root = root
        self._tree = ""
        self._drawn: set[int] = set()
        self._decided: list[Decision] = []
        self._moves: dict[int, tuple[Tensor | None, bool]] = {}

    def resolve(self, path: str, kind: Kind, module: nn.Module, name: str, at_place: Tensor) -> ParamId:
        """The id of a tensor if its place and the tensor note different ones, or one that another tensor has, too."""
        tensor = noting(kind, at_place)
        param_id = known_id(module, name, tensor)
        if param_id is None:
            param_id = self._draw(path)
            self._decided.append((module, name, param_id, False, tensor))
            return param_id
        other = self.known.get(param_id.value)
        if other is not None:
            mine = _claim(module, name, tensor, param_id)
            others = _claim(*other.home, noting(other.kind, other.tensor), param_id)
            if mine == "tied" or (mine, others) == ("place", "object moved"):
                param_id = self._draw(path)
                self._decided.append((module, name, param_id, False, tensor))
                return param_id
            if others != "tied" and (mine, others) != ("object moved", "place"):
                raise DuplicateParamIdError(
                    f"'{other.path}' and '{path}' are different tensors with one ParamId ({param_id}), as a deep"
                    " copy of a layer has; call burnlike.module.fresh_ids(copy) on the copied part"
                )
            self._change(other, self._draw(other.path))
        place = place_id(module, name)
        arrived = place is not param_id and place != param_id
        self._decided.append((module, name, param_id, True if arrived else None, tensor))
        if arrived or made_elsewhere(module, tensor):
            self._moves[param_id.value] = tensor, True
        return param_id

    def tie(self, param: Param, path: str, module: nn.Module, name: str) -> None:
        """Note that the tensor of `param` is at `path` too, where `module` keeps an id for `name`."""
        here, there = place_id(module, name), param.id
        if (module, name) == param.home:
            return
        if here == there:
            self._moves[there.value] = noting(param.kind, param.tensor), False
        if here is not None and here != there and here.value not in self.known:
            given_here, given_there = meta_of(module, name).own_id, meta_of(*param.home).own_id
            if given_here and given_there:
                raise DuplicateParamIdError(
                    f"'{param.path}' and '{path}' are one tensor that was given two ids, {param.id} and {here};"
                    " give it one, or hold two tensors"
                )
            if given_here or there.value in self._drawn:
                self._change(param, here)
                return
        self._decided.append((module, name, there, True, noting(param.kind, param.tensor)))

    def keep(self) -> None:
        """Write the decisions to the modules."""
        for module, name, param_id, tied, tensor in self._decided:
            keep_id(module, name, param_id, tensor)
            if tied is not None and meta_of(module, name).tied != tied:
                set_meta(module, name, tied=tied)
        for tensor, is_move in self._moves.values():
            note_move(tensor, is_move)

    def _change(self, param: Param, param_id: ParamId) -> None:
        if self.known.get(param.id.value) is param:
            del self.known[param.id.value]
        param.id = param_id
        self.known[param_id.value] = param
        self._decided.append((*param.home, param_id, False, noting(param.kind, param.tensor)))

    def _draw(self, path: str) -> ParamId:
        self._tree = self._tree or fingerprint_of_tree(self._root)
        param_id = ParamId.new(f"{self._tree}/{path}")
        self._drawn.add(param_id.value)
        return param_id


def _claim(module: nn.Module, name: str, tensor: Tensor | None, param_id: ParamId) -> str:
    """The claim of a tensor to the id `param_id`: `object`, `object moved`, `place` or, the weakest, `tied`."""
    tied = place_id(module, name) != param_id or meta_of(module, name).tied
    if isinstance(tensor, nn.Parameter) and noted_id(tensor) == param_id:
        return "object moved" if tied else "object"
    return "tied" if tied else "place"


def fingerprint_of_tree(root: nn.Module) -> str:
    """A text that tells `root` from other models of the program: its class, or its content if the class is torch's."""
    cls = own_class(unwrap(root))
    if not cls.__module__.startswith("torch.nn"):
        return cls.__qualname__
    content = "\n".join(f"{slot.path} {shape_text(slot.tensor)}" for slot in slots_of(root))
    # Short, as it becomes a part of the fingerprint of each tensor.
    return f"{cls.__qualname__} {hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}"


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

    from .walk import params  # a walk decides ids by this file

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
