"""States to flat names and back, for records: `{"momentum.moment_1": tensor, "momentum.time": 3}`."""

import dataclasses
import types
from collections.abc import Iterator, Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

import torch

from ..errors import RecordMismatchError

Leaf = torch.Tensor | int | float | str | bool


def flatten(state: Any, prefix: str = "") -> Iterator[tuple[str, Leaf]]:
    """Each leaf of a state dataclass with its dotted name; a None has no entry."""
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if dataclasses.is_dataclass(value):
            yield from flatten(value, f"{prefix}{field.name}.")
        elif value is not None:
            yield f"{prefix}{field.name}", value


def unflatten(state_type: type, leaves: Mapping[str, Leaf], prefix: str = "") -> Any:
    """Rebuild a state of `state_type` from the leaves whose names begin with `prefix`.

    Raises:
        RecordMismatchError: a field that may not be None has no leaf.
    """
    hints = get_type_hints(state_type)
    values = {}
    for field in dataclasses.fields(state_type):
        hint, optional = _without_none(hints[field.name])
        name = f"{prefix}{field.name}"
        if dataclasses.is_dataclass(hint):
            absent = not any(key.startswith(f"{name}.") for key in leaves)
            values[field.name] = None if optional and absent else unflatten(hint, leaves, f"{name}.")  # pyright: ignore[reportArgumentType]
        elif name in leaves:
            values[field.name] = leaves[name]
        elif optional:
            values[field.name] = None
        else:
            raise RecordMismatchError(f"optimizer state '{name}' of {state_type.__name__} is missing in the record")
    return state_type(**values)


def to_device(state: Any, device: torch.device, dtype: torch.dtype | None = None) -> Any:
    """The state with every tensor on `device`, and at least as wide as `dtype`; the state itself where all are."""
    moved = {}
    for field in dataclasses.fields(state):
        value = getattr(state, field.name)
        if dataclasses.is_dataclass(value):
            moved[field.name] = to_device(value, device, dtype)
        elif isinstance(value, torch.Tensor):
            moved[field.name] = value.to(device, torch.promote_types(value.dtype, dtype or value.dtype))
        else:
            continue
        if moved[field.name] is value:
            del moved[field.name]
    return dataclasses.replace(state, **moved) if moved else state


def _without_none(hint: Any) -> tuple[Any, bool]:
    """`X | None` to (X, True), any other hint to (hint, False)."""
    if get_origin(hint) in (Union, types.UnionType):
        rest = [arg for arg in get_args(hint) if arg is not type(None)]
        return (rest[0] if len(rest) == 1 else hint), len(rest) < len(get_args(hint))
    return hint, False
