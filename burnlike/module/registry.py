"""Walking any `nn.Module` tree: each tensor once, with its id and canonical path."""

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn

from ..errors import DuplicateParamIdError
from .param import Kind, Param, ensure_id, stored_ids
from .param_id import ParamId

# Wrapper class -> the attribute that holds the wrapped module. Named, not imported: most programs load none of them.
_WRAPPERS = {
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper": "_checkpoint_wrapped_module",
}

_Slot = tuple[str, nn.Module, str, Kind, torch.Tensor]


def params(module: nn.Module, kind: Kind | None = None) -> list[Param]:
    """List the parameters and persistent buffers of a module tree, each distinct tensor once.

    Args:
        module: any `nn.Module`.
        kind: `weight` or `state` for only those.

    Returns:
        Handles in traversal order: a module's own parameters, its persistent buffers, then its children. A tensor
        that is reached by several paths (tied weights) is one Param whose `aliases` are the later paths.

    Raises:
        DuplicateParamIdError: two different tensors carry one id, as after `copy.deepcopy` of a layer within a model.
    """
    walk = _walk(module)
    return list(walk.params if kind is None else walk.weights if kind == "weight" else walk.states)


def weights(module: nn.Module) -> Sequence[Param]:
    """The parameters of `module`, as `params(module, "weight")`, but the same object while the tree is the same.

    What is computed from it may be kept as long as the next call returns that object; it must not be changed.
    """
    return _walk(module).weights


def _walk(module: nn.Module) -> "_Walk":
    walk = module.__dict__.get("_param_walk")
    if walk is None or not walk.holds():
        walk = module.__dict__["_param_walk"] = _Walk(module)
    return walk


class _Walk:
    """A finished traversal and what it rests on, so that the traversals of each training step cost little.

    It belongs to one module object: copies and pickles of the module start without one.
    """

    def __init__(self, root: nn.Module) -> None:
        self.modules: list[nn.Module] = []
        slots: dict[int, list[_Slot]] = {}
        for slot in _slots(root, self.modules):
            slots.setdefault(id(slot[4]), []).append(slot)
        self.params = _handles(list(slots.values()))
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


def _handles(groups: list[list[_Slot]]) -> list[Param]:
    path_of: dict[ParamId, str] = {}
    found = []
    for (path, owner, name, kind, _), *others in groups:
        param_id = ensure_id(owner, name)
        if param_id in path_of:
            raise DuplicateParamIdError(
                f"'{path_of[param_id]}' and '{path}' are different tensors with one ParamId ({param_id}), as a deep"
                " copy of a layer has; call burnlike.module.fresh_ids(copy) on the copied part"
            )
        path_of[param_id] = path
        owners = ((owner, name), *((other[1], other[2]) for other in others))
        found.append(Param(param_id, path, kind, owners, tuple(other[0] for other in others)))
    return found


def visit(module: nn.Module, visitor: Callable[[Param], object]) -> None:
    """Call `visitor` with each Param of the tree, in the order of `params`."""
    for param in params(module):
        visitor(param)


def fresh_ids(module: nn.Module) -> nn.Module:
    """Give every parameter of `module` a new id, for a copy that is to live beside its original; returns `module`."""
    for _, owner, name, _, _ in _slots(module, []):
        stored_ids(owner)[name] = ParamId.new()
    return module


def _wrapped_name(module: nn.Module) -> str | None:
    for cls in type(module).__mro__:
        name = _WRAPPERS.get(f"{cls.__module__}.{cls.__qualname__}")
        if name is not None:
            return name
    return None


def _slots(module: nn.Module, seen: list[nn.Module], prefix: str = "") -> Iterator[_Slot]:
    """Each attribute that holds a tensor of a record; `seen` collects the modules that were passed."""
    seen.append(module)
    while (inner := _wrapped_name(module)) is not None:
        module = module._modules[inner]  # pyright: ignore[reportAssignmentType]
        seen.append(module)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield prefix + name, module, name, "weight", parameter
    for name, buffer in module._buffers.items():
        if buffer is not None and name not in module._non_persistent_buffers_set:
            yield prefix + name, module, name, "state", buffer
    for name, child in module._modules.items():
        if child is not None:
            yield from _slots(child, seen, f"{prefix}{name}.")
