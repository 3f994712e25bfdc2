"""Walking any `nn.Module` tree: each tensor once, with its id and canonical path."""

from collections.abc import Sequence

from torch import nn

from ..errors import DuplicateParamIdError
from .param import Kind, Param
from .param_id import ParamId
from .slots import meta_of, stored_ids
from .tree import Enter, Exit, Slot, own_class, steps_of


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
    return list(walk.params if kind is None else walk.weights if kind == "weight" else walk.states)


def weights(module: nn.Module) -> Sequence[Param]:
    """The parameters of `module`, as `params(module, "weight")`, but the same object while the tree is the same.

    What is computed from it may be kept as long as the next call returns that object; it must not be changed.
    """
    return walk_of(module).weights


def fresh_ids(module: nn.Module) -> nn.Module:
    """Give every parameter of `module` a new id, for a copy that is to live beside its original; returns `module`."""
    for step in steps_of(module, []):
        if isinstance(step, Slot):
            stored_ids(step.home_module)[step.home_name] = ParamId.new(_fingerprint(module, step))
    return module


def walk_of(module: nn.Module) -> "Walk":
    """The traversal of `module`, kept on it for as long as the tree is the same."""
    walk = module.__dict__.get("_param_walk")
    if walk is None or not walk.holds():
        walk = module.__dict__["_param_walk"] = Walk(module)
    return walk


class Walk:
    """A finished traversal and what it rests on, so that the traversals of each training step cost little.

    It belongs to one module object: copies and pickles of the module start without one.

    Attributes:
        steps: the Params, each at the first place it is met, between the beginnings and ends of the fields around it.
        params: the Params alone.
        weights: those that are `nn.Parameter`s.
        states: those that are buffers.
    """

    def __init__(self, root: nn.Module) -> None:
        self.modules: list[nn.Module] = []
        steps = steps_of(root, self.modules)
        self.steps = _handles(root, steps)
        self.params = [step for step in self.steps if isinstance(step, Param)]
        self.weights = [param for param in self.params if param.kind == "weight"]
        self.states = [param for param in self.params if param.kind == "state"]
        self.signature = self._read()

    def holds(self) -> bool:
        """Whether the tree still has the same modules, names, tensors and ids."""
        return self._read() == self.signature

    def _read(self) -> list[object]:
        # Plain containers of names and addresses, compared by C code. A reused address does no harm: handles read
        # the module, and which slots share a tensor is the same.
        found: list[object] = []
        for module in self.modules:
            parts = module.__dict__
            if "_held" in parts:
                module.refresh()  # pyright: ignore[reportCallIssue]
            for part in (parts["_parameters"], parts["_buffers"], parts["_modules"]):
                if part:
                    found.extend(part)
                    found.extend(map(id, part.values()))
            ids = parts.get("_param_ids")
            if ids:
                found.extend(map(id, ids.values()))
            found.append(len(parts["_non_persistent_buffers_set"]))
        return found

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def _handles(root: nn.Module, steps: list[Slot | Enter | Exit]) -> list[Param | Enter | Exit]:
    """Turn each tensor into its Param, at the first of its places."""
    path_of: dict[ParamId, str] = {}
    param_of: dict[int, Param] = {}
    found: list[Param | Enter | Exit] = []
    for step in steps:
        if not isinstance(step, Slot):
            found.append(step)
            continue
        path, owner, name, kind, tensor, home, home_name = step
        param = param_of.get(id(tensor))
        if param is not None:
            _check_declared(param, step)
            param.owners = (*param.owners, (owner, name))
            param.aliases = (*param.aliases, path)
            continue
        ids = home.__dict__.get("_param_ids")
        if ids is None:
            ids = stored_ids(home)
        param_id = ids.get(home_name)
        if param_id is None:
            param_id = ids[home_name] = ParamId.new(_fingerprint(root, step))
        if param_id in path_of:
            raise DuplicateParamIdError(
                f"'{path_of[param_id]}' and '{path}' are different tensors with one ParamId ({param_id}), as a deep"
                " copy of a layer has; call burnlike.module.fresh_ids(copy) on the copied part"
            )
        path_of[param_id] = path
        param = param_of[id(tensor)] = Param(
            param_id,
            path,
            kind,
            ((owner, name),),
            (),
            None if home is owner and home_name == name else (home, home_name),
        )
        found.append(param)
    return found


def _check_declared(param: Param, slot: Slot) -> None:
    other = stored_ids(slot.home_module).get(slot.home_name)
    declared = meta_of(*param.home).own_id and meta_of(slot.home_module, slot.home_name).own_id
    if declared and other != param.id:
        raise DuplicateParamIdError(
            f"'{param.path}' and '{slot.path}' are one tensor that was given two ids, {param.id} and {other};"
            " give it one, or hold two tensors"
        )


def _fingerprint(root: nn.Module, slot: Slot) -> str:
    return f"{own_class(root).__qualname__}/{slot.path}"
