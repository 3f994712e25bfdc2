"""Files with rows of conversations and instructions, by the parts of the data that they are of."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from ..._regular_file import open_regular, read_regular
from ...errors import DataError
from ..sources.rows import KINDS, UNPACKERS, CsvFile, JsonLinesFile, Row, RowFile, row_file, row_parts
from ..sources.splits import existing, visible

SUFFIXES = (*KINDS, ".json")
_NOT_ROWS = ("dataset_infos.json", "dataset_info.json", "state.json", "dataset_dict.json")
_PARTS = {
    "train": "train|training",
    "validation": "validation|valid|val|dev",
    "test": "test|testing|eval|evaluation",
}
"""By which words in the names of files and directories `datasets` knows the parts."""


class Source:
    """A file of rows, or a part of a data set.

    Attributes:
        files: what is read, for the fingerprint.
        root: the folder of the data, out of which no path in a row leads.
    """

    def __init__(self, rows: RowFile, files: list[Path], root: Path | None = None) -> None:
        self.rows, self.files = rows, files
        self.root = self.directory if root is None else root

    @property
    def directory(self) -> Path:
        """The directory that paths in rows are relative to."""
        return self.rows.path if self.rows.path.is_dir() else self.rows.path.parent

    def __iter__(self) -> Iterator[tuple[str, Row]]:
        """The place of each row, such as `chat.jsonl:17`, and what it holds."""
        has_lines = isinstance(self.rows, CsvFile | JsonLinesFile)
        for number, row in self.rows:
            yield f"{self.rows.path}:{number}" if has_lines else self.rows.place(number, ""), row


def sources_of(path: str, field: str) -> dict[str, list[Source]]:
    """The sources below a path, by the part of the data that they belong to: a file is all of `train`.

    Raises:
        DataError: there is nothing, or nothing that can hold conversations.
    """
    root = existing(path, field, "any")
    if root.is_file():
        return {"train": [file_source(root)]}
    if (root / "dataset_dict.json").exists() or (root / "state.json").exists():
        parts = {name or "train": rows for name, rows in row_parts(root).items()}
        return {
            name: [Source(rows, sorted(rows.path.glob("*.arrow")) or sorted(rows.path.parent.glob("*.arrow")))]
            for name, rows in parts.items()
        }
    by_split: dict[str, list[Source]] = {}
    for file in visible(root):
        if file.suffix.lower() in UNPACKERS and Path(file.stem).suffix.lower() in SUFFIXES:
            raise DataError(f"{field}: {file}: expected files that are not compressed; unpack it, or take it out")
        if file.is_file() and file.suffix.lower() in SUFFIXES and file.name not in _NOT_ROWS:
            by_split.setdefault(_part_of(file.relative_to(root)), []).append(file_source(file, root))
    if not by_split:
        raise DataError(f"{field}: the directory {root} has no file of {', '.join(SUFFIXES)}")
    return by_split


def file_source(path: Path, root: Path | None = None) -> Source:
    is_list = path.suffix.lower() == ".json" and _begins_with(path, b"[")
    rows: RowFile = JsonListFile(path) if is_list else row_file(path, kind="json" if path.suffix == ".json" else None)
    return Source(rows, [path], root)


class JsonListFile:
    """A list of JSON objects."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        try:
            rows = json.loads(read_regular(self.path).decode("utf-8-sig"))
        except OSError as error:
            raise DataError(f"{self.path} can't be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            place = f"{self.path}:{getattr(error, 'lineno', 1)}:{getattr(error, 'colno', 1)}"
            raise DataError(f"{place}: expected a list of JSON objects: {error}") from error
        for number, row in enumerate(rows, start=1):
            if not isinstance(row, dict):
                raise DataError(f"{self.place(number, '')}: expected a JSON object, got {type(row).__name__}")
            yield number, row

    def place(self, line: int, column: str) -> str:
        return f"{self.path}: item {line}"


def _begins_with(path: Path, text: bytes) -> bool:
    try:
        with open_regular(path) as file:
            return file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n").startswith(text)
    except OSError as error:
        raise DataError(f"{path} can't be read: {error.strerror}") from error


def _part_of(name: Path) -> str:
    """The part that a file belongs to, by its name or else by those of the directories above it; else `train`."""
    for text in [name.stem, *reversed(name.parts[:-1])]:
        for part, words in _PARTS.items():
            if re.search(rf"(?<![a-z0-9])({words})(?![a-z0-9])", text.lower()):
                return part
    return "train"
