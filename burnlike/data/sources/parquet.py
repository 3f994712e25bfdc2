"""Parquet files, by the package pyarrow."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ...errors import DataError

_ROWS_AT_ONCE = 1024
_BUFFER_BYTES = 2**20


def parquet_file(path: Path) -> Any:
    """A Parquet file, of which only the end has been read."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(f"{path}: Parquet needs the package pyarrow: pip install 'burnlike[parquet]'") from error
    try:
        return pyarrow.parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES)
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: expected a whole Parquet file: {error}") from error


def parquet_rows(path: Path, file: Any, columns: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
    """The rows of a file, each with its number from 1; of some columns, or of all."""
    row = 0
    try:
        for group in range(file.metadata.num_row_groups):
            for piece in file.iter_batches(_ROWS_AT_ONCE, [group], columns, use_threads=False):
                for value in piece.to_pylist():
                    row += 1
                    yield row, value
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise DataError(f"{path}: row {row + 1} can't be read: {error}") from error
