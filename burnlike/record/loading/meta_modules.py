"""The tensors of a module on the meta device that no record has."""

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from ...module.attributes.plain_attributes import DEEPEST, plain_names, with_items

RESET = "reset_non_persistent_buffers"  # the method of a module that computes its tensors which are in no record
Places = dict[int, tuple[nn.Module, str, str, Tensor]]


def unset_tensors(module: nn.Module) -> dict[str, Tensor]:
    """Path -> tensor on the meta device, see `all_tensors`."""
    return {path: tensor for path, tensor in all_tensors(module) if tensor.is_meta}


def all_tensors(module: nn.Module) -> list[tuple[str, Tensor]]:
    """Each path and tensor: parameters, buffers, and tensors in plain attributes, lists, dicts and plain objects."""
    lacking: list[tuple[str, Tensor]] = []
    replace_tensors(module, lambda path, tensor: lacking.append((path, tensor)) or tensor)
    return lacking


def replace_tensors(module: nn.Module, replacement: Callable[[str, Tensor], Tensor]) -> None:
    """Put what `replacement` makes of each path and tensor in its place, but for parameters."""
    seen: set[int] = set()
    for prefix, part in module.named_modules():
        plain = {name: part.__dict__[name] for name in plain_names(part.__dict__)}
        for name, value in [*part._parameters.items(), *part._buffers.items(), *plain.items()]:
            new = _replaced(f"{prefix}.{name}" if prefix else name, value, replacement, seen)
            if new is not value and name not in part._parameters:
                (part._buffers if name in part._buffers else part.__dict__)[name] = new


def _replaced(
    path: str, value: Any, replacement: Callable[[str, Tensor], Tensor], seen: set[int], depth: int = 0
) -> Any:
    if isinstance(value, Tensor):
        return replacement(path, value)
    if depth == DEEPEST:
        return value
    if isinstance(value, list | tuple | dict):
        keys = iter(value if isinstance(value, dict) else range(len(value)))

        def inside(item: Any) -> Any:
            return _replaced(f"{path}.{next(keys)}", item, replacement, seen, depth + 1)

        if type(value) not in (list, tuple, dict):  # can't be made again: its tensors are only shown
            for item in value.values() if isinstance(value, dict) else value:
                inside(item)
        return with_items(value, inside)
    parts: Any = getattr(value, "__dict__", None)
    is_plain = type(parts) is dict and not isinstance(value, nn.Module | type | FunctionType | ModuleType)
    if is_plain and id(value) not in seen:
        seen.add(id(value))
        for name, item in [*parts.items()]:
            if (new := _replaced(f"{path}.{name}", item, replacement, seen, depth + 1)) is not item:
                parts[name] = new
    return value


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

    `places` are its tensors before it was filled. Returns the paths of the tensors that still have no values.
    """

    def now(path: str, tensor: Tensor) -> Tensor:
        if not tensor.is_meta or id(tensor) not in places:
            return tensor
        part, group, name, _ = places[id(tensor)]
        return getattr(part, group).get(name, tensor)

    replace_tensors(module, now)  # plain attributes that refer to a parameter or buffer: it has been replaced
    for part in module.modules():
        reset = getattr(part, RESET, None)
        if reset is not None and any("." not in path for path in unset_tensors(part)):
            with torch.device(device):
                reset(device)
    return [*unset_tensors(module)]
