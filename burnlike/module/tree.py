"""What a module tree consists of: its tensors and parts in order, with canonical names.

The one place that knows how torch's tools change a tree: wrappers around a module, classes put in front of its class,
and reparameterizations that move a tensor elsewhere.
"""

from collections.abc import Iterable
from itertools import chain
from typing import Any, NamedTuple

from torch import Tensor, nn

from ..errors import ModuleTreeError
from .param import Kind

# Wrapper class -> the attribute that holds the wrapped module. Named, not imported: most programs load none of them.
_WRAPPERS = {
    "torch._dynamo.eval_frame.OptimizedModule": "_orig_mod",
    "torch.nn.parallel.distributed.DistributedDataParallel": "module",
    "torch.nn.parallel.data_parallel.DataParallel": "module",
    "torch.distributed.algorithms._checkpoint.checkpoint_wrapper.CheckpointWrapper": "_checkpoint_wrapped_module",
}
_CONTAINERS = {
    **dict.fromkeys(["ModuleList", "ParameterList", "Sequential"], "Vec"),
    **dict.fromkeys(["ModuleDict", "ParameterDict"], "Dict"),
}


class Slot(NamedTuple):
    """One attribute that holds a tensor of a record.

    Attributes:
        path: canonical dotted path.
        owner: the module in whose `_parameters` or `_buffers` the tensor is.
        name: its name there.
        kind: weight or state.
        tensor: the tensor.
        home_module: where its id is kept: the owner, but for a tensor that a parametrization moved.
        home_name: the attribute's name there.
    """

    path: str
    owner: nn.Module
    name: str
    kind: Kind
    tensor: Tensor
    home_module: nn.Module
    home_name: str


class Enter(NamedTuple):
    """A field that holds a part of the tree begins.

    Attributes:
        name: of the field.
        container: what holds the field: `Struct:Linear`, `Vec`, `Array`, `Tuple`, `Dict`, `Enum:Head`,
            `Reparameterization`.
    """

    name: str
    container: str


class Exit(NamedTuple):
    """The field of the matching Enter ends."""

    name: str
    container: str


Step = Slot | Enter | Exit


def unwrap(module: nn.Module) -> nn.Module:
    """What the wrappers `module` consists of (DDP, torch.compile, ...) hold in the end."""
    while (name := _wrapped_name(type(module))) is not None:
        module = module._modules[name]  # pyright: ignore[reportAssignmentType]
    return module


_WRAPPED: dict[type, str | None] = {}


def _wrapped_name(cls: type) -> str | None:
    if cls not in _WRAPPED:
        names = (_WRAPPERS.get(f"{base.__module__}.{base.__qualname__}") for base in cls.__mro__)
        _WRAPPED[cls] = next((name for name in names if name is not None), None)
    return _WRAPPED[cls]


def own_class(module: nn.Module) -> type:
    """The class that the program gave `module`, behind those of parametrize and fully_shard."""
    cls = type(module)
    while len(cls.__mro__) > 2 and (
        (cls.__module__ == "torch.nn.utils.parametrize" and cls.__name__ != "ParametrizationList")
        or any(base.__name__ == "FSDPModule" for base in cls.__bases__)
    ):
        cls = next(base for base in cls.__bases__ if base.__name__ != "FSDPModule")
    return cls


def container_of(module: nn.Module) -> str:
    """What kind of container `module` is to its fields, as Burn's visitors are told."""
    cls = own_class(module)
    kind = module.__dict__.get("_container") or getattr(cls, "_container", None)
    if kind is not None:
        return kind
    return (cls.__module__.startswith("torch.nn") and _CONTAINERS.get(cls.__name__)) or f"Struct:{cls.__name__}"


def steps_of(root: nn.Module, seen: list[nn.Module]) -> list[Step]:
    """The traversal of a tree: its tensors, between the beginnings and ends of the fields they lie in.

    Args:
        root: any module.
        seen: collects every module that was passed, wrappers included.

    Raises:
        ModuleTreeError: a module holds itself.
    """
    steps: list[Step] = []
    _walk(root, "", steps, seen, [])
    return steps


def _walk(module: nn.Module, prefix: str, steps: list[Step], seen: list[nn.Module], above: list[nn.Module]) -> None:
    seen.append(module)
    while (inner := _wrapped_name(type(module))) is not None:
        module = module._modules[inner]  # pyright: ignore[reportAssignmentType]
        seen.append(module)
    for other in above:
        if other is module:
            raise ModuleTreeError(
                f"'{prefix[:-1]}' is {type(module).__name__}, which holds it: a tree can't hold itself;"
                " keep a reference upwards as burnlike.constant(module)"
            )
    above.append(module)
    parts = module.__dict__
    if "_held" in parts:
        module.refresh()  # pyright: ignore[reportCallIssue]
    parameters, buffers, modules = parts["_parameters"], parts["_buffers"], parts["_modules"]
    moved = _moved(module) if parts["_forward_pre_hooks"] else {}
    parametrized = _parametrized(module)
    container = ""
    for name in field_names(module):
        value = parameters.get(name)
        if value is not None:
            steps.append(Slot(prefix + name, module, name, "weight", value, module, moved.get(name, name)))
            continue
        value = buffers.get(name)
        if value is not None:
            if name not in parts["_non_persistent_buffers_set"]:
                steps.append(Slot(prefix + name, module, name, "state", value, module, name))
            continue
        if name in parametrized:
            _walk_parametrized(module, name, prefix, steps, seen, above)
            continue
        value = modules.get(name)
        if value is not None:
            container = container or container_of(module)
            steps.append(Enter(name, container))
            _walk(value, f"{prefix}{name}.", steps, seen, above)
            steps.append(Exit(name, container))
    above.pop()


def field_names(module: nn.Module) -> Iterable[str]:
    """The names of the parameters, buffers and children of `module`: in order of declaration where that is known.

    Parametrized tensors are among them, `parametrizations` itself is not.
    """
    parts = module.__dict__
    fields = parts.get("_fields")
    parametrized = _parametrized(module)
    if fields is None and not parametrized:
        return chain(parts["_parameters"], parts["_buffers"], parts["_modules"])
    names = dict.fromkeys(chain(parts["_parameters"], parts["_buffers"], parts["_modules"], parametrized))
    if parametrized:
        names.pop("parametrizations")
    if fields is not None:
        names = {name: None for name in fields if name in names} | names
    return names


def _parametrized(module: nn.Module) -> dict[str, nn.Module]:
    """Tensor name -> the ParametrizationList that took it over (`torch.nn.utils.parametrize`)."""
    lists = module._modules.get("parametrizations")
    if lists is None or type(module) is own_class(module):
        return {}
    return lists._modules  # pyright: ignore[reportReturnType]


def base_tensor(module: nn.Module, name: str) -> Tensor | None:
    """The tensor of the field `name`, without computing it: of a parametrized one, what it is computed from."""
    list_of = _parametrized(module).get(name)
    if list_of is not None:
        key = _base_name(list_of)
        return list_of._parameters.get(key, list_of._buffers.get(key))
    groups = (module._parameters, module._buffers, module.__dict__)
    return next((group[name] for group in groups if isinstance(group.get(name), Tensor)), None)


def reparameterization_of(module: nn.Module, name: str) -> nn.Module | None:
    """The burnlike reparameterization (LoRA, ...) of the tensor `name` of `module`, or None."""
    found = _parametrized(module).get(name)
    first = found._modules.get("0") if found is not None else None
    return first if hasattr(type(first), "reparameterization_name") else None


def _walk_parametrized(
    module: nn.Module, name: str, prefix: str, steps: list[Step], seen: list[nn.Module], above: list[nn.Module]
) -> None:
    """The tensor keeps its id. Its path stays under our reparameterizations, and is torch's under others."""
    lists = module._modules["parametrizations"]
    list_of = lists._modules[name]  # pyright: ignore[reportOptionalMemberAccess]
    assert lists is not None and list_of is not None
    seen.append(lists)
    seen.append(list_of)
    ours = reparameterization_of(module, name)
    inside = f"{prefix}parametrizations.{name}."
    base = _base_name(list_of)
    group: list[tuple[Kind, dict[str, Any]]] = [("weight", list_of._parameters), ("state", list_of._buffers)]
    for kind, tensors in group:
        for key, tensor in tensors.items():
            if tensor is not None:
                path = prefix + name if ours is not None else inside + key
                home = (module, name) if key == base else (list_of, key)
                steps.append(Slot(path, list_of, key, kind, tensor, *home))
    if ours is not None:
        label = type(ours).reparameterization_name  # pyright: ignore[reportAttributeAccessIssue]
        steps.append(Enter(name, container_of(module)))
        steps.append(Enter(label, "Reparameterization"))
        _walk(ours, f"{prefix}{name}.{label}.", steps, seen, above)
        steps.append(Exit(label, "Reparameterization"))
        steps.append(Exit(name, container_of(module)))
    for key, child in list_of._modules.items():
        if child is not None and child is not ours:
            steps.append(Enter(key, "Reparameterization"))
            _walk(child, f"{inside}{key}.", steps, seen, above)
            steps.append(Exit(key, "Reparameterization"))


def _base_name(list_of: nn.Module) -> str:
    """Which of a parametrization's tensors takes the place of the original: the largest, of equal ones the last."""
    sizes = {
        key: 0 if tensor is None else tensor.numel()
        for key, tensor in (*list_of._parameters.items(), *list_of._buffers.items())
    }
    return max(sizes, key=lambda key: (sizes[key], key))


def _moved(module: nn.Module) -> dict[str, str]:
    """Name of a tensor -> the name it had before a hook of torch took it over (pruning, the older norms)."""
    found = {}
    for hook in module._forward_pre_hooks.values():
        if (cls := type(hook)).__module__.startswith("torch.nn.utils"):
            name = getattr(hook, "_tensor_name", None) or getattr(hook, "name", None)
            if isinstance(name, str):
                found[f"{name}_v" if cls.__name__ == "WeightNorm" else f"{name}_orig"] = name
    return found
