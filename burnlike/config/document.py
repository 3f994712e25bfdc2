"""Parses YAML text into a tree of nodes with places, and collects all syntax mistakes.

Works on the parser's events instead of on PyYAML's own nodes: without recursion, so that deep nesting is a message and
not a crash, and without PyYAML's YAML 1.1 resolver and constructors, so that no tag can make an object.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NoReturn

import yaml

from burnlike.errors import ConfigError, Problem

from .node import MAX_DEPTH, MAX_VALUES, Entries, Location, MappingEntry, Node, report
from .plain import INVALID
from .scalars import ScalarError, resolve
from .source_text import check_characters, check_directives
from .syntax import explain
from .words import show_text

EMPTY = "empty; expected a mapping of `key: value`"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRING_TAGS = ("!", "tag:yaml.org,2002:str")
_PLAIN_TAGS = {"map": yaml.MappingStartEvent, "seq": yaml.SequenceStartEvent, "str": yaml.ScalarEvent}


def parse(text: str, source: str) -> tuple[Node, list[Problem]]:
    """The tree of a YAML document and the mistakes that do not stop one from reading on.

    Args:
        source: what messages call it: a file's path or a `--set` option.

    Raises:
        ConfigError: the text is not YAML, is empty, holds two documents, or is nested or repeated beyond all use.
    """
    check_characters(text, source)
    check_directives(text, source)
    builder = _Builder(source)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        line, column, message = explain(error, text)
        builder.problems.append(Location(source, line, column).problem("", message))
        raise ConfigError.of(builder.problems) from error
    except yaml.YAMLError as error:
        raise ConfigError.of([Location(source, 1, 1).problem("", f"not YAML: {error}")]) from error
    if builder.root is None or (builder.root.value is None and builder.root.text == ""):
        raise ConfigError.of([Location(source, 1, 1).problem("", EMPTY)])
    return builder.root, builder.problems


def parse_plain(text: str, source: str) -> Any:
    """The content of a YAML document, as dicts, lists and plain values.

    Raises:
        ConfigError: the text is wrong; the message has one line per mistake.
    """
    node, problems = parse(text, source)
    if problems:
        raise ConfigError.of(problems)
    return node.plain()


def _events(text: str) -> Iterator[yaml.Event]:
    return yaml.parse(text, Loader=LOADER)


@dataclass(slots=True)
class _Open:
    """A collection whose end has not come yet."""

    node: Node
    anchor: str | None
    size: int = 1
    height: int = 1
    key: "tuple[str, Location, bool] | None" = None
    """The key whose value is due: its text, its place, and whether it is a merge key."""
    merges: list[tuple[Location, Node]] = field(default_factory=list)


class _Builder:
    """Builds the tree from events, one at a time."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.problems: list[Problem] = []
        self.root: Node | None = None
        self.open: list[_Open] = []
        self.anchors: dict[str, tuple[Node, int, int] | None] = {}
        self.documents = 0

    def take(self, event: yaml.Event) -> None:
        place = Location(self.source, event.start_mark.line + 1, event.start_mark.column + 1)
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    self._stop(place, "a second document begins here; a config is one document, so remove the `---`")
            case yaml.AliasEvent():
                self._alias(event.anchor, place)
            case yaml.ScalarEvent():
                self._scalar(event, place)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._begin(event, place)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end()

    def _begin(self, event: yaml.CollectionStartEvent, place: Location) -> None:
        self._check_depth(place, 1)
        self._check_tag(event, place)
        node = Node(Entries() if isinstance(event, yaml.MappingStartEvent) else [], place)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.open.append(_Open(node, event.anchor))

    def _end(self) -> None:
        done = self.open.pop()
        if done.merges:
            self._merge(done)
        if done.anchor:
            self.anchors[done.anchor] = (done.node, done.size, done.height)
        self._add(done.node, done.size, done.height)

    def _scalar(self, event: yaml.ScalarEvent, place: Location) -> None:
        self._check_tag(event, place)
        plain = not event.style and event.tag not in _STRING_TAGS
        node = Node(event.value, place)
        if plain and not self._key_due():
            node.text = event.value
            try:
                node.value = resolve(event.value)
            except ScalarError as error:
                node.value = INVALID
                report(self.problems, place, self._path(), f"{show_text(event.value)} {error}")
        elif plain:
            node.text = event.value
        if event.anchor:
            self.anchors[event.anchor] = (node, 1, 0)
        self._add(node, 1, 0)

    def _alias(self, anchor: str, place: Location) -> None:
        if anchor not in self.anchors:
            self._stop(place, f"alias *{anchor} has no anchor &{anchor} before it", self._path())
        found = self.anchors[anchor]
        if found is None:
            self._stop(place, f"alias *{anchor} stands inside its own anchor &{anchor}", self._path())
        self._check_depth(place, found[2])
        self._add(*found)

    def _check_depth(self, place: Location, height: int) -> None:
        if len(self.open) + height > MAX_DEPTH:
            self._stop(place, f"nested deeper than {MAX_DEPTH} levels")

    def _key_due(self) -> bool:
        return bool(self.open) and self.open[-1].node.is_map and self.open[-1].key is None

    def _add(self, node: Node, size: int, height: int) -> None:
        """Put a complete node where it belongs: the root, a list, or a mapping's next key or value.

        Args:
            size: how many values it holds, itself counted.
            height: how many levels of collections it has.
        """
        if not self.open:
            self.root = node
            return
        parent = self.open[-1]
        parent.size += size
        parent.height = max(parent.height, height + 1)
        if parent.size > MAX_VALUES:
            self._stop(parent.node.place, f"holds more than {MAX_VALUES} values, those repeated by aliases counted")
        if parent.node.is_list:
            parent.node.value.append(node)
        elif parent.key is None:
            parent.key = self._key(node)
        else:
            key, place, is_merge = parent.key
            parent.key = None
            if is_merge:
                parent.merges.append((place, node))
            elif (first := parent.node.value.get(key)) is None:
                parent.node.value[key] = MappingEntry(place, node)
            else:
                message = f"duplicate key '{show_text(key)}'; it stands first in line {first.place.line}: remove one"
                report(self.problems, place, self._path(key), message)

    def _key(self, node: Node) -> tuple[str, Location, bool]:
        if isinstance(node.value, str):
            return node.value, node.place, node.value == "<<" and node.text is not None
        report(self.problems, node.place, self._path(), "a key must be text, not a list or a mapping")
        return "?", node.place, False

    def _merge(self, done: _Open) -> None:
        """Add the keys that `<<` brings; those written out in the mapping itself win, then the first mapping merged."""
        for place, node in done.merges:
            for given in node.value if node.is_list else [node]:
                if not given.is_map:
                    path = self._path()
                    report(self.problems, place, path, "`<<` takes an alias of a mapping, or a list of such")
                    continue
                done.size += len(given.value)
                for key, entry in given.value.items():
                    done.node.value.setdefault(key, entry)
        if done.size > MAX_VALUES:
            self._stop(done.node.place, f"holds more than {MAX_VALUES} values, those merged by `<<` counted")

    def _check_tag(self, event: yaml.ScalarEvent | yaml.CollectionStartEvent, place: Location) -> None:
        tag: str | None = event.tag
        if tag is None or tag == "!":
            return
        prefix, _, name = tag.rpartition(":")
        if prefix == "tag:yaml.org,2002" and isinstance(event, _PLAIN_TAGS.get(name, ())):
            return
        shown = show_text(tag.replace("tag:yaml.org,2002:", "!!"))
        message = f"the tag {shown} is not allowed: a config is plain data, so write the value without it"
        report(self.problems, place, self._path(), message)

    def _path(self, *last: str) -> str:
        steps = []
        for level in self.open:
            if level.node.is_list:
                steps.append(str(len(level.node.value)))
            elif level.key:
                steps.append(show_text(level.key[0]))
        return ".".join([*steps, *map(show_text, last)])

    def _stop(self, place: Location, message: str, path: str = "") -> NoReturn:
        report(self.problems, place, path, message)
        raise ConfigError.of(self.problems)
