"""Finds the right place of a key that stands in the wrong one: `training.epochs` for `epochs`."""

import msgspec.inspect as mi

from burnlike.errors import nearest_name

from .node import Node, child
from .registry import TAG_FIELD, ConfigType, fields_of, is_role, lookup

_DEEPEST = 8


def path_elsewhere(root: ConfigType, node: Node, key: str, path: str, *, exactly: bool) -> str | None:
    """The path of the field that is called `key`, or nearly so, in another mapping than the one at `path`.

    Args:
        node: the tree that it is read from, which says what stands where a role is due.
        exactly: whether only a field of exactly this name is looked for.
    """
    paths: dict[str, str] = {}
    _collect(root, node, "", paths, 0)
    paths = {name: it for name, it in paths.items() if it.rpartition(".")[0] != path}
    if exactly:
        return paths.get(key)
    found = nearest_name(key, [*paths]) or next((name for name in paths if name.endswith(f"_{key}")), None)
    return paths[found] if found else None


def _collect(cls: ConfigType, node: Node | None, path: str, paths: dict[str, str], depth: int) -> None:
    for key, field in fields_of(cls).items():
        here = f"{path}.{key}" if path else key
        paths.setdefault(key, here)
        below = child(node, key) if node else None
        for member in field.type.types if isinstance(field.type, mi.UnionType) else (field.type,):
            if isinstance(member, mi.StructType) and depth < _DEEPEST:
                chosen = _chosen(member.cls, below)
                if chosen is not None:
                    _collect(chosen, below, here, paths, depth + 1)


def _chosen(cls: ConfigType, node: Node | None) -> ConfigType | None:
    """The class that stands where `cls` is due; None where that is not known."""
    tag = child(node, TAG_FIELD) if node else None
    if tag and isinstance(tag.value, str):
        return lookup(cls, tag.value)
    return None if is_role(cls) or node is None else cls
