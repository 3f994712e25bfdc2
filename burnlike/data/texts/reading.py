"""Files of rows of text: their parts, and rows of CoNLL and of lines."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from ...errors import DataError
from ..sources.columns import Rows
from ..sources.rows import (
    CSV,
    KINDS,
    TABS,
    Dialect,
    Row,
    RowFile,
    bytes_of,
    row_file,
    row_parts,
    stream_rows,
    text_lines,
)
from ..sources.splits import existing, named_parts
from ..sources.table_cells import cell, shown
from .configs import TaggedWordsConfig, TextRowsConfig, TextsConfig

_CONLL = (".conll", ".txt", ".iob", ".bio", ".iob2")
_NO_SENTENCE = "-DOCSTART-"


class LineFile:
    """Lines of text, those that are not empty, as rows of one column."""

    def __init__(self, path: Path, column: str, content: list[bytes] | None = None) -> None:
        self.path = path
        self._column = column
        self._content = content

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        for number, line in enumerate(text_lines(self.path, self._content), 1):
            if text := line.strip():
                yield number, {self._column: text}

    def place(self, line: int, column: str) -> str:
        return f"{self.path}:{line}"


class ConllFile:
    """Sentences of CoNLL: a word a line with its tag in the last column, and an empty line after each."""

    def __init__(self, path: Path, words: str, tags: str | None) -> None:
        self.path = path
        self._words, self._tags = words, tags

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        words: list[list[str]] = []
        begin = 1
        for number, line in enumerate(text_lines(self.path, None), 1):
            fields = line.split("\t") if "\t" in line else line.split()
            if not line.strip() or fields[0].startswith(_NO_SENTENCE):
                if words:
                    yield begin, self._row(words)
                words = []
                continue
            if self._tags is not None and len(fields) == 1:
                raise DataError(f"{self.path}:{number}: expected a word and its tag, got {shown(line.strip())}")
            if self._tags is None and words and len(fields) != len(words[0]):
                raise DataError(
                    f"{self.path}:{number}: expected a word a line, with {len(words[0])} columns as in the line before,"
                    f" got {shown(line.strip())}; sentences, one a line, are read from standard input (-)"
                )
            begin = begin if words else number
            words.append([it.strip() for it in fields])
        if words:
            yield begin, self._row(words)

    def _row(self, lines: list[list[str]]) -> Row:
        words: dict[str, Any] = {self._words: [it[0] for it in lines]}
        return words if self._tags is None else {**words, self._tags: [it[-1] for it in lines]}

    def place(self, line: int, column: str) -> str:
        return f"{self.path}:{line}"


def parts_of(config: TextRowsConfig) -> dict[str, RowFile]:
    """The files of a data set by their parts: `train`, `validation` if there is one, and others."""
    path = Path(config.path).expanduser()
    root = existing(config.path, "data.path", "directory" if path.is_dir() else "file")
    named_files = _named(config, root)
    if "" in named_files:
        parts = {"train": named_files[""]}
    else:
        train, valid, rest = named_parts(config, named_files, root)
        parts = {"train": train, **({} if valid is None else {"validation": valid}), **rest}
    if config.validation_path is not None:
        place = Path(config.validation_path).expanduser()
        other = existing(config.validation_path, "data.validation_path", "directory" if place.is_dir() else "file")
        named = _named(config, other)
        parts["validation"] = named.get(config.valid_split) or next(iter(named.values()))
    return parts


def _named(config: TextRowsConfig, path: Path) -> dict[str, RowFile]:
    return row_parts(path, _dialect(config, path)) if path.is_dir() else {"": opened(config, path)}


def opened(config: TextRowsConfig, path: Path, *, has_targets: bool = True) -> RowFile:
    """A file by the end of its name."""
    ending = path.suffix.lower()
    knows_conll = has_targets or ending != ".txt" or Path(config.path).suffix.lower() == ".txt"
    if isinstance(config, TaggedWordsConfig) and ending in _CONLL and knows_conll:
        return ConllFile(path, config.tokens, config.tags if has_targets else None)
    if ending == ".txt" and (isinstance(config, TextsConfig) or not has_targets) and len(config.columns) == 1:
        return LineFile(path, config.columns[0])
    return row_file(path, _dialect(config, path))


def streamed(config: TextRowsConfig, stream: Any) -> RowFile:
    """A text stream: JSON lines if it begins with a brace, CSV if its first line names the columns, else lines."""
    raw = bytes_of(stream)
    path, lines = Path("standard input"), BytesIO(raw).readlines()
    dialect = _dialect(config, path) or CSV
    head = lines[0].decode("utf-8-sig", errors="replace").strip() if lines else ""
    names = [it.strip(dialect.quote) for it in head.split(dialect.delimiter)]
    is_table = head.startswith("{") or set(config.columns) <= set(names)
    if is_table or len(config.columns) > 1:
        return stream_rows(raw, dialect)
    return LineFile(path, next(iter(config.columns)), lines)


def _dialect(config: TextRowsConfig, path: Path) -> Dialect | None:
    base = TABS if KINDS.get(path.suffix.lower()) == "tabs" else CSV
    return base._replace(delimiter=config.delimiter or base.delimiter, encoding=config.encoding)


def texts_of(part: Rows, column: str) -> list[str]:
    """The texts of a column."""
    lists = []
    for line, row in part.rows:
        value = cell(part.file, line, row, column)
        if not isinstance(value, str) or not value.strip():
            got = "none" if value is None else shown(value)
            raise DataError(f"{part.file.place(line, column)}: '{column}': expected text, got {got}")
        lists.append(value)
    return lists


def lists_of(part: Rows, column: str) -> list[list[str]]:
    """The lists of a column: of text, the words between spaces."""
    sentences = []
    for line, row in part.rows:
        value = cell(part.file, line, row, column)
        words = value.split() if isinstance(value, str) else value
        if not isinstance(words, list) or not words or not all(isinstance(it, str | int) for it in words):
            wanted = "a list of text, or text with spaces"
            raise DataError(f"{part.file.place(line, column)}: '{column}': expected {wanted}, got {shown(value)}")
        sentences.append([str(it) for it in words])
    return sentences
