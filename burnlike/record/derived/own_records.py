"""Parts of a module whose classes define `into_record` or `load_record`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from torch import nn

from ...errors import RecordError
from ...module.identity.torch_wrappers import bare_name, own_class, unwrap
from ...module.methods import ModuleMethods
from ...module.tree.walk import walk_of
from ..layout import join

if TYPE_CHECKING:
    from ..record import Record

_METHODS = ("into_record", "load_record")


def overrides(module: nn.Module, *names: str) -> bool:
    """Whether the class of a module defines `into_record` or `load_record` itself.

    Args:
        module: the module.
        names: which of them; none stands for any.
    """
    cls = own_class(unwrap(module))
    return any(getattr(cls, name, None) not in (None, getattr(ModuleMethods, name)) for name in names or _METHODS)


def parts_with_records(module: nn.Module) -> dict[str, nn.Module]:
    """Path -> part of `module` with a record of its own; none is in another, nor the module itself."""
    root = unwrap(module)
    if not any(overrides(part) for part in {type(it): it for it in walk_of(root).modules}.values()):
        return {}
    found: dict[str, nn.Module] = {}
    for key, part in root.named_modules(remove_duplicate=False):
        path = bare_name(f"{key}.")[:-1]
        if key and overrides(part) and not path.startswith(below(found)):
            found[path] = unwrap(part)
    return found


def below(paths: Mapping[str, object]) -> tuple[str, ...]:
    """The prefixes of names that lie below one of the paths."""
    return tuple(join(path, "") for path in paths)


def with_own_records(record: "Record", parts: Mapping[str, nn.Module]) -> "Record":
    """The record of a module with those of its parts in the places of what it has of them.

    Raises:
        RecordError: a tensor that one of the parts leaves out is tied to one elsewhere.
    """
    from ..nesting import nested, without
    from ..record import Record

    records = {path: Record.of(part) for path, part in parts.items()}
    rest = without(record, parts)
    values = dict(rest.values)
    for path, part in records.items():
        if part.values:
            _place(values, path.split("."), dict(part.values))
    found = nested(records, replace(rest, values=values))
    aliases = dict(found.aliases)
    for alias, name in record.aliases.items():
        if name.startswith(below(parts)) and not alias.startswith(below(parts)):
            target = found.aliases.get(name, name)
            if target not in found.tensors:
                raise RecordError(
                    f"'{alias}' is tied to '{name}', which the into_record of its module leaves out; save it there, or"
                    " untie the two"
                )
            aliases[alias] = target
    return replace(found, aliases=aliases, layout=None)


def _place(values: dict[str, Any], path: list[str], content: dict[str, Any]) -> None:
    """Put plain values at a path."""
    for name in path[:-1]:
        values = values.setdefault(name, {})
    values[path[-1]] = content
