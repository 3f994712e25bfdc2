"""The tensors of a module on the meta device that no record has."""

from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ...module.identity.plain_attributes import DEEPEST, plain_names, with_items


def unset_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Path -> tensor on the meta device, see `all_tensors`."""
    return {path: tensor for path, tensor in all_tensors(module) if tensor.is_meta}


def all_tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Each path and tensor: parameters, buffers, and tensors in plain attributes, lists, dicts and plain objects."""
    seen: set[int] = set()
    for prefix, part in module.named_modules():
        for name, value in _fields(part):
            yield from _leaves(f"{prefix}.{name}" if prefix else name, value, seen)


def replace_tensors(module: nn.Module, replacement: Callable[[str, Tensor], Tensor]) -> None:
    """Put what `replacement` makes of each path and tensor in its place, but for parameters."""
    seen: set[int] = set()
    for prefix, part in module.named_modules():
        for name, value in [*_fields(part)]:
            if name in part._parameters:
                continue
            new = _replaced(f"{prefix}.{name}" if prefix else name, value, replacement, seen)
            if new is value:
                continue
            if name in part._buffers:
                part._buffers[name] = new
            else:
                part.__dict__[name] = new


def _fields(part: nn.Module) -> Iterator[tuple[str, Any]]:
    yield from part._parameters.items()
    yield from part._buffers.items()
    for name in plain_names(part.__dict__):
        yield name, part.__dict__[name]


def _leaves(path: str, value: Any, seen: set[int], depth: int = 0) -> Iterator[tuple[str, Tensor]]:
    if isinstance(value, Tensor):
        yield path, value
    elif depth == DEEPEST:
        return
    elif isinstance(value, list | tuple | dict):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(f"{path}.{key}", item, seen, depth + 1)
    elif (parts := _attributes(value, seen)) is not None:
        for name, item in parts.items():
            yield from _leaves(f"{path}.{name}", item, seen, depth + 1)


def _replaced(
    path: str, value: Any, replacement: Callable[[str, Tensor], Tensor], seen: set[int], depth: int = 0
) -> Any:
    if isinstance(value, Tensor):
        return replacement(path, value)
    if depth == DEEPEST:
        return value
    if isinstance(value, list | tuple | dict):
        keys = iter(value if isinstance(value, dict) else range(len(value)))
        return with_items(value, lambda item: _replaced(f"{path}.{next(keys)}", item, replacement, seen, depth + 1))
    if (parts := _attributes(value, seen)) is not None:
        for name, item in [*parts.items()]:
            if (new := _replaced(f"{path}.{name}", item, replacement, seen, depth + 1)) is not item:
                parts[name] = new
    return value


def _attributes(value: Any, seen: set[int]) -> dict[str, Any] | None:
    """The attributes of a plain object, the first time that it is met; None for anything else."""
    parts = getattr(value, "__dict__", None)
    if type(parts) is not dict or isinstance(value, nn.Module | type | FunctionType | ModuleType) or id(value) in seen:
        return None
    seen.add(id(value))
    return parts


RESET = "reset_non_persistent_buffers"
"""The method of a module that computes its tensors which are in no record."""

Places = dict[int, tuple[nn.Module, str, str, Tensor]]


def registered(module: nn.Module) -> Places:
    """Address of each parameter and buffer -> its module, group and name, and the tensor itself."""
    return {
        id(tensor): (part, group, name, tensor)
        for part in module.modules()
        for group in ("_parameters", "_buffers")
        for name, tensor in getattr(part, group).items()
        if tensor is not None
    }


def compute_unsaved(module: nn.Module, places: Places, device: torch.device) -> list[str]:
    """Compute the tensors of a filled module that no record has, as far as the module can.

    Args:
        module: the module.
        places: its tensors before it was filled.
        device: where the values go.

    Returns:
        The paths of the tensors that still have none.
    """
    _follow(module, places)
    for part in module.modules():
        reset = getattr(part, RESET, None)
        if reset is not None and any("." not in path for path in unset_tensors(part)):
            with torch.device(device):
                reset(device)
    return [*unset_tensors(module)]


def _follow(module: nn.Module, places: Places) -> None:
    """Let plain attributes that refer to a parameter or buffer refer to the one that has taken its place."""

    def now(path: str, tensor: Tensor) -> Tensor:
        if not tensor.is_meta or id(tensor) not in places:
            return tensor
        part, group, name, _ = places[id(tensor)]
        return getattr(part, group).get(name, tensor)

    replace_tensors(module, now)
