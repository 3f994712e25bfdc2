"""The tensors and plain values of a pickled object, by dotted names. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...errors import ArgumentError, RecordFormatError, nearest
from .pickled import Opaque, PickledTensor, Symbol

_MAX_DEPTH = 64
_MAX_NAME = 4096  # characters
_CHARACTERS = 16  # of tensors' names, for each byte of the pickle
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")


def flatten(
    content: Any, top_level_key: str | None, path: str, most_parts: int
) -> tuple[dict[str, PickledTensor], dict[str, Any]]:
    """Divide what a pickle has into tensors and values.

    Args:
        content: the object: a map, or a whole module.
        top_level_key: reads only what is under this key; None is all.
        path: the file, for messages.
        most_parts: how many parts there can be; a small pickle can refer to one list a million times.

    Returns:
        Name -> tensor; and the plain values, in lists and maps as they were.

    Raises:
        RecordFormatError: it has an object that only code could make, or it can't be a record.
        ArgumentError: there is no such key.
    """
    content = _as_map(content)
    if top_level_key is not None:
        known = [key for key in content if isinstance(key, str)] if isinstance(content, dict) else []
        if top_level_key not in known:
            raise ArgumentError(
                f"{path}: expected a key among {', '.join(map(repr, known[:10])) or 'none'}, got top_level_key="
                f"{top_level_key!r}{nearest(top_level_key, known)}"
            )
        content = _as_map(content[top_level_key])
    walk = _Walk(path, most_parts)
    if not isinstance(content, dict):
        raise walk.refused("", content)
    values = walk.map(content, "", 0)
    return walk.tensors, values


class _Walk:
    def __init__(self, path: str, most_parts: int) -> None:
        self.tensors: dict[str, PickledTensor] = {}
        self._path = path
        self._left = most_parts

    def map(self, items: Mapping[Any, Any], prefix: str, depth: int) -> dict[str, Any]:
        """The plain values in a map; its tensors are noted."""
        values: dict[str, Any] = {}
        for key, item in items.items():
            if isinstance(key, Opaque):
                raise RecordFormatError(
                    f"{self._path}: a key of '{prefix[:80]}' is of the type {key.symbol.name}, expected a text or a"
                    " small integer"
                )
            name = f"{prefix}.{key}" if prefix else str(key)
            if len(name) > _MAX_NAME:
                raise RecordFormatError(f"{self._path}: '{name[:80]}...' is longer than {_MAX_NAME} characters")
            if str(key) in values:
                raise RecordFormatError(f"{self._path}: has two values with the name '{name}'")
            if (found := self.part(_as_map(item), name, depth + 1)) is not _NOTHING:
                values[str(key)] = found
        return values

    def part(self, item: Any, name: str, depth: int) -> Any:
        """The plain value of one part, `_NOTHING` if it has only tensors."""
        self._left -= 1
        if self._left < 0 or depth > _MAX_DEPTH:
            raise RecordFormatError(f"{self._path}: '{name[:80]}' is nested too deeply or refers to itself")
        if isinstance(item, PickledTensor):
            if name in self.tensors:
                raise RecordFormatError(f"{self._path}: has two tensors with the name '{name}'")
            self.tensors[name] = item
            self._left -= len(name) // _CHARACTERS
            return _NOTHING
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, list | tuple):
            before = len(self.tensors)
            found = self.map(dict(enumerate(item)), name, depth)
            if len(self.tensors) == before:
                return [*found.values()]
            return found or _NOTHING
        if isinstance(item, dict):
            found = self.map(item, name, depth)
            return found if found or not item else _NOTHING
        raise self.refused(name, item)

    def refused(self, name: str, item: Any) -> RecordFormatError:
        """The error that a part is no plain value."""
        named = item.symbol if isinstance(item, Opaque) else item
        kind = str(named) if isinstance(named, Symbol) else type(item).__name__
        where = f"'{name[:80]}' is" if name else "expected a map of tensors, got"
        return RecordFormatError(
            f"{self._path}: {where} {kind[:80]}, which only code could make; nothing of a file is run. Save a"
            " state_dict, or read only a part of it: top_level_key='state_dict'"
        )


_NOTHING: Any = object()


def _as_map(item: Any) -> Any:
    """A pickled module as the map that its `state_dict` would be, nested; anything else as it is."""
    if not isinstance(item, Opaque) or not isinstance(item.state, dict):
        return item
    parameters, buffers, modules = (item.state.get(name) for name in _MODULE_PARTS)
    if not (isinstance(parameters, dict) and isinstance(buffers, dict) and isinstance(modules, dict)):
        return item
    passing = item.state.get("_non_persistent_buffers_set")
    left_out = passing if isinstance(passing, set | list) else ()
    held = {**parameters, **{key: it for key, it in buffers.items() if key not in left_out}, **modules}
    return {key: it for key, it in held.items() if it is not None}
