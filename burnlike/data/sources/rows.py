"""Rows of CSV, JSON lines, Parquet, directories of Hugging Face's `datasets` and text streams, opened by their kind.

Each says the place that a value stands at.
"""

import csv
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from io import BytesIO, StringIO
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from ..._regular_file import open_regular
from ...errors import DataError, nearest
from .parquet import columns_with_keys, parquet_file, parquet_rows, without_added_nulls

_DELIMITERS = (",", ";", "\t", "|")
_ENCODINGS = ("utf-8", "cp1252", "latin-1")
"""Delimiters and encodings of CSV files that are tried, in this order: latin-1 has a character for any byte."""
_SEEN_LINES = 200
UNPACKERS = {".zst": "zstd -d", ".bz2": "bunzip2", ".xz": "unxz", ".gz": "gunzip"}
"""Commands that unpack compressed files, by the ends of their names."""

Row = Mapping[str, Any]
Value = TypeVar("Value")


class Dialect(NamedTuple):
    """The delimiter, quotes and encoding of a CSV file.

    Attributes:
        delimiter: between the fields of a row.
        quote: around fields that have delimiters or ends of lines.
        encoding: `utf-8`, with or without a byte order mark, `latin-1` or `cp1252`.
    """

    delimiter: str = ","
    quote: str = '"'
    encoding: str = "utf-8"


CSV, TABS = Dialect(), Dialect("\t")


def dialect_of(content: bytes, expected: Dialect = CSV) -> Dialect:
    """The dialect of CSV: the expected encoding and delimiter where they fit, else others.

    The encoding is the first in which all bytes are text. The delimiter is that by which the first lines have the most
    columns, all of them as many.
    """
    # latin-1, the last of them, reads any bytes.
    encoding = next(it for it in dict.fromkeys((expected.encoding, *_ENCODINGS)) if _is_text(content, it))
    text = content.decode(encoding).removeprefix("\ufeff")
    lines = "".join(text.splitlines(keepends=True)[:_SEEN_LINES])

    def rating(delimiter: str) -> tuple[bool, int]:
        reader = csv.reader(StringIO(lines, newline=""), delimiter=delimiter, quotechar=expected.quote)
        try:
            rows = [it for it in reader if it]
        except csv.Error:
            return False, 0
        # The last of the lines may be the beginning of a row whose quoted text has more.
        widths = {len(row) for row in rows[:-1] or rows}
        return len(widths) == 1, len(rows[0]) if rows else 0

    ratings = {delimiter: rating(delimiter) for delimiter in dict.fromkeys((expected.delimiter, *_DELIMITERS))}
    fitting = {key: columns for key, (is_even, columns) in ratings.items() if is_even and columns > 1}
    # Where no delimiter fits all lines, the error of the reader says which line does not fit the first one.
    counts = fitting or {key: columns for key, (_, columns) in ratings.items()}
    return Dialect(max(counts, key=lambda it: counts[it]), expected.quote, encoding)


def _is_text(content: bytes, encoding: str) -> bool:
    try:
        content.decode(encoding)
    except UnicodeDecodeError:
        return False
    return True


class RowFile(Protocol):
    """A file of rows: iterating gives the line that each begins in, and its values by column."""

    path: Path

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        """Read the file."""
        ...

    def place(self, line: int, column: str) -> str:
        """`path:line:column` of a value, each counted from 1, or of where it is missing; the file is read again."""
        ...


class CsvFile:
    """CSV with a first line of names; of a stream, `content` is what it had.

    Attributes:
        names: of the columns, once a row has been asked for.
    """

    def __init__(self, path: Path, dialect: Dialect = CSV, content: Sequence[bytes] | None = None) -> None:
        self.path = path
        self._dialect = dialect
        self._content = content
        self.names: list[str] = []

    def _lines(self) -> Iterator[str]:
        return text_lines(self.path, self._content, splits_returns=True, encoding=self._dialect.encoding)

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        dialect = self._dialect
        reader = csv.reader(self._lines(), delimiter=dialect.delimiter, quotechar=dialect.quote, strict=True)
        line = 1
        try:
            self.names = head = next(reader, [])
            seen: set[str] = set()
            for place, name in enumerate(head):
                if name in seen:
                    raise DataError(
                        f"{self._at(1, place)}: expected a name of its own for each column, got '{name}' twice"
                    )
                seen.add(name)
            while True:
                line = reader.line_num + 1
                row = next(reader, None)
                if row is None:
                    return
                if row and len(row) != len(head):
                    raise DataError(
                        f"{self.path}:{line}:1: expected {len(head)} columns, as the first line has, got {len(row)}"
                        f"{delimiter_hint(head)}"
                    )
                if row:
                    yield line, dict(zip(head, row, strict=True))
        except csv.Error as error:
            raise DataError(f"{self.path}:{line}:1: expected UTF-8 CSV with a first line of names: {error}") from error

    def place(self, line: int, column: str) -> str:
        return self._at(line, self.names.index(column)) if column in self.names else f"{self.path}:1:1"

    def _at(self, line: int, index: int) -> str:
        below, column = _field(islice(self._lines(), line - 1, None), index, self._dialect)
        return f"{self.path}:{line + below}:{column}"


def delimiter_hint(names: Sequence[str]) -> str:
    """A hint for a table of one column whose name looks like several."""
    other = next((it for it in (";", "\t", "|") if len(names) == 1 and it in names[0]), None)
    return "" if other is None else f"; is the delimiter {other!r}? say data.delimiter: {json.dumps(other)}"


class JsonLinesFile:
    """One JSON object a line; of a stream, `content` is what it had."""

    def __init__(self, path: Path, content: Sequence[bytes] | None = None) -> None:
        self.path = path
        self._content = content

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        for number, line in enumerate(text_lines(self.path, self._content), start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line.rstrip(), object_pairs_hook=_object)
            except _TwiceError as error:
                name = str(error)
                raise DataError(
                    f"{self.path}:{number}:{_value(line, name, 2)}: expected each key once, got '{name}' twice"
                ) from error
            except (ValueError, RecursionError) as error:
                column, reason = getattr(error, "colno", 1), getattr(error, "msg", error)
                raise DataError(f"{self.path}:{number}:{column}: expected one JSON object a line: {reason}") from error
            if not isinstance(row, dict):
                raise DataError(f"{self.path}:{number}:1: expected a JSON object, got {type(row).__name__}")
            yield number, row

    def place(self, line: int, column: str) -> str:
        text = next(islice(text_lines(self.path, self._content), line - 1, None), "")
        return f"{self.path}:{line}:{_value(text, column)}"


class _TwiceError(ValueError):
    """A JSON object has a key twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise _TwiceError(name)
        values[name] = value
    return values


def text_lines(
    path: Path, content: Sequence[bytes] | None = None, *, splits_returns: bool = False, encoding: str = "utf-8"
) -> Iterator[str]:
    """The lines of text with their ends, without a byte order mark.

    Args:
        content: what stands for the file, if that has been read.
        splits_returns: whether a lone carriage return ends a line.

    Raises:
        DataError: the file can't be read, is not regular, or is not UTF-8.
    """
    try:
        with open_regular(path) if content is None else nullcontext(content) as file:
            number = 0
            for raw in file:
                splits = splits_returns and b"\r" in raw[:-2]
                for line in re.findall(rb"[^\r]*\r\n?|[^\r]+", raw) if splits else [raw]:
                    number += 1
                    yield _decoded(line, path, number, encoding, is_csv=splits_returns)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error


def _decoded(line: bytes, path: Path, number: int, encoding: str, *, is_csv: bool) -> str:
    is_utf_8 = encoding == "utf-8"
    try:
        return line.decode("utf-8-sig" if is_utf_8 and number == 1 else encoding)
    except UnicodeDecodeError as error:
        byte = line[error.start]
        if command := UNPACKERS.get(path.suffix.lower()):
            raise DataError(f"{path}: expected text, got a compressed file; unpack it: {command} {path}") from error
        raise DataError(
            f"{path}:{number}:{error.start + 1}: expected {'UTF-8' if is_utf_8 else encoding}, got the byte"
            f" 0x{byte:02x}; {'say data.encoding, such as cp1252, or ' if is_csv else ''}convert the file"
        ) from error


def _field(lines: Iterable[str], index: int, dialect: Dialect) -> tuple[int, int]:
    """The beginning of the field at `index`: lines below the first, and the column from 1."""
    is_quoted, is_start, below, column = False, True, 0, 1
    for below, line in enumerate(lines):
        for column, character in enumerate(line, start=1):
            if index == 0:
                return below, column
            if character == dialect.quote and (is_quoted or is_start):
                is_quoted = not is_quoted
            elif character == dialect.delimiter and not is_quoted:
                index -= 1
                is_start = True
                continue
            is_start = False
        if index == 0:
            break
    return below, column + 1


def _value(line: str, name: str, occurrence: int = 1) -> int:
    """The column, from 1, of the value that a key has in the JSON object of a line; 1 where it has none."""
    decoder, between = json.JSONDecoder(), re.compile(r"[\s,:]*")

    def after(place: int) -> int:
        return between.match(line, place).end()  # pyright: ignore[reportOptionalMemberAccess] - it may be empty

    place = after(line.index("{") + 1)
    try:
        while line[place] != "}":
            key, place = decoder.raw_decode(line, place)
            place = after(place)
            occurrence -= key == name
            if occurrence == 0:
                return place + 1
            _, place = decoder.raw_decode(line, place)
            place = after(place)
    except (ValueError, IndexError):
        pass
    return 1


def lone_surrogate(value: Any) -> str | None:
    """The first text in plain values that has half of a pair of UTF-16, as JSON may say by `\\ud800` alone; else None.

    It is no text that UTF-8 can write, or a tokenizer read.
    """
    if isinstance(value, str):
        if value.isascii():
            return None
        try:
            value.encode()
        except UnicodeEncodeError:
            return value
        return None
    parts = [*value, *value.values()] if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return next((text for part in parts if (text := lone_surrogate(part)) is not None), None)


NO_TEXT = "expected text, got half of a UTF-16 pair, an escape such as \\ud800 without its other half, in"
"""What messages say of `lone_surrogate`."""


def pieces(values: Iterable[Value], size: int) -> Iterator[list[Value]]:
    """The values in lists of `size`; the last may be shorter."""
    iterator = iter(values)
    while piece := list(islice(iterator, size)):
        yield piece


KINDS = {".csv": "csv", ".tsv": "tabs", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


class ParquetFile:
    """The rows of a Parquet file; `line` counts them from 1."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        return parquet_rows(self.path, parquet_file(self.path))

    def place(self, line: int, column: str) -> str:
        return f"{self.path}: row {line}"


def class_names(features: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """The names of the classes of each column of `datasets` that is a ClassLabel."""
    return {name: it.names for name, it in features.items() if type(it).__name__ == "ClassLabel"}


class HuggingFaceRows:
    """The rows of a part of what `save_to_disk` of `datasets` has written; `line` counts them from 1."""

    def __init__(self, path: Path, dataset: Any) -> None:
        self.path = path
        self._dataset = dataset

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        names = class_names(self._dataset.features)
        with_keys = [name for name in columns_with_keys(self._dataset.data.schema) if name in self._dataset.features]
        for number, row in enumerate(self._dataset.with_format(None), 1):
            # A number of a class has its name here, as -1 stands for none.
            named = {
                name: of_column[row[name]]
                for name, of_column in names.items()
                if row[name] is not None and row[name] >= 0
            }
            yield number, without_added_nulls({**row, **dict.fromkeys(names), **named}, with_keys)

    def place(self, line: int, column: str) -> str:
        return f"{self.path}: row {line}"


def row_file(path: Path, dialect: Dialect | None = None, kind: str | None = None) -> RowFile:
    """A file of rows, of a kind or of what its name ends in.

    Args:
        dialect: of CSV; None: commas, or in a `.tsv` tabs.
        kind: `csv`, `json` or `parquet`, whatever the name is.
    """
    kind = kind or KINDS.get(path.suffix.lower())
    if kind is None:
        endings = ", ".join(KINDS)
        raise DataError(f"{path}: expected a file of rows ({endings}){nearest(path.suffix.lower(), [*KINDS])}")
    if kind == "json":
        return JsonLinesFile(path)
    return ParquetFile(path) if kind == "parquet" else CsvFile(path, dialect or (TABS if kind == "tabs" else CSV))


def row_parts(path: Path, dialect: Dialect | None = None) -> dict[str, RowFile]:
    """The parts of a file or of a directory of `datasets` by their names; of a file, and of one data set, ''."""
    if not path.is_dir():
        return {"": row_file(path, dialect)}
    from .hugging_face import opened

    saved = opened(path)
    parts = saved.items() if isinstance(saved, dict) else [("", saved)]
    return {str(name): HuggingFaceRows(path / str(name), it) for name, it in parts}


def stream_rows(stream: Any, columns: Collection[str], dialect: Dialect | None = None) -> RowFile:
    """The rows of a text stream, which is read to its end, or of its bytes: JSON lines if it begins with a brace, else
    CSV.

    Raises:
        DataError: a single line of CSV names none of the columns, so it is no first line of names.
    """
    raw = stream if isinstance(stream, bytes) else bytes_of(stream)
    path, lines = Path("standard input"), BytesIO(raw).readlines()
    is_json = raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    if is_json:
        return JsonLinesFile(path, lines)
    file = CsvFile(path, dialect or CSV, lines)
    if len(lines) == 1 and next(iter(file), None) is None and not {*columns} & {*file.names}:
        raise DataError(
            f"{path}:1:1: expected rows below a first line with the names of the columns, such as"
            f" {', '.join([*columns][:8])}, or JSON lines; got one line, without these names"
        )
    return file


def bytes_of(stream: Any) -> bytes:
    """The rest of a text stream, as bytes."""
    return stream.buffer.read() if hasattr(stream, "buffer") else stream.read().encode()
