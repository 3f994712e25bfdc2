"""Parses YAML text into a tree of nodes with places, and collects all syntax mistakes.

Works on the parser's events instead of on PyYAML's own nodes: deep nesting is a message and not a crash, and without
PyYAML's YAML 1.1 resolver and constructors no tag can make an object.
"""

from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from burnlike.errors import ConfigError, Problem

from .node import MAX_DEPTH, MAX_VALUES, Entries, Location, MappingEntry, Node, Part, report
from .plain import INVALID
from .scalars import ScalarError, resolve
from .source_text import check_characters, check_directives, explain
from .words import show_text

EMPTY = "empty; expected a mapping of `key: value`"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRING_TAGS = ("!", "tag:yaml.org,2002:str")
_PLAIN_TAGS = {"map": yaml.MappingStartEvent, "seq": yaml.SequenceStartEvent, "str": yaml.ScalarEvent}


def parse(text: str, source: str) -> tuple[Node, list[Problem]]:
    """The tree of a YAML document and the mistakes that do not stop one from reading on.

    It is a ConfigError if the text is not YAML, is empty, holds two documents, or is nested or repeated beyond all use.
    """
    check_characters(text, source)
    check_directives(text, source)
    reader = _Reader(yaml.parse(text, Loader=LOADER), source)
    try:
        root = reader.document()
    except yaml.MarkedYAMLError as error:
        line, column, message = explain(error, text)
        reader.problems.append(Location(source, line, column).problem("", message))
        raise ConfigError.of(reader.problems) from error
    except yaml.YAMLError as error:
        raise ConfigError.of([Location(source, 1, 1).problem("", f"not YAML: {error}")]) from error
    if root is None or (root.value is None and root.text == ""):
        raise ConfigError.of([Location(source, 1, 1).problem("", EMPTY)])
    return root, reader.problems


def parse_plain(text: str, source: str) -> Any:
    """The content of a YAML document, as dicts, lists and plain values; a ConfigError has one line per mistake."""
    node, problems = parse(text, source)
    if problems:
        raise ConfigError.of(problems)
    return node.plain()


class _Reader:
    """Reads the tree of a document from its events."""

    def __init__(self, events: Iterator[yaml.Event], source: str) -> None:
        self.events, self.source = events, source
        self.problems: list[Problem] = []
        self.anchors: dict[str, Part | None] = {}

    def document(self) -> Node | None:
        root = None
        for event in self.events:
            if isinstance(event, yaml.NodeEvent):
                root = self._part(event, (), 0).node
            elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
                message = "a second document begins here; a config is one document, so remove the `---`"
                self._stop(self._place(event), message)
        return root

    def _part(self, event: Any, path: tuple[str, ...], depth: int, *, is_key: bool = False) -> Part:
        """What begins with an event at a path, within `depth` collections."""
        place = self._place(event)
        match event:
            case yaml.AliasEvent():
                return self._alias(event.anchor, place, path, depth)
            case yaml.ScalarEvent():
                self._check_tag(event, place, path)
                part = Part(self._scalar(event, place, path, is_key=is_key))
            case _:
                self._check_depth(place, depth + 1)
                self._check_tag(event, place, path)
                if event.anchor:
                    self.anchors[event.anchor] = None
                node = Node(Entries() if isinstance(event, yaml.MappingStartEvent) else [], place)
                part = self._collection(node, path, depth + 1)
        if event.anchor:
            self.anchors[event.anchor] = part
        return part

    def _scalar(self, event: yaml.ScalarEvent, place: Location, path: tuple[str, ...], *, is_key: bool) -> Node:
        if event.style or event.tag in _STRING_TAGS:
            return Node(event.value, place)
        node = Node(event.value, place, event.value)
        if not is_key:
            try:
                node.value = resolve(event.value)
            except ScalarError as error:
                node.value = INVALID
                self._report(place, path, f"{show_text(event.value)} {error}")
        return node

    def _alias(self, anchor: str, place: Location, path: tuple[str, ...], depth: int) -> Part:
        if anchor not in self.anchors:
            self._stop(place, f"alias *{anchor} has no anchor &{anchor} before it", path)
        found = self.anchors[anchor]
        if found is None:
            self._stop(place, f"alias *{anchor} stands inside its own anchor &{anchor}", path)
        self._check_depth(place, depth + found.height)
        return found

    def _collection(self, node: Node, path: tuple[str, ...], depth: int) -> Part:
        """Read the items of a list, or the keys and values of a mapping, into a node that is empty."""
        size, height = 1, 1
        key: Node | None = None  # the one whose value is due
        merges: list[tuple[Location, Node]] = []
        while not isinstance(event := next(self.events), yaml.CollectionEndEvent):
            is_key = node.is_map and key is None
            step = str(len(node.value)) if key is None else key.value
            part = self._part(event, path if is_key else (*path, step), depth, is_key=is_key)
            size, height = size + part.size, max(height, part.height + 1)
            if size > MAX_VALUES:
                self._stop(node.place, f"holds more than {MAX_VALUES} values, those repeated by aliases counted")
            if node.is_list:
                node.value.append(part.node)
            elif key is None:
                key = part.node
                if not isinstance(key.value, str):
                    self._report(key.place, path, "a key must be text, not a list or a mapping")
                    key = Node("?", key.place)
            else:
                if key.value == "<<" and key.text is not None:
                    merges.append((key.place, part.node))
                elif (first := node.value.get(key.value)) is None:
                    node.value[key.value] = MappingEntry(key.place, part.node)
                else:
                    there = f"it stands first in line {first.place.line}: remove one"
                    self._report(key.place, (*path, step), f"duplicate key '{show_text(step)}'; {there}")
                key = None
        return Part(node, self._merged(node, merges, path, size), height)

    def _merged(self, node: Node, merges: list[tuple[Location, Node]], path: tuple[str, ...], size: int) -> int:
        """Add the keys that `<<` brings, and give the size then.

        Those written out in the mapping itself win, then the first mapping merged.
        """
        for place, merged in merges:
            for given in merged.value if merged.is_list else [merged]:
                if not given.is_map:
                    self._report(place, path, "`<<` takes an alias of a mapping, or a list of such")
                    continue
                size += len(given.value)
                for key, entry in given.value.items():
                    node.value.setdefault(key, entry)
        if merges and size > MAX_VALUES:
            self._stop(node.place, f"holds more than {MAX_VALUES} values, those merged by `<<` counted")
        return size

    def _check_depth(self, place: Location, depth: int) -> None:
        if depth > MAX_DEPTH:
            self._stop(place, f"nested deeper than {MAX_DEPTH} levels")

    def _check_tag(self, event: Any, place: Location, path: tuple[str, ...]) -> None:
        tag: str | None = event.tag
        if tag is None or tag == "!":
            return
        prefix, _, name = tag.rpartition(":")
        if prefix == "tag:yaml.org,2002" and isinstance(event, _PLAIN_TAGS.get(name, ())):
            return
        shown = show_text(tag.replace("tag:yaml.org,2002:", "!!"))
        message = f"the tag {shown} is not allowed: a config is plain data, so write the value without it"
        self._report(place, path, message)

    def _place(self, event: yaml.Event) -> Location:
        return Location(self.source, event.start_mark.line + 1, event.start_mark.column + 1)

    def _report(self, place: Location, path: tuple[str, ...], message: str) -> None:
        report(self.problems, place, ".".join(map(show_text, path)), message)

    def _stop(self, place: Location, message: str, path: tuple[str, ...] = ()) -> NoReturn:
        self._report(place, path, message)
        raise ConfigError.of(self.problems)
