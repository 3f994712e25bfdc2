"""`--set a.b=c`: replaces or adds values of a config before it is read."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from burnlike.errors import ConfigError, Problem

from .document import parse
from .node import MAX_DEPTH, Entries, Location, MappingEntry, Node, from_python
from .registry import TAG_FIELD, fields_of, tag_of
from .scalars import ScalarError, resolve
from .words import got, show_text

if TYPE_CHECKING:
    from .base import Config

C = TypeVar("C", bound="Config")


def apply_overrides(config: C, overrides: Iterable[str]) -> C:
    """A copy of `config` with each `a.b=c` applied, checked like a new one.

    Args:
        config: any config; it is not changed.
        overrides: `KEY=VALUE` each, with dots between the keys and numbers for the items of a list
            (`model.layers.0.bias=false`). A value that begins with `{`, `[` or a quote is YAML, any other one is
            one plain scalar. A changed `type` keeps the keys that the new type has too.

    Raises:
        ConfigError: names the option that is wrong.
    """
    place = Location(type(config).__name__)
    return type(config)._read(apply(from_python(_without_defaults(config), place), overrides), [])


def apply(root: Node, overrides: Iterable[str]) -> Node:
    """The tree with each `a.b=c` put in; the tree given is not changed.

    A key that the tree lacks is added, and so are mappings on the way to it. Whether the config has such a key, and
    whether the value fits, is for the reader to say: the new nodes have the option's text as their place.

    Raises:
        ConfigError: one has not this form, or leads through a plain value or past the end of a list.
    """
    problems: list[Problem] = []
    for text in overrides:
        place = Location(f"--set {show_text(text)}")
        try:
            keys, value = _split(text, place)
            root = _put(root, keys, value, "")
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError.of(problems)
    return root


def paths_of(overrides: Iterable[str]) -> list[str]:
    """The dotted path that each `a.b=c` sets."""
    return [".".join(_keys(text.partition("=")[0])) for text in overrides]


def _keys(name: str) -> list[str]:
    return [key.strip() for key in name.split(".")]


def _split(text: str, place: Location) -> tuple[list[str], Node]:
    name, sign, value = (part.strip() for part in text.partition("="))
    keys = _keys(name)
    if not sign or not all(keys):
        raise ConfigError.of([place.problem("", "expected KEY=VALUE, such as training.epochs=3")])
    if len(keys) > MAX_DEPTH:
        raise ConfigError.of([place.problem("", f"a key of {len(keys)} parts, nested deeper than {MAX_DEPTH} levels")])
    if not value:
        raise ConfigError.of([place.problem("", "the value is missing; write null for none, '' for an empty string")])
    if value[0] not in "{['\"":
        try:
            return keys, Node(resolve(value), place, value)
        except ScalarError as error:
            raise ConfigError.of([place.problem("", f"{show_text(value)} {error}")]) from error
    try:
        node, problems = parse(value, place.source)
    except ConfigError as error:
        problems, cause = list(error.problems), error
    else:
        if not problems:
            return keys, _move(node, place)
        cause = None
    raise ConfigError.of([place.problem(problem.path, problem.message) for problem in problems]) from cause


def _put(node: Node, keys: list[str], value: Node, path: str) -> Node:
    """A copy of `node` with `value` at `keys`; what aliases share stays as it is in the other places."""
    if not keys:
        return value
    key, place = keys[0], value.place
    path = f"{path}.{key}" if path else key
    if node.is_list:
        if not (key.isascii() and key.isdigit() and len(key) < 10 and int(key) < len(node.value)):
            known = f"0 to {len(node.value) - 1}" if node.value else "none, the list is empty"
            raise ConfigError.of([place.problem(path, f"expected the number of an item ({known}), got '{key}'")])
        items = list(node.value)
        items[int(key)] = _put(items[int(key)], keys[1:], value, path)
        return replace(node, value=items)
    if not node.is_map and node.value is not None:
        message = f"can't set a key of {got(node)}; a mapping is needed here"
        raise ConfigError.of([place.problem(path.rpartition(".")[0], message)])
    entries: Entries = node.value or Entries()
    old = entries.get(key)
    below = _put(old.value if old else Node(Entries(), place), keys[1:], value, path)
    from_option = old is None or len(keys) == 1
    entry = MappingEntry(place if from_option or old is None else old.place, below, from_option)
    switched = node.switched_from
    if key == TAG_FIELD and len(keys) == 1 and old and not old.from_option and isinstance(old.value.value, str):
        switched = old.value.value
    return replace(node, value=Entries(entries | {key: entry}), switched_from=switched)


def _move(node: Node, place: Location) -> Node:
    """A copy of a tree whose every node stands at `place`, put there by an option."""
    if node.is_map:
        moved = {key: MappingEntry(place, _move(entry.value, place), True) for key, entry in node.value.items()}
        return Node(Entries(moved), place)
    if node.is_list:
        return Node([_move(item, place) for item in node.value], place)
    return replace(node, place=place)


def _without_defaults(value: Any) -> Any:
    """Plain data of a config, without fields that have their default, so that a changed `type` takes its own."""
    if isinstance(value, msgspec.Struct):
        tag = tag_of(type(value))
        plain: dict[str, Any] = {} if tag is None else {TAG_FIELD: tag}
        for key, field in fields_of(type(value)).items():
            given = getattr(value, field.name)
            default = field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
            if field.required or given != default:
                plain[key] = _without_defaults(given)
        return plain
    if isinstance(value, dict):
        return {key: _without_defaults(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_defaults(item) for item in value]
    return value
