"""`--set a.b=c` and `--set ~a.b`: replaces, adds or deletes values of a config before it is read."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, TypeVar

from burnlike.errors import ConfigError, Problem, nearest

from .document import parse
from .node import APPEND, MAX_DEPTH, Entries, KeyPathError, Location, MappingEntry, Node, child, joined, steps_of
from .plain import ScalarError, resolve
from .registry import TAG_FIELD, type_in
from .words import got, listed, show_text

T = TypeVar("T")
DELETE = "~"


class Option(str):
    """An override `a.b=c` that is no `--set`, with what messages call it."""

    shown: str

    def __new__(cls, text: str, shown: str) -> "Option":
        option = super().__new__(cls, text)
        option.shown = shown
        return option


def reading(read: Callable[[list[str]], T], overrides: Iterable[str]) -> T:
    """The result of `read(overrides)`. A mistake that goes away without one of the options is reported there."""
    options = [*overrides]
    try:
        return read(options)
    except ConfigError as error:
        if not (options and error.problems):
            raise
        sources = {_source(text) for text in options}
        mistakes = {_key(it) for it in error.problems}
        unexplained = [it for it in error.problems if it.source not in sources]
        # By reading again without each: a rule that two values break together has no place that could tell.
        for index, text in enumerate(options if unexplained else ()):
            try:
                read([*options[:index], *options[index + 1 :]])
                without = set[tuple[str, str]]()
            except ConfigError as other_error:
                without = {_key(it) for it in other_error.problems}
            if without - mistakes:
                continue  # something else is wrong without it, behind which this mistake may be hidden
            for problem in [it for it in unexplained if _key(it) not in without]:
                unexplained[unexplained.index(problem)] = Problem(problem.message, problem.path, _source(text))
        raise type(error).of([*unexplained, *(it for it in error.problems if it.source in sources)]) from error


def _key(problem: Problem) -> tuple[str, str]:
    return problem.path, problem.message.partition(";")[0]


def _source(text: str) -> str:
    return show_text(text.shown) if isinstance(text, Option) else f"--set {show_text(text)}"


def apply(root: Node, overrides: Iterable[str]) -> Node:
    """The tree with each `a.b=c` put in and each `~a.b` deleted; the tree given is not changed.

    A key that the tree lacks is added, and so are mappings on the way to it. The reader checks that the config has such
    a key and that the value fits: the new nodes have the option's text as their place.
    """
    problems: list[Problem] = []
    for text in overrides:
        place = Location(_source(text))
        try:
            if text.startswith(DELETE):
                root = _without(root, _steps(text[1:], place), place, "")
            else:
                root = _put(root, *_split(text, place), "")
        except ConfigError as error:
            problems.extend(error.problems)
    if problems:
        raise ConfigError.of(problems)
    return root


def paths_of(overrides: Iterable[str]) -> list[str]:
    """The dotted path that each `a.b=c` sets or `~a.b` deletes."""
    return [joined(steps_of(text.partition("=")[0].removeprefix(DELETE))) for text in overrides]


def merged(lower: Node, upper: Node) -> Node:
    """The values of `upper`, and those of `lower` that it does not have: mappings key by key, all else is replaced.

    Where a `type` changes, keys of the type before that the new one lacks are dropped when the tree is read.
    """
    if not (lower.is_map and upper.is_map):
        return upper
    kept: Entries = lower.value
    if type_in(upper) not in (None, type_in(lower)):
        kept = written_for_type(kept)
    entries = Entries(kept)
    for key, entry in upper.value.items():
        below = kept.get(key)
        entries[key] = entry._replace(value=merged(below.value, entry.value) if below else entry.value)
    return upper.with_value(entries)


def written_for_type(entries: Entries) -> Entries:
    """The entries of a mapping whose `type` is about to be replaced, marked with that type.

    Entries of options stay as they are: an option that the new type has no key for is a mistake.
    """
    old = entries.get(TAG_FIELD)
    if old is None or old.from_option or not isinstance(old.value.value, str):
        return entries
    tag = old.value.value
    marked: dict[str, MappingEntry] = {
        key: entry if entry.from_option or entry.written_for else entry._replace(written_for=tag)
        for key, entry in entries.items()
    }
    return Entries(marked)


def _split(text: str, place: Location) -> tuple[list[str | int], Node]:
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (sign and name):
        raise ConfigError.of([place.problem("", "expected KEY=VALUE, such as training.epochs=3, or ~KEY")])
    steps = _steps(name, place)
    if not value:
        raise ConfigError.of([place.problem("", "the value is missing; write null for none, '' for an empty string")])
    return steps, _value(value, place)


def _steps(name: str, place: Location) -> list[str | int]:
    try:
        steps = steps_of(name)
    except KeyPathError as error:
        raise ConfigError.of([place.problem("", str(error))]) from error
    if len(steps) > MAX_DEPTH:
        message = f"a key of {len(steps)} parts, nested deeper than {MAX_DEPTH} levels"
        raise ConfigError.of([place.problem("", message)])
    return steps


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
        return merged(node, value)
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
    entry = old._replace(value=below) if old and len(steps) > 1 else MappingEntry(place, below, from_option=True)
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
        numbers = f"0 to {len(items) - 1}" if items else "none, the list is empty"
        message = f"expected the number of an item ({numbers}), or [+] for a new one; got '{step}'"
        raise ConfigError.of([value.place.problem(here, message)])
    items[int(step)] = _put(items[int(step)], steps[1:], value, here)
    return node.with_value(items)


def _without(node: Node, steps: list[str | int], place: Location, path: str) -> Node:
    """A copy of `node` without what is at `steps`."""
    key = str(steps[0])
    below = child(node, key)
    if below is None:
        near = nearest(key, [*node.value]) if node.is_map else ""
        there = f"{near or f'; there are {listed(node.value)}'}" if node.is_map and node.value else ""
        raise ConfigError.of([place.problem(path, f"there is no '{show_text(key)}' here to delete{there}")])
    rest = None if len(steps) == 1 else _without(below, steps[1:], place, f"{path}.{key}" if path else key)
    value: Any = node.value.copy() if node.is_list else Entries(node.value)
    at = int(key) if node.is_list else key
    if rest is None:
        del value[at]
    else:
        value[at] = rest if node.is_list else value[at]._replace(value=rest)
    return node.with_value(value)


def _move(node: Node, place: Location) -> Node:
    """A copy of a tree whose every node stands at `place`, put there by an option."""
    if node.is_map:
        moved = {key: MappingEntry(place, _move(entry.value, place), True) for key, entry in node.value.items()}
        return Node(Entries(moved), place)
    if node.is_list:
        return Node([_move(item, place) for item in node.value], place)
    return replace(node, place=place)
