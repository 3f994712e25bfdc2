"""What messages say of types and keys: the types of a role, the keys of a class, and where a misplaced key belongs."""

import msgspec.inspect as mi

from burnlike.errors import nearest, nearest_name

from .node import Node, child
from .registry import (
    TAG_FIELD,
    ConfigType,
    fields_of,
    imported,
    is_role,
    load_built_in,
    lookup,
    members_of,
    other_role,
    untagged,
)
from .torch_names import ELEMENT_TYPES, OTHER_FUNCTIONS, OUR_TYPES
from .words import MOST_CHOICES, choices, describe, got, show, show_text, with_article

LONGEST_NAME = 60
"""Characters of a key or type that are compared with the known ones."""
_LIKENESS = 0.75
"""Of a misspelling: `Sequentiall` means Sequential, and `QuickGelu` not Gelu."""
_MOST_FITTING = 4
"""More types that have a mapping's keys are not named."""
_DEEPEST = 8
"""Levels of configs in which the right place of a key is looked for."""


def near_option(text: str, options: list[str]) -> str:
    """The hint at the option that is meant by a text."""
    known = ELEMENT_TYPES.get(text.lower())
    return f"; did you mean '{known}'?" if known in options else nearest(text, options)


def expected(wanted: mi.Type) -> str:
    """The values that a type allows, with the types or keys of a mapping."""
    return mapping_of(wanted.cls) if isinstance(wanted, mi.StructType) else describe(wanted)


def mapping_of(cls: ConfigType) -> str:
    """A mapping that is read as `cls`, with its types or keys."""
    if is_role(cls):
        return f"a mapping with `type:` ({types_below(cls)})"
    return f"a mapping with keys of {cls.__name__} ({', '.join(fields_of(cls)) or 'none'})"


def types_below(role: ConfigType) -> str:
    """The values of `type:` where `role` is expected."""
    load_built_in()
    return (
        choices([show(tag) for tag in imported(role)], "`burnlike schema --list` has all")
        or f"a type of {role.__name__}, but none is known"
    )


def missing_type(node: Node, role: ConfigType) -> str:
    """The message about a mapping without `type:` where `role` is expected, with the types that have its keys."""
    keys, known = set(node.value), imported(role)
    is_long = len(known) > MOST_CHOICES  # so that the list is cut
    fitting = [tag for tag, cls in known.items() if is_long and keys and keys <= fields_of(cls).keys()]
    hint = f"; {choices([show(tag) for tag in fitting])} has these keys" if 0 < len(fitting) <= _MOST_FITTING else ""
    return f"missing key '{TAG_FIELD}'; expected {types_below(role)}{hint}"


def unknown_type(given: Node, role: ConfigType) -> str:
    """The message about a `type:` that names no class of `role`."""
    if not isinstance(given.value, str):
        return f"expected {types_below(role)}, got {got(given)}"
    if forgotten := untagged(role, given.value):
        name = forgotten.__name__
        return f'{name} has no tag; write `class {name}({forgotten.__bases__[0].__name__}, tag="{given.value}")`'
    near = f"; did you mean '{meant}'?" if (meant := _meant(given.value[:LONGEST_NAME], [*imported(role)])) else ""
    shown = f"'{show_text(given.value)}'"
    if other := other_role(given.value, role):
        return f"{shown} is a type of {other}; {with_article(role.__name__)} is due: {types_below(role)}{near}"
    if near:
        return f"unknown type {shown}{near} A class of your own comes in by --import MODULE"
    due = f"{with_article(role.__name__)} is due: {types_below(role)}"
    return f"unknown type {shown}; {due}; a class of your own comes in by --import MODULE"


def _meant(name: str, known: list[str]) -> str | None:
    """The type that a name stands for, or of which it is a misspelling; not one that computes something else."""
    plain = name.lower().replace("_", "")
    if plain in OTHER_FUNCTIONS:
        return None
    meant = OUR_TYPES.get(plain) or plain.removeprefix("lazy")
    return meant if meant in known else nearest_name(meant, known, likeness=_LIKENESS)


def path_elsewhere(root: ConfigType, node: Node, key: str, path: str, *, exactly: bool) -> str | None:
    """The right place of a key in the wrong one, `training.epochs` for `epochs`: a field of about this name elsewhere.

    Args:
        path: of the mapping that has the key.
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
        for member in members_of(field.type):
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
