"""A job as text: keys of YAML, each with the reason for its value."""

import csv
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

from ..._regular_file import read_regular
from ..._terminal import table
from ...config.emit import to_flow
from ...data.sources.rows import Dialect, dialect_of, row_file, text_lines
from ...data.sources.table_cells import class_text
from ...errors import DataError

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
    return table(rows)


def number(count: int, one: str, many: str | None = None) -> str:
    """`1 row`, `1,500 rows`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


ROW_FILES = {".csv": "Csv", ".tsv": "Csv", ".jsonl": "JsonLines", ".ndjson": "JsonLines", ".parquet": "Parquet"}
"""The types of data, by the ends of names."""

_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_BINARY_BYTES = 4096


class Place:
    """The places of a job and of its data."""

    def __init__(self, data: Path, job: Path) -> None:
        self.data, self.job = data, job
        self._is_here = Path(os.path.abspath(job)).parent == Path.cwd()

    def written(self, path: Path) -> str:
        """A path as the job names it: whole if the job lies in another folder than the current one."""
        return path.as_posix() if self._is_here else os.path.abspath(path)

    def file(self, ending: str) -> str:
        """The name of a file beside the job."""
        return f"{self.job.stem}.{ending}"

    def beside(self, ending: str) -> str:
        """The path of a file beside the job, as the job names it."""
        return self.written(self.job.parent / self.file(ending))

    def path_keys(self, sheet: "Sheet | None") -> list[Key]:
        """The keys that say where the data is, and how a CSV file is written."""
        dialect = None if sheet is None or sheet.kind != "Csv" else sheet.dialect
        keys = [Key("path", self.written(self.data))]
        if dialect is not None and dialect.delimiter != ",":
            keys.append(Key("delimiter", dialect.delimiter, "between fields"))
        if dialect is not None and dialect.encoding != "utf-8":
            keys.append(Key("encoding", dialect.encoding, "the bytes are not UTF-8"))
        return keys


class Sheet(NamedTuple):
    """The rows of a file.

    Attributes:
        kind: the type of data that reads it: `Csv`, `JsonLines` or `Parquet`.
        dialect: how CSV is written.
        columns: the values of each column.
        partial: columns that are not in every row, of JSON lines.
    """

    path: Path
    kind: str
    dialect: Dialect
    columns: dict[str, list[Any]]
    partial: tuple[str, ...]

    @property
    def row_count(self) -> int:
        return len(next(iter(self.columns.values()), ()))

    def where(self, kept: Sequence[bool]) -> "Sheet":
        """The rows of which it is true."""
        return self._replace(columns={name: [*compress(values, kept)] for name, values in self.columns.items()})

    def texts(self, name: str) -> list[str]:
        """The values of a column as text, empty where there is none."""
        return ["" if it is None or it != it else class_text(it) for it in self.columns[name]]


def read_sheet(path: Path) -> Sheet:
    """Read a file of rows; a DataError says what is wrong with it."""
    kind = ROW_FILES[path.suffix.lower()]
    dialect = Dialect()
    if kind != "Parquet":
        content = text_bytes(path)
        if kind == "Csv":
            dialect = dialect_of(content)
            _check_names(path, dialect)
    rows: Sequence[Mapping[str, Any]] = [row for _, row in row_file(path, dialect, _KINDS[kind])]
    if not rows:
        raise DataError(f"{path}: expected rows below the names of the columns, got none")
    names = list(dict.fromkeys(name for row in rows for name in row))
    partial = tuple(name for name in names if any(name not in row for row in rows))
    columns = {name: [row.get(name) for row in rows] for name in names}
    return Sheet(path, kind, dialect, columns, partial)


_KINDS = {"Csv": "csv", "JsonLines": "json", "Parquet": "parquet"}


def text_bytes(path: Path) -> bytes:
    """The content of a text file; a DataError if it is empty or no text."""
    try:
        content = read_regular(path)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror or error}") from error
    if not content.strip():
        raise DataError(f"{path}: expected data, got an empty file")
    if content.startswith(_UTF_16):
        raise DataError(f"{path}: expected UTF-8, latin-1 or cp1252, got UTF-16; save it as UTF-8")
    if b"\0" in content[:_BINARY_BYTES]:
        raise DataError(f"{path}: expected text, got a file with bytes that no text has; is it of another format?")
    return content


def _check_names(path: Path, dialect: Dialect) -> None:
    lines = text_lines(path, splits_returns=True, encoding=dialect.encoding)
    names = next(csv.reader(lines, delimiter=dialect.delimiter), [])
    if len(names) > 1 and all(map(_is_number, names)):
        raise DataError(
            f"{path}:1:1: expected a first line with the names of the columns, got numbers: {', '.join(names[:5])};"
            " write names above them"
        )
    if "" in names and len(names) > 1:
        column = names.index("") + 1
        raise DataError(
            f"{path}:1: expected a name for each column, column {column} has none; pandas writes its index without one:"
            " use to_csv(index=False), or write a name into the first line"
        )


def _is_number(text: str) -> bool:
    try:
        float(text.strip().replace(",", "."))
    except ValueError:
        return False
    return True
