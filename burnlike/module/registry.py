"""Walking any `nn.Module` tree: each tensor once, with its id and canonical path."""

import weakref
from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from operator import itemgetter, methodcaller
from typing import Any, TypeVar

from torch import Tensor, nn

from .._fsdp import MANAGED, sharded, sharded_forms
from .identities import Identities, fingerprint_of_tree
from .loose_parts import check_loose_parts, noted_lists
from .param import Kind, Param
from .param_id import ParamId
from .slots import meta_of, set_meta, stored_ids
from .tree import Enter, Exit, slots_of, traverse
from .wrappers import container_of


def params(module: nn.Module, kind: Kind | None = None) -> list[Param]:
    """List the parameters and persistent buffers of a module tree, each distinct tensor once.

    Args:
        module: any `nn.Module`.
        kind: `weight` or `state` for only those.

    Returns:
        Handles in the order of declaration; of a module that is not burnlike's, in torch's order: its parameters, its
        persistent buffers, then its children. A tensor that is reached by several paths (tied weights) is one Param
        whose `aliases` are the later paths.

    Raises:
        DuplicateParamIdError: two different tensors carry one id, as after `copy.deepcopy` of a layer within a model.
        ModuleTreeError: a module holds itself.
    """
    walk = walk_of(module)
    return held(walk.params if kind is None else walk.weights if kind == "weight" else walk.states)


def weights(module: nn.Module) -> Sequence[Param]:
    """The parameters of `module`, as `params(module, "weight")`, but the same object while the tree is the same.

    What is computed from it may be kept as long as the next call returns that object; it must not be changed. These
    Params do not keep `module` itself alive.
    """
    return walk_of(module).weights


def fresh_ids(module: nn.Module) -> nn.Module:
    """Give every parameter of `module` a new id, for a copy that is to live beside its original; returns `module`."""
    tree = fingerprint_of_tree(module)
    for slot in slots_of(module):
        stored_ids(slot.home_module)[slot.home_name] = ParamId.new(f"{tree}/{slot.path}")
        if meta_of(slot.home_module, slot.home_name).own_id:
            set_meta(slot.home_module, slot.home_name, own_id=False)
    return module


def walk_of(module: nn.Module) -> "Walk":
    """The traversal of `module`, kept on it for as long as the tree is the same."""
    walk = getattr(module, "__dict__", {}).get("_burnlike_walk")
    if walk is None or not walk.holds(module):
        walk = module.__dict__["_burnlike_walk"] = Walk(module)
    return walk


class RootParam(Param):
    """A Param of a tensor of the root's own, for the traversal that is kept on the root: it holds the root weakly.

    Without it the root would hold itself, and its memory be free only after a garbage collection.
    """

    __slots__ = ("_home", "_owners", "_root")

    def __init__(self, param: Param, root: nn.Module) -> None:
        self.id = param.id
        self.path = param.path
        self.kind = param.kind
        self.aliases = param.aliases
        self._root = weakref.ref(root)
        self._owners = tuple((None if owner is root else owner, name) for owner, name in param.owners)
        self._home = (None if param.home[0] is root else param.home[0], param.home[1])

    @property
    def owners(self) -> tuple[tuple[nn.Module, str], ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Each (module, attribute name) that holds this tensor, the first one first."""
        root: Any = self._root()
        return tuple((root if owner is None else owner, name) for owner, name in self._owners)

    @property
    def tensor(self) -> Tensor:
        """The tensor as it is now; quicker than by `owners`, since optimizers ask for it at each step."""
        owner, name = self._owners[0]
        if owner is None:
            owner = self._root()
        # group_of, written out
        shown = (owner._parameters if self.kind == "weight" else owner._buffers)[name]  # pyright: ignore
        return sharded(owner, name, shown) if MANAGED in owner.__dict__ else shown  # pyright: ignore

    @property
    def home(self) -> tuple[nn.Module, str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Where id and intent are kept."""
        root: Any = self._root()
        return (root if self._home[0] is None else self._home[0], self._home[1])


S = TypeVar("S")


def held(steps: Sequence[S]) -> list[S]:
    """The steps of a kept traversal for others to keep: Params that hold the root like any other module."""
    return [_strong(step) if type(step) is RootParam else step for step in steps]  # pyright: ignore[reportReturnType]


def _strong(param: Param) -> Param:
    return Param(param.id, param.path, param.kind, param.owners, param.aliases, param.home)


_TENSORS_AND_MODULES = itemgetter("_parameters", "_buffers", "_modules")
_IDS = methodcaller("get", "_burnlike_ids", {})


class Walk:
    """A finished traversal and what it rests on, so that the traversals of each training step cost little.

    It belongs to one module object: copies and pickles of the module start without one.

    Attributes:
        steps: the Params, each at the first place it is met, between the beginnings and ends of the fields around it.
        params: the Params alone.
    """

    def __init__(self, root: nn.Module) -> None:
        self.steps: list[Param | Enter | Exit] = []
        self.params: list[Param] = []
        self._lists: list[Any] = []
        # Held, so that no other module gets the address of one of them; the root holds this object.
        self.modules = modules = self._traverse(root)[1:]
        self._parts = [module.__dict__ for module in modules]
        self._containers = [module for module in modules if "_burnlike_held" in module.__dict__]
        self._with_ids = [parts for parts in self._parts if "_burnlike_ids" in parts]
        everywhere = [root.__dict__, *self._parts]
        self._not_persistent = [parts["_non_persistent_buffers_set"] for parts in everywhere if parts["_buffers"]]
        self._lengths_then = list(map(len, self._lists))
        self._signature = self._read(root)
        self._ids_then = self._ids(root)
        self._not_persistent_then = [names.copy() for names in self._not_persistent]

    @cached_property
    def weights(self) -> list[Param]:
        """The Params that are `nn.Parameter`s; the same object each time."""
        return [param for param in self.params if param.kind == "weight"]

    @cached_property
    def states(self) -> list[Param]:
        """The Params that are buffers."""
        return [param for param in self.params if param.kind == "state"]

    @cached_property
    def marked_steps(self) -> list[Param | Enter | Exit]:
        """The steps, with beginnings and ends also around what is just a tensor, as visitors are told them."""
        marked: list[Param | Enter | Exit] = []
        marks: dict[tuple[object, ...], tuple[Enter, Exit]] = {}  # most trees repeat a few
        depth = 0
        for step in self.steps:
            if isinstance(step, Param):
                if step.path.count(".") < depth:  # the base of a reparameterization, whose field has begun
                    marked.append(step)
                    continue
                owner, name = step.owners[0][0], step.path.rpartition(".")[2]
                key = type(owner), owner.__dict__.get("_burnlike_container"), name
                if key not in marks:
                    field = name, container_of(owner)
                    marks[key] = Enter(*field), Exit(*field)
                marked += (marks[key][0], step, marks[key][1])
            else:
                depth += 1 if isinstance(step, Enter) else -1
                marked.append(step)
        return marked

    def holds(self, root: nn.Module) -> bool:
        """Whether the tree still has the same modules, names, tensors and ids."""
        for container in self._containers:
            container.refresh()  # pyright: ignore[reportCallIssue]
        return (
            self._ids(root) == self._ids_then
            and list(map(len, self._lists)) == self._lengths_then
            and self._not_persistent == self._not_persistent_then
            and self._read(root) == self._signature
        )

    def _ids(self, root: nn.Module) -> list[ParamId]:
        # Which names have them is seen by the names of the tensors.
        kept = map(_IDS, [root.__dict__, *self._with_ids])
        return list(chain.from_iterable(map(dict.values, kept)))

    def _read(self, root: nn.Module) -> list[list[Any]]:
        # Loops in C over names and addresses. A reused address of a tensor does no harm: handles read the module, and
        # which slots share a tensor is the same.
        groups = list(chain.from_iterable(map(_TENSORS_AND_MODULES, [root.__dict__, *self._parts])))
        filled = list(filter(None, groups))
        addresses = map(id, chain.from_iterable(map(dict.values, filled)))
        if forms := sharded_forms():  # the parameters are the same while their gathered copies are shown
            addresses = (id(forms[address]) if address in forms else address for address in addresses)
        return [list(map(len, groups)), list(chain.from_iterable(filled)), list(addresses)]

    def _traverse(self, root: nn.Module) -> list[nn.Module]:
        """Make the Param of each tensor, at the first of its places; returns the modules passed."""
        identities = Identities(root)
        known = identities.known
        param_of: dict[int, Param] = {}
        roots_own: set[int] = set()
        add_step, add_param = self.steps.append, self.params.append

        def found(
            path: str, owner: nn.Module, name: str, kind: Kind, tensor: Tensor, home_module: nn.Module, home_name: str
        ) -> None:
            if owner is root or home_module is root:
                roots_own.add(id(tensor))
            param = param_of.get(id(tensor))
            if param is not None:
                identities.tie(param, path, home_module, home_name)
                param.owners = (*param.owners, (owner, name))
                param.aliases = (*param.aliases, path)
                return
            ids = home_module.__dict__.get("_burnlike_ids")
            param_id = None if ids is None else ids.get(home_name)
            if param_id is None or param_id.value in known:
                param_id = identities.settle(param_id, path, home_module, home_name)
            home = None if home_module is owner and home_name == name else (home_module, home_name)
            param = Param(param_id, path, kind, ((owner, name),), (), home)
            known[param_id.value] = param_of[id(tensor)] = param
            add_step(param)
            add_param(param)

        modules: list[nn.Module] = []
        traverse(root, found, add_step, modules)
        if lists := noted_lists(modules):
            check_loose_parts(lists, param_of.keys() | set(map(id, modules)))
            self._lists = [value for _, _, value in lists]
        identities.keep()
        if roots_own:
            own = {id(param := param_of[address]): RootParam(param, root) for address in roots_own}
            self.steps = [own.get(id(step), step) for step in self.steps]
            self.params = [own.get(id(param), param) for param in self.params]
        return modules

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()
