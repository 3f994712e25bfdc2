"""States as flat maps for records, and back: `{"momentum.moment_1": tensor, "momentum.time": 3}`."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from ...errors import RecordError
from ...record.layout import join
from ...record.metadata import leaves
from ...record.pytree import from_leaves, to_leaves
from ...tensor.core.base import TensorBase

Leaf = Tensor | int | float | str | bool | None


def flatten(state: Any) -> tuple[dict[str, Tensor], dict[str, Leaf]]:
    """The tensors and the plain values of a state by their dotted names; as in Burn, none of a field that is None."""
    tensors, values = to_leaves(state, keeps_none=False)
    named = leaves(values)
    leaves_by_name = dict(named)
    if len(leaves_by_name) < len(named):
        twice = next(name for name, count in Counter(name for name, _ in named).items() if count > 1)
        raise RecordError(f"two values of a state would be named '{twice}'; take a key without a dot")
    return tensors, leaves_by_name


def unflatten(state_type: type, tensors: Mapping[str, Tensor], values: Mapping[str, Any]) -> Any:
    """Rebuild a state of `state_type`, with torch's tensors also where typed ones are declared, as after a step."""
    return from_leaves(state_type, tensors, values, typed=False)


def map_tensors(state: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The state with what `change` makes of each tensor, typed ones included.

    The state itself, or a part of it, where all tensors stay the same.
    """
    return map_fields(state, lambda _, tensor: change(tensor))


def map_fields(state: Any, change: Callable[[str, Tensor], Tensor], path: str = "") -> Any:
    """As `map_tensors`; `change` is given the dotted name of each tensor, too."""
    if isinstance(state, Tensor | TensorBase):
        return change(path, state)  # pyright: ignore[reportArgumentType]
    if isinstance(state, list | tuple):
        parts = [map_fields(part, change, join(path, place)) for place, part in enumerate(state)]
        same = all(part is before for part, before in zip(parts, state, strict=True))
        return state if same else type(state)(parts)
    fields: dict[Any, Any] | None = state if isinstance(state, dict) else None
    if dataclasses.is_dataclass(state) and not isinstance(state, type):
        fields = {field.name: getattr(state, field.name) for field in dataclasses.fields(state)}
    new_fields = {
        name: map_fields(part, change, join(path, name.name if isinstance(name, Enum) else name))
        for name, part in (fields or {}).items()
    }
    changed = {name: part for name, part in new_fields.items() if fields and part is not fields[name]}
    if not changed:
        return state
    return {**state, **changed} if isinstance(state, dict) else dataclasses.replace(state, **changed)  # pyright: ignore


def inner_of(tensor: Any) -> Tensor:
    """The torch tensor of a typed one; a torch tensor itself."""
    return tensor.inner if isinstance(tensor, TensorBase) else tensor


# Complex parameters are stepped as torch steps them, as two real numbers each, and their states saved as complex ones.


def as_real(tensor: Tensor) -> Tensor:
    """`tensor`, of complex numbers its real and imaginary parts, `[..., 2]`, in the same memory.

    Gradients and states may be conjugated lazily, of which there is a copy; parameters are not.
    """
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def state_as_real(state: Any, parameter: Tensor) -> Any:
    """A state whose tensors of the shape of a complex parameter are real, of its parts, in the same memory."""
    return map_tensors(state, lambda it: as_real(it) if it.shape == parameter.shape else it)


def state_as_complex(state: Any, parameter: Tensor) -> Any:
    """A state whose tensors of the shape of a complex parameter's parts are complex, in the same memory."""
    if not parameter.is_complex():
        return state
    shape = (*parameter.shape, 2)
    pairs = (torch.float32, torch.float64)
    return map_tensors(state, lambda it: torch.view_as_complex(it) if it.shape == shape and it.dtype in pairs else it)
