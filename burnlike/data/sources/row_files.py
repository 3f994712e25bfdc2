"""Opens what has rows by its kind: CSV, JSON lines, Parquet, directories of Hugging Face's `datasets`, text streams."""

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

from ...errors import DataError, nearest
from .parquet import columns_with_keys, parquet_file, parquet_rows, without_added_nulls
from .rows import CSV, TABS, CsvFile, Dialect, JsonLinesFile, Row, RowFile

KINDS = {".csv": "csv", ".tsv": "tabs", ".jsonl": "json", ".ndjson": "json", ".parquet": "parquet"}


class ParquetFile:
    """The rows of a Parquet file; `line` counts them from 1."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        return parquet_rows(self.path, parquet_file(self.path))

    def place(self, line: int, column: str) -> str:
        return f"{self.path}: row {line}"


class HuggingFaceRows:
    """The rows of a part of what `save_to_disk` of `datasets` has written; `line` counts them from 1."""

    def __init__(self, path: Path, dataset: Any) -> None:
        self.path = path
        self._dataset = dataset

    def __iter__(self) -> Iterator[tuple[int, Row]]:
        names = {name: it.names for name, it in self._dataset.features.items() if type(it).__name__ == "ClassLabel"}
        with_keys = [name for name in columns_with_keys(self._dataset.data.schema) if name in self._dataset.features]
        for number, row in enumerate(self._dataset.with_format(None), 1):
            # A number of a class has its name here, as -1 stands for none.
            named = {
                name: class_names[row[name]]
                for name, class_names in names.items()
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


def stream_rows(stream: Any, dialect: Dialect | None = None) -> RowFile:
    """The rows of a text stream, which is read to its end, or of its bytes: JSON lines if it begins with a brace, else
    CSV.
    """
    raw = stream if isinstance(stream, bytes) else bytes_of(stream)
    path, lines = Path("standard input"), BytesIO(raw).readlines()
    is_json = raw.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")
    return JsonLinesFile(path, lines) if is_json else CsvFile(path, dialect or CSV, lines)


def bytes_of(stream: Any) -> bytes:
    """The rest of a text stream, as bytes."""
    return stream.buffer.read() if hasattr(stream, "buffer") else stream.read().encode()
