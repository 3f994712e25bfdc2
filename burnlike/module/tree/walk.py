"""Walks any `nn.Module` tree: each tensor once, with its id and canonical path.

A step of an optimizer, zero_grad and a record each ask for the parameters of a model. To walk a tree of 300 tensors in
Python takes longer than small steps, so the `Walk` of each root is kept, and `Walk.values` tells whether it still
holds. It does if, for the modules that it has met:

* none is gone (weak references: a walk keeps no module alive);
* their `_parameters`, `_buffers` and `_modules` have the same lengths, names and addresses of values (`_read`);
* the sets of names of buffers that aren't saved are equal;
* plain lists have the length that they had: one that has grown may hold a module by now, which is an error to be told;
* no id was changed anywhere since (`RENAMED`, one counter for the process).

For `layer = nn.Linear(2, 1)` that is `[[2, 0, 0], ["weight", "bias"], [address, address]]`, compared as a whole. When
`layer.weight` is replaced, an address is another one, and the next call walks again. That an address may be reused
doesn't matter: a Param has no tensor, it reads the module.
"""

import hashlib
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from operator import call, itemgetter
from typing import Any, TypeVar

from torch import Tensor, nn

from ..._torch_compat.fsdp import sharded_forms
from ...errors import DuplicateParamIdError, ModuleTreeError
from ..attributes.plain_attributes import (
    USER_CONTAINER,
    check_loose_parts,
    is_collection,
    item_count,
    refresh_container,
)
from ..identity.field_metadata import (
    FIRST_USE,
    KEPT,
    ON_TENSOR,
    RENAMED,
    Field,
    KeptId,
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
from ..torch_objects.wrappers import container_of, own_class, unwrap
from .param import KeptParam, Param
from .paths import first_difference
from .traversal import Enter, Exit, slots_of, traverse

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

    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_rank(group) < 0:
        return module
    params(module)  # so that each place has an id
    slots = slots_of(module)
    ours = [(slot.path, place_id(slot.home_module, slot.home_name)) for slot in slots]
    box: list[Any] = [ours]
    # By the rank in the group: the first process of a part of the job need not be rank 0 of the whole.
    distributed.broadcast_object_list(box, group=group, group_src=0)
    theirs: list[tuple[str, ParamId]] = box[0]
    if different := first_difference((path for path, _ in ours), (path for path, _ in theirs)):
        rank, (here, there) = distributed.get_rank(group), different
        raise ModuleTreeError(f"rank {rank}: expected the tree of rank 0, got {here} where that has {there}")
    for slot, (_, param_id) in zip(slots, theirs, strict=True):
        keep_id(slot.home_module, slot.home_name, param_id, noting(slot.kind, slot.tensor))
    return module


def params(module: nn.Module, kind: Kind | None = None) -> list[Param]:
    """List the parameters and persistent buffers of a module tree, each distinct tensor once, or those of a kind.

    They are in the order of declaration; of a module that is not burnlike's, in torch's order: its parameters, its
    persistent buffers, then its children. A tensor that is reached by several paths (tied weights) is one Param whose
    `aliases` are the later paths.

    Raises:
        DuplicateParamIdError: two different tensors carry one id, as after `copy.deepcopy` of a layer within a model.
        ModuleTreeError: a module holds itself.
    """
    walk = walk_of(module)
    return strong_steps(walk.params if kind is None else walk.weights if kind == "weight" else walk.states)


def weights(module: nn.Module) -> Sequence[Param]:
    """As `params(module, "weight")`, but the same object while the tree is the same; it is not to be changed.

    What is computed from it may be kept until a call returns another object. These Params do not keep `module` alive.
    """
    return walk_of(module).weights


def weights_and_tensors(module: nn.Module) -> tuple[Sequence[Param], Sequence[Tensor]]:
    """As `weights`, and the tensor of each as it is now: a step reads all at once, since reading
    one parameter after the other adds up."""
    walk = _WALKS.get(id(module))
    values = None if walk is None else walk.values()
    if walk is None or values is None:
        walk = walk_of(module)
        values = walk.values()
    return walk.weights, walk.tensors(values)


_WALKS: dict[int, "Walk"] = {}
"""The traversal of each root, by its address, for as long as it lives. Not on the root, so that pickles lack it."""


def walk_of(module: nn.Module) -> "Walk":
    """The traversal of `module`, kept for as long as the tree is the same."""
    walk = _WALKS.get(id(module))
    if walk is not None and walk.values() is not None:
        return walk
    # Two threads that meet a module at the same time are to get the same ids, and the same list of weights.
    with FIRST_USE:
        current = _WALKS.get(id(module))
        if current is None or current is walk or current.values() is None:  # else another thread has just made it
            current = _WALKS[id(module)] = Walk(module)
        return current


S = TypeVar("S")
T = TypeVar("T")


def strong_steps(steps: Sequence[S]) -> list[S]:
    """The steps of a kept traversal for others to keep: Params that hold their modules."""
    return [step.strong() if type(step) is KeptParam else step for step in steps]  # pyright: ignore[reportReturnType]


_TENSORS_AND_MODULES = itemgetter("_parameters", "_buffers", "_modules")


def picker(places: Sequence[int]) -> Callable[[Sequence[T]], list[T]]:
    """A function that gives the items of a sequence that are at `places`, by one loop in C."""
    if len(places) < 2:
        return lambda values: [values[place] for place in places]
    # With 300 small tensors a step of a TorchOptimizer is 3.2 times as fast as fused AdamW's by this, 2.3 times by
    # reading one after the other.
    pick = itemgetter(*places)
    return lambda values: list(pick(values))


class Walk:
    """A finished traversal and what it rests on, so that the traversals of each training step cost little.

    It belongs to one module object, and holds no module, tensor or list of a module's. `steps` are the Params, each at
    the first place it is met, between the beginnings and ends of the fields around it.
    """

    def __init__(self, root: nn.Module) -> None:
        self.steps: list[KeptParam | Enter | Exit] = []
        self.params: list[KeptParam] = []
        self._made: dict[str, Any] = {}
        modules: list[nn.Module] = []
        lists = self._traverse(root, modules)
        # All are alive as long as the tree is the same, so no other module has the address of one of them.
        self._modules = list(map(weakref.ref, modules))
        # At once when the root goes: another module may get its address.
        self._modules[0] = weakref.ref(root, partial(_forget, id(root)))
        containers = [module for module in modules if USER_CONTAINER in module.__dict__]
        # Users' containers may have changed without any assignment: the outer ones refresh the inner ones.
        inner = {id(child) for module in containers for child in module._modules.values()}
        self._containers = [weakref.ref(module) for module in containers if id(module) not in inner]
        self._lists = [(weakref.ref(module), name, item_count(value)) for module, name, value in lists]
        parts = [module.__dict__ for module in modules]
        self._not_persistent = [part["_non_persistent_buffers_set"] for part in parts if part["_buffers"]]
        # Copies to compare with: torch changes these sets in place.
        self._not_persistent_then = [names.copy() for names in self._not_persistent]
        self._renamed = RENAMED[0]
        self._signature = _read(parts)[1]

    @property
    def modules(self) -> list[nn.Module]:
        """The modules below the root, wrappers included; while the tree is the same."""
        return list(map(call, self._modules[1:]))  # pyright: ignore[reportReturnType]

    @property
    def weights(self) -> list[KeptParam]:
        """The Params that are `nn.Parameter`s; the same object each time."""
        return self._once("weights", lambda: [param for param in self.params if param.kind == "weight"])

    @property
    def states(self) -> list[KeptParam]:
        return [param for param in self.params if param.kind == "state"]

    @property
    def by_path(self) -> dict[str, KeptParam]:
        """The Params by their paths, those of a tied tensor all."""
        return self._once("by_path", lambda: {path: it for it in self.params for path in (it.path, *it.aliases)})

    @property
    def marked_steps(self) -> list[KeptParam | Enter | Exit]:
        """The steps, with beginnings and ends also around what is just a tensor, as visitors are told them."""
        return self._once("marked_steps", self._marked)

    def _once(self, name: str, make: Callable[[], T]) -> T:
        """The result of the first call of `make`; all threads get the same object."""
        if name not in self._made:
            self._made.setdefault(name, make())
        return self._made[name]

    def _marked(self) -> list[KeptParam | Enter | Exit]:
        marked: list[KeptParam | Enter | Exit] = []
        marks: dict[tuple[object, ...], tuple[Enter, Exit]] = {}  # most trees repeat a few
        depth = 0
        for step in self.steps:
            if not isinstance(step, Param):
                depth += 1 if isinstance(step, Enter) else -1
                marked.append(step)
            elif step.path.count(".") < depth:  # the base of a reparameterization, whose field has begun
                marked.append(step)
            else:
                owner, name = step.owners[0][0], step.path.rpartition(".")[2]
                key = type(owner), owner.__dict__.get("_burnlike_container"), name
                if key not in marks:
                    field = name, container_of(owner)
                    marks[key] = Enter(*field), Exit(*field)
                marked += (marks[key][0], step, marks[key][1])
        return marked

    def tensors(self, values: list[Any] | None) -> list[Tensor]:
        """The tensors of `weights`, found among what `values` has given."""
        if values is None:  # another thread changes the tree
            return [param.tensor for param in self.weights]

        def make() -> Callable[[Sequence[Any]], list[Any]]:
            places = {id(value): place for place, value in enumerate(values)}
            return picker([places[id(param.tensor)] for param in self.weights])

        return self._once("pick", make)(values)

    def values(self) -> list[Any] | None:
        """The tree's modules' content, if these are the same modules, names, tensors and ids as they were; else None.

        Tensors and modules, one module after the other; sharded parameters in place of their gathered copies.
        """
        for reference in self._containers:
            if (container := reference()) is not None:
                refresh_container(container)
        if self._renamed != RENAMED[0] or self._not_persistent != self._not_persistent_then:
            return None
        try:
            parts = list(map(vars, map(call, self._modules)))
        except TypeError:  # of None, in place of a module that is gone
            return None
        for reference, name, length in self._lists:
            module = reference()
            if module is None or item_count(module.__dict__.get(name)) != length:
                return None
        values, signature = _read(parts)
        return values if signature == self._signature else None

    def _traverse(self, root: nn.Module, modules: list[nn.Module]) -> list[tuple[nn.Module, str, Any]]:
        """Make the Param of each tensor, at the first of its places, and collect `modules`; returns the plain lists."""
        identities = Identities(root)
        param_by_id = identities.known
        param_of: dict[int, KeptParam] = {}
        add_step, add_param = self.steps.append, self.params.append
        no_field: Field = {}
        no_fields: dict[str, Field] = {}

        def found(
            path: str, owner: nn.Module, name: str, kind: Kind, tensor: Tensor, home_module: nn.Module, home_name: str
        ) -> None:
            param = param_of.get(id(tensor))
            if param is not None:
                identities.tie(param, path, home_module, home_name)
                param.add(owner, name, path)
                return
            kept = home_module.__dict__.get(KEPT, no_fields).get(home_name, no_field).get("id")
            # Nearly always place and tensor have the very same object, and nothing is to be decided.
            if type(kept) is not KeptId or tensor.__dict__.get(ON_TENSOR) is not kept or kept.id.value in param_by_id:
                param_id = identities.resolve(path, kind, home_module, home_name, tensor)
            else:
                param_id = kept.id
            param = KeptParam(param_id, path, kind, owner, name, (home_module, home_name))
            param_by_id[param_id.value] = param_of[id(tensor)] = param
            add_step(param)
            add_param(param)

        lists: list[tuple[nn.Module, str, Any]] = []
        traverse(root, found, add_step, modules, lists)
        lists = [it for it in lists if is_collection(it[2])]
        if lists:
            check_loose_parts(lists, param_of.keys() | set(map(id, modules)))
        identities.keep()
        return lists


def _forget(address: int, root: object, walks: dict[int, "Walk"] = _WALKS) -> None:
    walks.pop(address, None)  # which is an argument, as names are gone when the interpreter ends


def _read(parts: list[dict[str, Any]]) -> tuple[list[Any], list[list[Any]]]:
    """The content of modules, and the lengths, names and addresses that tell a changed tree from an unchanged one.

    They are found by loops in C. A reused address of a tensor does no harm: handles read the module, and which slots
    share a tensor is the same.
    """
    groups = list(chain.from_iterable(map(_TENSORS_AND_MODULES, parts)))
    filled = list(filter(None, groups))
    values = list(chain.from_iterable(map(dict.values, filled)))
    # The parameters are the same while their gathered copies are shown.
    if forms := sharded_forms():
        values = [forms.get(id(value), value) for value in values]
    return values, [list(map(len, groups)), list(chain.from_iterable(filled)), list(map(id, values))]
