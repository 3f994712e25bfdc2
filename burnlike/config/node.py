"""The tree that configs are read from: values with their places, the same for YAML, `--set` and Python values.

Paths into it are as `--set`, `--sweep` and `${...}` take them: `model.layers[2].d_output`.
"""

import re
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from burnlike.errors import ConfigError, Problem

MAX_DEPTH = 64
"""Levels of nesting; the deepest shipped config has 4."""
MAX_VALUES = 100_000
"""Values of a config, those that an alias or a reference repeats counted each time."""
MAX_PROBLEMS = 200
"""More mistakes than this are one: the file is no config."""


class Location(NamedTuple):
    """The place of something: a file with line and column from 1, or a source without lines (line 0)."""

    source: str = ""
    line: int = 0
    column: int = 0

    def problem(self, path: str, message: str) -> Problem:
        return Problem(message, path, self.source, self.line, self.column)


def report(problems: list[Problem], place: Location, path: str, message: str) -> None:
    """Add a mistake to those found so far; a ConfigError if it was one too many to be worth reading on."""
    problems.append(place.problem(path, message))
    if len(problems) >= MAX_PROBLEMS:
        raise ConfigError.of([*problems, place.problem("", f"stopped after {MAX_PROBLEMS} mistakes")])


class MappingEntry(NamedTuple):
    """One `key: value` of a mapping."""

    place: Location
    value: "Node"
    from_option: bool = False
    """True if it came by `--set` and not from a file."""
    written_for: str | None = None
    """The `type` of the mapping where the key was written, if an option or another file replaced it since."""


class Entries(dict[str, MappingEntry]):
    """The value of a mapping; a `dict` of another kind is a Python value that no YAML could give."""


@dataclass(slots=True, eq=False)
class Node:
    """One value, and where it begins.

    Attributes:
        value: `Entries` for a mapping, `list[Node]` for a list, else the plain value itself.
        text: how a plain YAML value is written; None for one that is quoted or did not come from YAML.
        reference: the text with `${...}` that the value came by.
        is_secret: True if an environment variable gave it; messages don't show it.
    """

    value: Any
    place: Location = field(default_factory=Location)
    text: str | None = None
    reference: str | None = None
    is_secret: bool = False

    @property
    def is_map(self) -> bool:
        return isinstance(self.value, Entries)

    @property
    def is_list(self) -> bool:
        return type(self.value) is list

    @property
    def parts(self) -> "list[Node]":
        """The values of a mapping, the items of a list; none for a plain value."""
        if isinstance(self.value, Entries):
            return [entry.value for entry in self.value.values()]
        return self.value if self.is_list else []

    def with_value(self, value: Any) -> "Node":
        return Node(value, self.place, self.text, self.reference, self.is_secret)

    def at(self, place: Location, reference: str) -> "Node":
        """The same value, referred to by the text `reference` at `place`."""
        return Node(self.value, place, self.text, reference, self.is_secret)

    def plain(self) -> Any:
        """The value as dicts, lists and plain values."""
        if self.is_map:
            return {key: entry.value.plain() for key, entry in self.value.items()}
        return [item.plain() for item in self.value] if self.is_list else self.value


class Part(NamedTuple):
    """A node with its size: how many values it has, itself counted, and how many levels of collections."""

    node: Node
    size: int = 1
    height: int = 0


class Tree(NamedTuple):
    """A config before it is read into a class, and the mistakes that do not stop one from reading on."""

    root: Node
    problems: list[Problem]


def from_python(value: Any, place: Location, depth: int = 0) -> Node:
    """The tree of a Python value; anything but dicts, lists and tuples stands in it as it is.

    A value nested too deeply, such as a list that holds itself, is a ConfigError.
    """
    if depth > MAX_DEPTH:
        raise ConfigError.of([place.problem("", f"nested deeper than {MAX_DEPTH} levels")])
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        entries = {key: MappingEntry(place, from_python(item, place, depth + 1)) for key, item in value.items()}
        return Node(Entries(entries), place)
    if isinstance(value, list | tuple):
        return Node([from_python(item, place, depth + 1) for item in value], place)
    return Node(value, place)


def find(node: Node, path: str) -> Node:
    """The node at a dotted `path`, or the nearest one above it that exists."""
    for key in path.split(".") if path else ():
        below = child(node, key)
        if below is None:
            return node
        node = below
    return node


def child(node: Node, key: str) -> Node | None:
    """The value of a mapping's `key` or of a list's index, None where there is none."""
    if node.is_map:
        entry = node.value.get(key)
        return entry.value if entry else None
    if node.is_list and len(key) < 10 and key.isascii() and key.isdigit() and int(key) < len(node.value):
        return node.value[int(key)]
    return None


APPEND = "[+]"
"""The step to a new item at the end of a list."""

_PART = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_LONGEST_INDEX = 9


class KeyPathError(ValueError):
    """A text that is no path; the message says what is wrong with it."""


def steps_of(text: str) -> list[str | int]:
    """The steps of a path: the key of a mapping as text, the index in brackets as an int, `[+]` as `APPEND`.

    An item of a list may also be written as a key, `layers.2`, which is a text here as it could be a mapping's.

    Example:
        >>> steps_of("model.layers[2].d_output")
        ['model', 'layers', 2, 'd_output']
    """
    steps: list[str | int] = []
    for part in text.split("."):
        match = _PART.fullmatch(part.strip())
        if match is None or not match[1].strip():
            raise KeyPathError("a path is keys joined by dots, with indices in brackets: model.layers[2].d_output")
        steps.append(match[1].strip())
        steps.extend(map(_index, re.findall(r"\[([^\[\]]*)\]", match[2])))
    return steps


def joined(steps: list[str | int]) -> str:
    """The path as messages write it, `model.layers.2.d_output`."""
    return ".".join(map(str, steps))


def _index(text: str) -> str | int:
    text = text.strip()
    if text == "+":
        return APPEND
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_INDEX):
        raise KeyPathError(f"[{text}] is no index of a list; expected a number from 0, such as [2]")
    return int(text)
