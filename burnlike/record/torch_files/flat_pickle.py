"""The tensors and plain values of a pickled object, by dotted names. Imports no torch."""

from collections.abc import Mapping
from typing import Any

from ...errors import ArgumentError, RecordFormatError, nearest
from ..bytes.budget import MAX_NAME
from ..bytes.source import Source
from ..layout import join
from ..metadata import dump_versions
from ..values import ENTRY
from .pickled import DTYPE_NAMES, Opaque, PickledMap, PickledTensor, Symbol, Tagged, kind_of

_MAX_DEPTH = 64
_PART_BYTES, _PART_STEPS = 64, 28
_TENSOR_BYTES, _TENSOR_STEPS = 360, 120
_NOTED_BYTES, _NOTED_STEPS = 300, 30
_MODULE_PARTS = ("_parameters", "_buffers", "_modules")


def flatten(
    content: Any, top_level_key: str | None, source: Source
) -> tuple[dict[str, PickledTensor], dict[str, Any], str | None]:
    """Divide what a pickle has, a map or a whole module, into tensors and values; with a key only what is under it.

    A small pickle can refer to one list a million times, which the budget of `source` ends.

    Returns:
        Name -> tensor; the plain values, in lists and maps as they were, what state dicts have beside tensors as
        entries (`burnlike.record.state_dict.own_code`); and what torch notes in state dicts about modules, as text.
    """
    content, path = _as_map(content), source.path
    if top_level_key is not None:
        known = [key for key in content if isinstance(key, str)] if isinstance(content, dict) else []
        if top_level_key not in known:
            raise ArgumentError(
                f"{path}: expected a key among {', '.join(map(repr, known[:10])) or 'none'}, got top_level_key="
                f"{top_level_key!r}{nearest(top_level_key, known)}"
            )
        content = _as_map(content[top_level_key])
    walk = _Walk(source)
    if not isinstance(content, dict):
        raise walk.refused("", content)
    values = walk.map(content, "", 0)
    return walk.tensors, values, None if walk.versions is None else dump_versions(walk.versions)


class _Walk:
    def __init__(self, source: Source) -> None:
        self.tensors: dict[str, PickledTensor] = {}
        self.versions: dict[str, Any] | None = None
        self._path = source.path
        self._budget = source.budget

    def map(self, items: Mapping[Any, Any], prefix: str, depth: int) -> dict[str, Any]:
        """The plain values in a map; its tensors are noted."""
        values: dict[str, Any] = {}
        noted = items.noted if isinstance(items, PickledMap) else None
        is_state_dict = isinstance(noted, dict)
        if is_state_dict:
            self.versions = self.versions or {}
            for path, it in self._plain(noted).items():
                self._budget.take(_NOTED_BYTES + len(prefix), _NOTED_STEPS)
                if isinstance(it, dict):
                    self.versions[join(prefix, path) if path else prefix] = it
        for key, item in items.items():
            name = self._name(prefix, key)
            if str(key) in values:
                raise RecordFormatError(f"{self._path}: has two values with the name '{name}'")
            if (is_state_dict or name.split(".")[-1] == "_extra_state") and not isinstance(item, PickledTensor):
                values[str(key)] = {ENTRY: self.entry(item, name, "", depth + 1)}
            elif (found := self.part(_as_map(item), name, depth + 1)) is not _NOTHING:
                values[str(key)] = found
        return values

    def entry(self, item: Any, name: str, path: str, depth: int) -> Any:
        """The part at `path` of the entry `name` of a state dict, as `encode_tree` has it."""
        at = join(name, path) if path else name
        self._count(at, depth)
        if isinstance(item, PickledTensor):
            self._note(item, at)
            return {"$tensor": path}
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if isinstance(item, Symbol) and item.module == "torch" and item.name in DTYPE_NAMES:
            return {"$dtype": item.name}
        if isinstance(item, Tagged):
            return {item.tag: self.entry(item.content, name, path, depth + 1)}
        if isinstance(item, list | tuple):
            items = [self.entry(it, name, join(path, index), depth + 1) for index, it in enumerate(item)]
            return {"$tuple": items} if isinstance(item, tuple) else items
        if isinstance(item, dict):
            parts: dict[Any, Any] = {}
            for key, it in item.items():
                self._name(at, key)
                parts[key] = self.entry(it, name, join(path, key), depth + 1)
            if all(isinstance(key, str) and not key.startswith("$") for key in parts):
                return parts
            return {"$items": [[key, it] for key, it in parts.items()]}
        raise self.refused(at, item)

    def _plain(self, noted: Mapping[Any, Any], depth: int = 0) -> dict[str, Any]:
        """The plain values among the noted ones; torch nests them deeply."""
        found: dict[str, Any] = {}
        for key, it in noted.items():
            self._count("_metadata", depth)
            if isinstance(key, str) and (it is None or isinstance(it, bool | int | float | str)):
                found[key] = it
            elif isinstance(key, str) and isinstance(it, dict) and depth < 3:
                found[key] = self._plain(it, depth + 1)
        return found

    def _name(self, prefix: str, key: Any) -> str:
        if isinstance(key, Opaque):
            raise RecordFormatError(
                f"{self._path}: a key of '{prefix[:80]}' is of the type {key.symbol.name}, expected a text or a small"
                " integer"
            )
        name = f"{prefix}.{key}" if prefix else str(key)
        if len(name) > MAX_NAME:
            raise RecordFormatError(f"{self._path}: '{name[:80]}...' is longer than {MAX_NAME} characters")
        return name

    def _count(self, name: str, depth: int) -> None:
        self._budget.take(_PART_BYTES, _PART_STEPS)
        if depth > _MAX_DEPTH:
            raise RecordFormatError(f"{self._path}: '{name[:80]}' is nested too deeply or refers to itself")

    def _note(self, item: PickledTensor, name: str) -> None:
        if name in self.tensors:
            raise RecordFormatError(f"{self._path}: has two tensors with the name '{name}'")
        self.tensors[name] = item
        self._budget.take(_TENSOR_BYTES + len(name), _TENSOR_STEPS)

    def part(self, item: Any, name: str, depth: int) -> Any:
        """The plain value of one part, `_NOTHING` if it has only tensors."""
        self._count(name, depth)
        if isinstance(item, PickledTensor):
            self._note(item, name)
            return _NOTHING
        if isinstance(item, Tagged) and item.tag == "$set":
            item = item.content
        if item is None or isinstance(item, bool | int | float | str):
            return item
        if not isinstance(item, list | tuple | dict):
            raise self.refused(name, item)
        before = len(self.tensors)
        found = self.map(item if isinstance(item, dict) else dict(enumerate(item)), name, depth)
        if not isinstance(item, dict) and len(self.tensors) == before:
            return [*found.values()]
        return found if found or not item else _NOTHING

    def refused(self, name: str, item: Any) -> RecordFormatError:
        where = f"'{name[:80]}' is" if name else "expected a map of tensors, got"
        return RecordFormatError(
            f"{self._path}: {where} {kind_of(item)}, which only code could make; nothing of a file is run. Save a"
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
    passing = passing.content if isinstance(passing, Tagged) else passing
    left_out = passing if isinstance(passing, list | tuple) else ()
    held = {**parameters, **{key: it for key, it in buffers.items() if key not in left_out}, **modules}
    return {key: it for key, it in held.items() if it is not None}
