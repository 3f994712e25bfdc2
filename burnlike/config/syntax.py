"""Explains YAML syntax errors: says what to change."""

import re

import yaml

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
    """Line and column (from 1) of a syntax error, and what is wrong with the remedy.

    Args:
        error: what PyYAML or libyaml raised; the two differ in wording.
    """
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
