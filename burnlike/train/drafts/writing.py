"""A job as text: keys of YAML, each with the reason for its value."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...config.emit import to_flow

_COMMENTS_AT = 44
_LONGEST = 119
_INDENT = "  "
_MOST_ROWS = 42


class Key(NamedTuple):
    """A key of a job.

    Attributes:
        name: of the key; `-` for an item of a list.
        value: a plain value, which is written in one line, or the keys below it.
        reason: for the value; the comment of its line.
    """

    name: str
    value: "Any | Sequence[Key]"
    reason: str = ""


@dataclass
class Draft:
    """A job for some data.

    Attributes:
        title: of the data, such as its number of rows.
        sections: the keys of the job.
        seen: rows of a table of what the data has, of which the first are names.
        files: what the job needs beside it, such as a tokenizer: contents by name.
        notes: lines for the person who started the command.
        next_steps: commands after the training, where `{run}` is the name of the run and `{data}` that of the data.
    """

    title: str
    sections: list[Key]
    seen: list[tuple[str, ...]]
    files: dict[str, bytes] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    next_steps: tuple[str, ...] = ("burnlike evaluate {run}",)


def job_text(draft: Draft, head: Sequence[str]) -> str:
    """The YAML of a job, below the lines of a comment."""
    lines = [f"# {_one_line(it)}".rstrip() for it in head]
    for key in draft.sections:
        lines += ["", *_written([key], "")]
    return "\n".join(lines) + "\n"


def _written(keys: Iterable[Key], indent: str) -> list[str]:
    lines: list[str] = []
    for key in keys:
        reason = _one_line(key.reason)
        has_keys = isinstance(key.value, list) and key.value and all(isinstance(it, Key) for it in key.value)
        start = f"{indent}-" if key.name == "-" else f"{indent}{to_flow(key.name)}:"
        text = start if has_keys else f"{start} {to_flow(key.value)}"
        beside = f"{text:<{_COMMENTS_AT}}  # {reason}"
        if not reason:
            lines.append(text)
        elif len(beside) <= _LONGEST:
            lines.append(beside)
        else:
            lines += [f"{indent}# {reason}", text]
        if has_keys:
            lines += _written(key.value, indent + _INDENT)
    return lines


def _one_line(text: str) -> str:
    """A text that may come from the data, so that it stays a comment: nothing in it ends a line."""
    return re.sub(r"[^\S ]|[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]", " ", text).rstrip()


def table_text(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table for a terminal, without spaces at their ends; of a long one the first and the last."""
    if len(rows) > _MOST_ROWS:
        left_out = len(rows) - _MOST_ROWS + 1
        more = (f"... {left_out:,} more", *[""] * (len(rows[0]) - 1))
        rows = [*rows[: _MOST_ROWS - 2], more, rows[-1]]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return ["  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def number(count: int, one: str, many: str | None = None) -> str:
    """`1 row`, `1,500 rows`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
