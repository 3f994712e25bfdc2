"""The text of a config's file: read whole, bounded, and only if it is text; what is wrong with its syntax."""

import itertools
import os
import re

import yaml

from burnlike._regular_file import read_regular
from burnlike.errors import ConfigError, ConfigIOError, Problem

from .shipped import shipped_configs

MAX_BYTES = 4 * 2**20
"""Larger files are no configs; a mistaken path to a record of many gigabytes must not be read."""

MAX_DIRECTIVES = 16
"""libyaml compares each directive with all before it: 100,000 take minutes, in which no signal is heard."""

_DIRECTIVE = re.compile("(?:^|[\n\r\x85\u2028\u2029])%")
_FORBIDDEN = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_BYTE_ORDER_MARKS = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")


def read_text(path: "str | os.PathLike[str]") -> str:
    """The text of the file at `path`, UTF-8 with or without a byte order mark, of at most 4 MiB."""
    name = os.fspath(path)
    try:
        data = read_regular(path, MAX_BYTES + 1)
    except IsADirectoryError as error:
        raise _io_error(name, "is a directory; give the path of a YAML file") from error
    except FileNotFoundError as error:
        raise _io_error(name, f"no such file{_beside(name)}") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise _io_error(name, f"can't be read: {reason}") from error
    if len(data) > MAX_BYTES:
        message = f"larger than {MAX_BYTES // 2**20} MiB: not a config"
        raise ConfigError.of([Problem(message, source=name)])
    return _decode(data, name)


def check_characters(text: str, source: str) -> None:
    """Refuse characters that no YAML text may hold, which binary files are full of."""
    if found := _FORBIDDEN.search(text):
        line, column = _position(text[: found.start()])
        message = f"not a text file: it holds the character U+{ord(found[0]):04X}, which YAML does not allow"
        raise ConfigError.of([Problem(message, source=source, line=line, column=column)])


def check_directives(text: str, source: str) -> None:
    """Refuse more directives than a document has use for; of `%YAML` and `%TAG` a config needs none."""
    found = list(itertools.islice(_DIRECTIVE.finditer(text), MAX_DIRECTIVES + 1))
    if len(found) > MAX_DIRECTIVES:
        line, _ = _position(text[: found[-1].end() - 1])
        message = f"more than {MAX_DIRECTIVES} lines that begin with %, which are directives; a config needs none"
        raise ConfigError.of([Problem(message, source=source, line=line, column=1)])


def _decode(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line, column = _position(data[: error.start].decode("utf-8-sig"))
        what = "UTF-16 or UTF-32 text" if data.startswith(_BYTE_ORDER_MARKS) else f"byte 0x{data[error.start]:02x}"
        message = f"not UTF-8 ({what}); save the file as UTF-8"
        raise ConfigError.of([Problem(message, source=name, line=line, column=column)]) from error


def _position(before: str) -> tuple[int, int]:
    """Line and column, from 1, of what follows the text `before`."""
    lines = before.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    return len(lines), len(lines[-1]) + 1


def _beside(name: str) -> str:
    """A hint at a YAML file of nearly the same name in the same directory, or at a shipped config."""
    from burnlike.errors import nearest, nearest_name

    folder, base = os.path.split(name)
    stem, suffix = os.path.splitext(base)
    try:
        files = [other for other in os.listdir(folder or ".") if other.endswith((".yaml", ".yml", suffix or ".yaml"))]
    except OSError:
        return f"; the directory {folder} does not exist either"
    stems = {os.path.splitext(other)[0]: other for other in files}
    if near := nearest_name(stem, set(stems)):
        return f"; did you mean '{stems[near]}'?"
    if base == name and not suffix:
        shipped = [*shipped_configs()]
        return nearest(name, shipped) or f"; shipped configs are {', '.join(shipped)}"
    return "; check the path"


def _io_error(name: str, message: str) -> ConfigIOError:
    problem = Problem(message, source=name)
    return ConfigIOError(str(problem), [problem])


_NO_COLON = "this line is neither `key: value` nor `- item`"
_AFTER_NO_COLON = (
    *("mapping values are not allowed", "did not find expected key", "expected <block end>"),
    *("did not find expected <document start>", "expected '<document start>'"),
)
"""What the parsers say of the line after one in which the colon is missing: they took that for a text."""
_PLAIN_LINE = re.compile(r"[^\s\-\"'\[{}\]&*!|>%@`#?,]((?!:\s| #).)*(?<!:)( #.*)?")

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


def explain(error: yaml.MarkedYAMLError, text: str) -> tuple[int, int, str]:
    """Line and column (from 1) of a syntax error of PyYAML or libyaml, which differ in wording, and what is wrong."""
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    problem, context = error.problem or "not YAML", error.context or ""
    tab = _indent(text, line).find("\t")
    if tab >= 0:
        return line + 1, tab + 1, "a tab can't indent YAML; use spaces"
    if "quoted scalar" in context and error.context_mark and "end of stream" in problem:
        return error.context_mark.line + 1, error.context_mark.column + 1, "this quote is not closed"
    if "flow" in context and error.context_mark and _is_at_end(error, text):
        opener = _character(text, error.context_mark.line, error.context_mark.column)
        if opener in "[{":
            return error.context_mark.line + 1, error.context_mark.column + 1, f"this {opener!r} is not closed"
    if "cannot start any token" in problem:
        character = _character(text, line, column)
        return line + 1, column + 1, f"YAML syntax: a value can't begin with {character!r}; put it in quotes"
    if problem.startswith(_AFTER_NO_COLON) and (found := _without_colon(text, line)):
        return *found, f"YAML syntax: {_NO_COLON}"
    if "flow" in context and (found := _UNQUOTED_REFERENCE.search(text.split("\n")[line])):
        message = 'within { } or [ ] a `${...}` stands in quotes: "${...}"'
        return line + 1, found.start(1) + 1, f"YAML syntax: {message}"
    for known, remedy in _REMEDIES.items():
        if known in problem:
            if known == "could not find expected ':'" and error.context_mark:
                line, column = error.context_mark.line, error.context_mark.column
            return line + 1, column + 1, f"YAML syntax: {remedy}{_opened_above(error, line)}"
    return line + 1, column + 1, f"YAML syntax: {problem}" + (f" {context}" if context else "")


def _opened_above(error: yaml.MarkedYAMLError, line: int) -> str:
    """Where the bracket was opened that is not closed, if that was in a line above (both from 0)."""
    opener = error.context_mark
    if opener is None or "flow" not in (error.context or "") or opener.line >= line:
        return ""
    return f"; the bracket was opened in line {opener.line + 1}, column {opener.column + 1}"


def _without_colon(text: str, line: int) -> tuple[int, int] | None:
    """Line and column (from 1) of the first of the lines right above `line` (from 0) that have no `key:`."""
    lines = text.split("\n")
    allowed = len(_indent(text, line))
    found = None
    for number in range(line - 1, -1, -1):
        content = lines[number].strip()
        if not content or content.startswith("#"):
            continue
        column = lines[number].index(content)
        if column > allowed or not _PLAIN_LINE.fullmatch(content):
            break
        found = number + 1, column + 1
    return found


def _is_at_end(error: yaml.MarkedYAMLError, text: str) -> bool:
    mark = error.problem_mark
    return mark is None or "\n".join(text.splitlines()[mark.line :])[mark.column :].strip() == ""


def _character(text: str, line: int, column: int) -> str:
    lines = text.split("\n")
    return lines[line][column : column + 1] if line < len(lines) else ""


def _indent(text: str, line: int) -> str:
    lines = text.split("\n")
    whole = lines[line] if line < len(lines) else ""
    return whole[: len(whole) - len(whole.lstrip(" \t"))]
