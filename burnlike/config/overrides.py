"""`--set a.b=c`: replaces or adds values of a config before it is read."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from burnlike.errors import ConfigError, Problem

from .document import parse
from .interpolation import escaped, interpolate
from .key_paths import APPEND, KeyPathError, joined, steps_of
from .node import MAX_DEPTH, Entries, Location, MappingEntry, Node, Tree, child, from_python
from .registry import TAG_FIELD, fields_of, inlined_in, tag_of
from .scalars import ScalarError, resolve
from .words import got, listed, show_text

if TYPE_CHECKING:
    from .base import Config

C = TypeVar("C", bound="Config")


def apply_overrides(config: C, overrides: Iterable[str]) -> C:
    """A copy of `config` with each `a.b=c` applied, checked like a new one.

    Args:
        config: any config; it is not changed.
        overrides: `KEY=VALUE` each, with dots between the keys and indices for the items of a list
            (`model.layers[0].bias=false`; `layers[+]` is a new item). A value that begins with `{`, `[` or a quote is
            YAML, any other one is one plain scalar. A changed `type` keeps the keys that the new type has too.

    Raises:
        ConfigError: names the option that is wrong.
    """
    root = from_python(escaped(_without_defaults(config)), Location(type(config).__name__))
    return type(config).from_tree(Tree(*interpolate(apply(root, overrides))))


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
    return [joined(steps_of(text.partition("=")[0])) for text in overrides]


def _split(text: str, place: Location) -> tuple[list[str | int], Node]:
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (sign and name):
        raise ConfigError.of([place.problem("", "expected KEY=VALUE, such as training.epochs=3")])
    try:
        steps = steps_of(name)
    except KeyPathError as error:
        raise ConfigError.of([place.problem("", str(error))]) from error
    if len(steps) > MAX_DEPTH:
        message = f"a key of {len(steps)} parts, nested deeper than {MAX_DEPTH} levels"
        raise ConfigError.of([place.problem("", message)])
    if not value:
        raise ConfigError.of([place.problem("", "the value is missing; write null for none, '' for an empty string")])
    return steps, _value(value, place)


def _value(text: str, place: Location) -> Node:
    """The value after the `=`: YAML if it begins as a list, a mapping or a quoted text, else one plain scalar."""
    if text[0] not in "{['\"":
        try:
            return Node(resolve(text), place, text)
        except ScalarError as error:
            raise ConfigError.of([place.problem("", f"{show_text(text)} {error}")]) from error
    try:
        node, problems = parse(text, place.source)
    except ConfigError as error:
        problems, cause = list(error.problems), error
    else:
        if not problems:
            return _move(node, place)
        cause = None
    raise ConfigError.of([place.problem(problem.path, problem.message) for problem in problems]) from cause


def _put(node: Node, steps: list[str | int], value: Node, path: str) -> Node:
    """A copy of `node` with `value` at `steps`; what aliases share stays as it is in the other places."""
    if not steps:
        return value
    place = value.place
    if node.is_list:
        return _put_item(node, steps, value, path)
    if not node.is_map and node.value is not None:
        message = f"can't set a key of {got(node)}; a mapping is needed here"
        raise ConfigError.of([place.problem(path, message)])
    entries: Entries = node.value or Entries()
    key = steps[0]
    if not isinstance(key, str) or key == APPEND:
        shown = key if key == APPEND else f"[{key}]"
        if entries:
            there = f"here is a mapping with the keys {listed(entries)}"
        else:
            there = "no list is written here yet; set it whole, or add items by [+]"
        raise ConfigError.of([place.problem(path, f"{shown} is an item of a list, and {there}")])
    old = entries.get(key)
    missing = Node([] if steps[1:2] == [APPEND] else Entries(), place)
    below = _put(old.value if old else missing, steps[1:], value, f"{path}.{key}" if path else key)
    given = MappingEntry(place, below, from_option=True)
    entry = old._replace(value=below) if old and len(steps) > 1 else given
    if key == TAG_FIELD and len(steps) == 1:
        entries = written_for_type(entries)
    return node.with_value(Entries(entries | {key: entry}))


def _put_item(node: Node, steps: list[str | int], value: Node, path: str) -> Node:
    items, step = list(node.value), steps[0]
    here = f"{path}.{step}" if path else str(step)
    if step == APPEND:
        items.append(_put(Node(Entries(), value.place), steps[1:], value, here))
        return node.with_value(items)
    if child(node, str(step)) is None:
        known = f"0 to {len(items) - 1}" if items else "none, the list is empty"
        message = f"expected the number of an item ({known}), or [+] for a new one; got '{step}'"
        raise ConfigError.of([value.place.problem(here, message)])
    items[int(step)] = _put(items[int(step)], steps[1:], value, here)
    return node.with_value(items)


def written_for_type(entries: Entries) -> Entries:
    """The entries of a mapping whose `type` is about to be replaced, marked with that type.

    Those that options gave stay as they are: an option that the new type has no key for is a mistake.
    """
    old = entries.get(TAG_FIELD)
    if old is None or old.from_option or not isinstance(old.value.value, str):
        return entries
    tag = old.value.value
    return Entries(
        (key, entry if entry.from_option or entry.written_for else entry._replace(written_for=tag))
        for key, entry in entries.items()
    )


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
            if key == inlined_in(type(value)) and isinstance(given, msgspec.Struct):
                plain |= _without_defaults(given)
            elif field.required or given != default:
                plain[key] = _without_defaults(given)
        return plain
    if isinstance(value, dict):
        return {key: _without_defaults(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_defaults(item) for item in value]
    return value
