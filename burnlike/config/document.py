"""The text of a config: read from its file, parsed into a tree of nodes with places, and its syntax errors explained.

The parser works on PyYAML's events instead of on its nodes: deep nesting is a message and not a crash, and without
PyYAML's YAML 1.1 resolver and constructors no tag can make an object. It collects all mistakes that it can read past.
"""

import itertools
import os
import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

from burnlike._regular_file import read_regular
from burnlike.errors import ConfigError, ConfigIOError, Problem, nearest, nearest_name

from .node import MAX_DEPTH, MAX_VALUES, Entries, Location, MappingEntry, Node, Part, report
from .plain import INVALID, ScalarError, resolve
from .shipped import shipped_configs
from .words import show_text

MAX_BYTES = 4 * 2**20
"""Larger files are no configs; a mistaken path to a record of many gigabytes must not be read."""
MAX_DIRECTIVES = 16
"""libyaml compares each directive with all before it: 100,000 take minutes, in which no signal is heard."""
EMPTY = "empty; expected a mapping of `key: value`"
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_STRING_TAGS = ("!", "tag:yaml.org,2002:str")
_PLAIN_TAGS = {"map": yaml.MappingStartEvent, "seq": yaml.SequenceStartEvent, "str": yaml.ScalarEvent}

_DIRECTIVE = re.compile("(?:^|[\n\r\x85\u2028\u2029])%")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def read_text(path: "str | os.PathLike[str]") -> str:
    """The text of the file at `path`, UTF-8 with or without a byte order mark, of at most 4 MiB."""
    name = os.fspath(path)
    try:
        # One byte more tells a larger file without reading it.
        data = read_regular(path, MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        message = f"can't be read: {getattr(error, 'strerror', None) or error}"
        if isinstance(error, IsADirectoryError):
            message = "is a directory; give the path of a YAML file"
        elif isinstance(error, FileNotFoundError):
            message = f"no such file{_beside(name)}"
        raise ConfigIOError.of([Problem(message, source=name)]) from error
    if len(data) > MAX_BYTES:
        message = f"larger than {MAX_BYTES // 2**20} MiB: not a config"
        raise ConfigError.of([Problem(message, source=name)])
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _position(data[: error.start].decode("utf-8-sig"))
        encoding = "UTF-16 or UTF-32 text" if data.startswith(_BYTE_ORDER_MARKS) else f"byte 0x{data[error.start]:02x}"
        message = f"not UTF-8 ({encoding}); save the file as UTF-8"
        raise ConfigError.of([Problem(message, source=name, line=line, column=column)]) from error


def parse(text: str, source: str) -> tuple[Node, list[Problem]]:
    """The tree of a YAML document and the mistakes that do not stop one from reading on.

    It is a ConfigError if the text is not YAML, is empty, holds two documents, or is nested or repeated beyond all use.
    """
    _check_text(text, source)
    parser = _Parser(yaml.parse(text, Loader=LOADER), source)
    try:
        root = parser.document()
    except yaml.MarkedYAMLError as error:
        line, column, message = _explain(error, text)
        parser.problems.append(Location(source, line, column).problem("", message))
        raise ConfigError.of(parser.problems) from error
    except yaml.YAMLError as error:
        raise ConfigError.of([Location(source, 1, 1).problem("", f"not YAML: {error}")]) from error
    if root is None or (root.value is None and root.text == ""):
        raise ConfigError.of([Location(source, 1, 1).problem("", EMPTY)])
    return root, parser.problems


def parse_plain(text: str, source: str) -> Any:
    """The content of a YAML document, as dicts, lists and plain values; a ConfigError has one line per mistake."""
    node, problems = parse(text, source)
    if problems:
        raise ConfigError.of(problems)
    return node.plain()


class _Parser:
    """Makes the tree of a document from its events."""

    def __init__(self, events: Iterator[yaml.Event], source: str) -> None:
        self.events, self.source = events, source
        self.problems: list[Problem] = []
        self.anchors: dict[str, Part | None] = {}
        """What each anchor stands for; None while that is still being read."""

    def document(self) -> Node | None:
        root = None
        for event in self.events:
            if isinstance(event, yaml.NodeEvent):
                root = self._part(event, (), 0).node
            elif isinstance(event, yaml.DocumentStartEvent) and root is not None:
                message = "a second document begins here; a config is one document, so remove the `---`"
                self._stop(Location(self.source, event.start_mark.line + 1, event.start_mark.column + 1), message)
        return root

    def _part(self, event: Any, path: tuple[str, ...], depth: int, *, is_key: bool = False) -> Part:
        """Read the value that begins with an event at a path, within `depth` collections."""
        place = Location(self.source, event.start_mark.line + 1, event.start_mark.column + 1)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event.anchor, place, path, depth)
        is_scalar = isinstance(event, yaml.ScalarEvent)
        if not is_scalar:
            self._check_depth(place, depth + 1)
        if event.tag is not None:
            self._check_tag(event, place, path)
        if is_scalar:
            part = Part(self._scalar(event, place, path, is_key=is_key))
        else:
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
        if is_key:  # `1:` and `null:` are keys by these names
            return Node(event.value, place, event.value)
        try:
            return Node(resolve(event.value), place, event.value)
        except ScalarError as error:
            self._report(place, path, f"{show_text(event.value)} {error}")
            return Node(INVALID, place, event.value)

    def _alias(self, anchor: str, place: Location, path: tuple[str, ...], depth: int) -> Part:
        if anchor not in self.anchors:
            self._stop(place, f"alias *{anchor} has no anchor &{anchor} before it", path)
        part = self.anchors[anchor]
        if part is None:
            self._stop(place, f"alias *{anchor} stands inside its own anchor &{anchor}", path)
        self._check_depth(place, depth + part.height)
        return part

    def _collection(self, node: Node, path: tuple[str, ...], depth: int) -> Part:
        """Read the items of a list, or the keys and values of a mapping, into a node that is empty."""
        size, height = 1, 1
        is_map = node.is_map
        key: Node | None = None  # the one whose value is due
        merges: list[tuple[Location, Node]] = []
        while not isinstance(event := next(self.events), yaml.CollectionEndEvent):
            is_key = is_map and key is None
            step = str(len(node.value)) if key is None else key.value
            part = self._part(event, path if is_key else (*path, step), depth, is_key=is_key)
            size, height = size + part.size, max(height, part.height + 1)
            if size > MAX_VALUES:  # asked at each value, so that "billion laughs" ends here and not in memory
                self._stop(node.place, f"holds more than {MAX_VALUES} values, those repeated by aliases counted")
            if not is_map:
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
        if merges:
            size += self._merge(node, merges, path)
            if size > MAX_VALUES:
                self._stop(node.place, f"holds more than {MAX_VALUES} values, those merged by `<<` counted")
        return Part(node, size, height)

    def _merge(self, node: Node, merges: list[tuple[Location, Node]], path: tuple[str, ...]) -> int:
        """Add the keys that `<<` brings, and give how many it named.

        Those written out in the mapping itself win, then the first mapping merged.
        """
        count = 0
        for place, merged in merges:
            for source in merged.value if merged.is_list else [merged]:
                if not source.is_map:
                    self._report(place, path, "`<<` takes an alias of a mapping, or a list of such")
                    continue
                count += len(source.value)
                for key, entry in source.value.items():
                    node.value.setdefault(key, entry)
        return count

    def _check_depth(self, place: Location, depth: int) -> None:
        if depth > MAX_DEPTH:
            self._stop(place, f"nested deeper than {MAX_DEPTH} levels")

    def _check_tag(self, event: Any, place: Location, path: tuple[str, ...]) -> None:
        tag: str = event.tag
        prefix, _, name = tag.rpartition(":")
        if tag == "!" or (prefix == "tag:yaml.org,2002" and isinstance(event, _PLAIN_TAGS.get(name, ()))):
            return
        shown = show_text(tag.replace("tag:yaml.org,2002:", "!!"))
        message = f"the tag {shown} is not allowed: a config is plain data, so write the value without it"
        self._report(place, path, message)

    def _report(self, place: Location, path: tuple[str, ...], message: str) -> None:
        report(self.problems, place, ".".join(map(show_text, path)), message)

    def _stop(self, place: Location, message: str, path: tuple[str, ...] = ()) -> NoReturn:
        self._report(place, path, message)
        raise ConfigError.of(self.problems)


def _check_text(text: str, source: str) -> None:
    """Refuse characters that no YAML text may hold, which binary files are full of, and a flood of directives."""
    if match := _FORBIDDEN.search(text):
        line, column = _position(text[: match.start()])
        message = f"not a text file: it holds the character U+{ord(match[0]):04X}, which YAML does not allow"
        raise ConfigError.of([Problem(message, source=source, line=line, column=column)])
    directives = list(itertools.islice(_DIRECTIVE.finditer(text), MAX_DIRECTIVES + 1))
    if len(directives) > MAX_DIRECTIVES:
        line, _ = _position(text[: directives[-1].end() - 1])
        message = f"more than {MAX_DIRECTIVES} lines that begin with %, which are directives; a config needs none"
        raise ConfigError.of([Problem(message, source=source, line=line, column=1)])


def _position(before: str) -> tuple[int, int]:
    """Line and column, from 1, of what follows the text `before`."""
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return len(lines), len(lines[-1]) + 1


def _beside(name: str) -> str:
    """A hint at a YAML file of nearly the same name in the same directory, or at a shipped config."""
    folder, base = os.path.split(name)
    stem, suffix = os.path.splitext(base)
    try:
        endings = (".yaml", ".yml", suffix or ".yaml")
        files = [other for other in os.listdir(folder or ".") if other != base and other.endswith(endings)]
    except OSError:
        return f"; the directory {folder} does not exist either"
    stems = {os.path.splitext(other)[0]: other for other in files}
    if near := nearest_name(stem, set(stems)):
        return f"; did you mean '{stems[near]}'?"
    shipped = shipped_configs() if not suffix else {}
    if base in shipped:
        return f"; expected a path: the shipped config of this name is {shipped[base]}"
    listed = f"; shipped configs are {', '.join(shipped)}" if base == name and shipped else "; check the path"
    return nearest(base, [*shipped]) or listed


_NO_COLON = "this line is neither `key: value` nor `- item`"
_AFTER_NO_COLON = (
    *("mapping values are not allowed", "did not find expected key", "expected <block end>"),
    *("did not find expected <document start>", "expected '<document start>'"),
)
"""How the parsers complain about the line after one in which the colon is missing: they took that for a text."""
_PLAIN_LINE = re.compile(r"[^\s\-\"'\[{}\]&*!|>%@`#?,]((?!:\s| #).)*(?<!:)( #.*)?")

_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
"""A line break of YAML 1.1, as which the parsers count lines."""
_UNQUOTED_REFERENCE = re.compile(r"(?:^|[\[{,:])\s*([^\s'\"\[{,:]*\$\{)")

_REMEDIES = {
    "mapping values are not allowed": (
        "a second `: ` in one line, or a line indented deeper than the one it belongs to; "
        "put a value that contains `: ` in quotes"
    ),
    "could not find expected ':'": _NO_COLON,
    "did not find expected key": "the indentation fits no line above it",
    "expected <block end>": "the indentation fits no line above it",
    "did not find expected '-' indicator": "the indentation fits no line above it",
    "expected ',' or ']'": "a `,` or the closing `]` is missing before this",
    "expected ',' or '}'": "a `,` or the closing `}` is missing before this",
    "found unknown escape character": "a `\\` in double quotes begins an escape; use single quotes, or write `\\\\`",
    "document start>": "this does not belong to what stands before it",
    "node content": "a value is missing before this, or this does not belong here",
}


def _explain(error: yaml.MarkedYAMLError, text: str) -> tuple[int, int, str]:
    """Line and column (from 1) of a syntax error of PyYAML or libyaml, which differ in wording, and what is wrong."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    problem, context = error.problem or "not YAML", error.context or ""
    lines = [*_BREAK.split(text), *[""] * (line + 2)]  # so that each mark has a line, also at the end
    tab = _indent(lines[line]).find("\t")
    if tab >= 0:
        return line + 1, tab + 1, "a tab can't indent YAML; use spaces"
    if "quoted scalar" in context and error.context_mark and "end of stream" in problem:
        return error.context_mark.line + 1, error.context_mark.column + 1, "this quote is not closed"
    at_end = not error.problem_mark or "\n".join([lines[line][column:], *lines[line + 1 :]]).strip() == ""
    if "flow" in context and error.context_mark and at_end:
        opener = lines[error.context_mark.line][error.context_mark.column :][:1]
        if opener in "[{":
            return error.context_mark.line + 1, error.context_mark.column + 1, f"this {opener!r} is not closed"
    if "cannot start any token" in problem:
        character = lines[line][column : column + 1]
        return line + 1, column + 1, f"YAML syntax: a value can't begin with {character!r}; put it in quotes"
    if problem.startswith(_AFTER_NO_COLON) and (place := _without_colon(lines, line)):
        return *place, f"YAML syntax: {_NO_COLON}"
    if "flow" in context and (match := _UNQUOTED_REFERENCE.search(lines[line])):
        message = 'within { } or [ ] a `${...}` stands in quotes: "${...}"'
        return line + 1, match.start(1) + 1, f"YAML syntax: {message}"
    for words, remedy in _REMEDIES.items():
        if words in problem:
            opener = error.context_mark
            if words == "could not find expected ':'" and opener:
                line, column = opener.line, opener.column
            elif "flow" in context and opener and opener.line < line:
                remedy += f"; the bracket was opened in line {opener.line + 1}, column {opener.column + 1}"
            return line + 1, column + 1, f"YAML syntax: {remedy}"
    return line + 1, column + 1, f"YAML syntax: {problem}" + (f" {context}" if context else "")


def _without_colon(lines: list[str], line: int) -> tuple[int, int] | None:
    """Line and column (from 1) of the first of the lines right above `line` (from 0) that have no `key:`."""
    allowed = len(_indent(lines[line]))
    place = None
    for number in range(line - 1, -1, -1):
        content = lines[number].strip()
        if not content or content.startswith("#"):
            continue
        column = lines[number].index(content)
        if column > allowed or not _PLAIN_LINE.fullmatch(content):
            break
        place = number + 1, column + 1
    return place


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]
