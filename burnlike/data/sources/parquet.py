"""Parquet files, by the package pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
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
    row, with_keys = 0, [name for name in columns_with_keys(file.schema_arrow) if columns is None or name in columns]
    try:
        for group in range(file.metadata.num_row_groups):
            for piece in file.iter_batches(_ROWS_AT_ONCE, [group], columns, use_threads=False):
                for value in piece.to_pylist():
                    row += 1
                    yield row, without_added_nulls(value, with_keys)
    except (OSError, ValueError) as error:  # pyarrow's ArrowInvalid is a ValueError
        raise DataError(f"{path}: row {row + 1} can't be read: {error}") from error


def columns_with_keys(schema: Any) -> list[str]:
    """The columns of an Arrow schema that have structs, at any depth."""
    import pyarrow.types as types

    def has_keys(kind: Any) -> bool:
        return types.is_struct(kind) or any(has_keys(kind.field(it).type) for it in range(kind.num_fields))

    return [it.name for it in schema if has_keys(it.type)]


def without_added_nulls(row: Mapping[str, Any], with_keys: Sequence[str]) -> Mapping[str, Any]:
    """A row without the keys of its structs that are null: Arrow gives each struct the keys of all others."""
    return {**row, **{name: _without_nulls(row[name]) for name in with_keys}} if with_keys else row


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(it) for name, it in value.items() if it is not None}
    return [_without_nulls(it) for it in value] if isinstance(value, list) else value
