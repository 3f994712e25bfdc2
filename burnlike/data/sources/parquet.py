"""Parquet files, by the package pyarrow."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...errors import DataError

_ROWS_AT_ONCE = 1024
_VALUE_BYTES, _LARGEST_GROUP = 8, 1 << 31
_BUFFER_BYTES = 2**20


def parquet_file(path: Path) -> Any:
    """A Parquet file, of which only the end has been read."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise DataError(f"{path}: Parquet needs the package pyarrow: pip install 'burnlike[parquet]'") from error
    with _naming(f"{path}: expected a whole Parquet file"):
        # With checksums of pages, which pyarrow else passes over: a damaged one may decode to other values.
        file = pyarrow.parquet.ParquetFile(path, buffer_size=_BUFFER_BYTES, page_checksum_verification=True)
        _ = file.schema_arrow  # made now, so that a damaged one fails here
        _expect_rows(sum(_rows_of(file, index) for index in range(file.num_row_groups)), file.metadata.num_rows)
        return file


def parquet_rows(path: Path, file: Any, columns: Sequence[str] | None = None) -> Iterator[tuple[int, Any]]:
    """The rows of a file, each with its number from 1; of some columns, or of all."""
    row = end = 0
    with_keys = [name for name in columns_with_keys(file.schema_arrow) if columns is None or name in columns]
    for group in range(file.metadata.num_row_groups):
        # Without its threads, which a worker that was forked does not have.
        batches = file.iter_batches(_ROWS_AT_ONCE, [group], columns, use_threads=False)
        while True:
            with _naming(f"{path}: row {row + 1} can't be read"):
                piece = next(batches, None)
                values = [] if piece is None else piece.to_pylist()
            if piece is None:
                break
            for value in values:
                row += 1
                yield row, without_added_nulls(value, with_keys)
        end += _rows_of(file, group)
        with _naming(f"{path}: row {row + 1} can't be read"):
            _expect_rows(row, end)


def group_sizes(path: Path, file: Any, columns: Sequence[str]) -> list[tuple[int, int]]:
    """The rows of each row group, and the bytes of some columns in it before they were compressed."""
    leaves = _leaves(file, columns)
    arrays = []
    for group in range(file.num_row_groups):
        if all(file.schema.column(leaf).max_repetition_level == 0 for leaf in leaves):
            # `column`, below, ends the process where the metadata is damaged, which reading a row finds out.
            with _naming(f"{path}: row group {group} can't be read"):
                next(file.iter_batches(1, [group], [*columns], use_threads=False), None)
        about = file.metadata.row_group(group)
        arrays.append((about.num_rows, sum(about.column(leaf).total_uncompressed_size for leaf in leaves)))
    return arrays


def read_group(path: Path, file: Any, group: int, columns: Sequence[str]) -> Any:
    """The table of some columns of a row group; a DataError if it can't be read, or takes too much memory."""
    import pyarrow

    about, leaves = file.metadata.row_group(group), _leaves(file, columns)
    if _VALUE_BYTES * sum(about.column(leaf).num_values for leaf in leaves) > _LARGEST_GROUP:
        raise _too_large(path, group)  # of one value that comes again and again, which takes a few bytes in the file
    pieces, size = [], 0
    with _naming(f"{path}: row group {group} can't be read"):
        if all(file.schema.column(leaf).physical_type != "BYTE_ARRAY" for leaf in leaves):
            table = file.read_row_group(group, columns=[*columns], use_threads=False)
            _expect_rows(table.num_rows, about.num_rows)
            return table
        for piece in file.iter_batches(_ROWS_AT_ONCE, [group], [*columns], use_threads=False):
            pieces.append(piece)
            size += piece.nbytes
            if size > _LARGEST_GROUP:
                raise _too_large(path, group)
        _expect_rows(sum(it.num_rows for it in pieces), about.num_rows)
        return pyarrow.Table.from_batches(pieces).combine_chunks()


def _leaves(file: Any, columns: Sequence[str]) -> list[int]:
    """The numbers of the columns of plain values that some columns are made of."""
    return [index for index in range(len(file.schema)) if file.schema.column(index).path.split(".")[0] in columns]


def _rows_of(file: Any, group: int) -> int:
    return file.metadata.row_group(group).num_rows


def _expect_rows(count: int, expected: int) -> None:
    if count != expected:
        raise ValueError(f"it has {count} rows and says that it has {expected}: it is damaged")


def _too_large(path: Path, group: int) -> DataError:
    return DataError(
        f"{path}: row group {group} takes more than {_LARGEST_GROUP >> 20} MiB of memory; write the file with smaller"
        " row groups"
    )


@contextmanager
def _naming(what: str) -> Iterator[None]:
    """Make a DataError of whatever pyarrow raises for damaged files."""
    from pyarrow.lib import ArrowException

    try:
        yield
    except DataError:
        raise
    except (ArrowException, OSError, ValueError, MemoryError) as error:  # a ValueError is text that is no UTF-8
        raise DataError(f"{what}: {' '.join(str(error).split()) or type(error).__name__}") from error


def columns_with_keys(schema: Any) -> list[str]:
    """The columns of an Arrow schema that have structs, at any depth."""
    import pyarrow.types as types

    def has_keys(kind: Any) -> bool:
        return types.is_struct(kind) or any(has_keys(kind.field(index).type) for index in range(kind.num_fields))

    return [it.name for it in schema if has_keys(it.type)]


def python_type(kind: Any) -> Any:
    """The type of the values of an Arrow type, or of the numbers in its lists; None of dates, structs and the like."""
    import pyarrow.types as types

    kinds = ((bool, types.is_boolean), (int, types.is_integer), (float, types.is_floating))
    is_list = False
    while types.is_nested(kind) and hasattr(kind, "value_type"):
        is_list, kind = True, kind.value_type
    kind = getattr(kind, "value_type", kind)  # of a dictionary
    if types.is_string(kind) or types.is_large_string(kind):
        return None if is_list else str
    return next((it for it, fits in kinds if fits(kind)), None)


def without_added_nulls(row: Mapping[str, Any], with_keys: Sequence[str]) -> Mapping[str, Any]:
    """A row without the keys of its structs that are null: Arrow gives each struct the keys of all others."""
    return {**row, **{name: _without_nulls(row[name]) for name in with_keys}} if with_keys else row


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(it) for name, it in value.items() if it is not None}
    return [_without_nulls(it) for it in value] if isinstance(value, list) else value
