"""Rows of JSON lines and of Parquet, one after the other."""

import gzip
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from ..._regular_file import open_regular
from ...errors import DataError, nearest
from ..sources.parquet import parquet_file, parquet_rows
from .files import Shard

_LONGEST_LINE = 2**28
_decode = msgspec.json.Decoder().decode


class Damaged(NamedTuple):
    """A problem with a row."""

    message: str


def values_of(shard: Shard, columns: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    """The place of each row, `\\0` standing for the path, and its columns, or what is wrong with it."""
    return _parquet_values(shard, columns) if shard.kind == "parquet" else _json_values(shard, columns)


def _json_values(shard: Shard, columns: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    number = 0
    try:
        with open_regular(shard.path) as file:
            opened: Any = gzip.GzipFile(fileobj=file) if shard.path.suffix == ".gz" else file
            while line := opened.readline(_LONGEST_LINE):
                number += 1
                if len(line) == _LONGEST_LINE:
                    raise DataError(f"{shard.path}:{number}: expected lines of less than {_LONGEST_LINE >> 20} MiB")
                if not line.isspace():
                    yield f"\0:{number}", object_of(line, columns)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise DataError(
            f"{shard.path}:{number + 1}: the compressed file is damaged or ends in the middle: {error}"
        ) from error
    except OSError as error:
        raise DataError(f"{shard.path} can't be read: {error.strerror}") from error


def object_of(line: bytes, columns: Sequence[str] | None) -> Any:
    try:
        row = _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return Damaged(f"expected one JSON object a line: {error}")
    if not isinstance(row, dict):
        return Damaged(f"expected a JSON object, got {type(row).__name__}")
    for name in columns or ():
        if name not in row:
            return Damaged(f"expected the key '{name}'{_hint(name, [*row])}")
    return row


def _hint(name: str, columns: Sequence[str]) -> str:
    return nearest(name, [*columns]) or f"; there are {', '.join(columns[:20])}"


def _parquet_values(shard: Shard, columns: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    file = parquet_file(shard.path)
    names = known_columns(shard.path, file, columns)
    return ((f"\0: row {number}", row) for number, row in parquet_rows(shard.path, file, names))


def known_columns(path: Path, file: Any, columns: Sequence[str] | None) -> list[str] | None:
    names = file.schema_arrow.names
    missing = next((it for it in columns or () if it not in names), None)
    if missing is not None:
        raise DataError(f"{path}: there is no column '{missing}'{_hint(missing, names)}")
    return None if columns is None else list(columns)


def gathered(indices: Sequence[int], ends: Sequence[int], read: Callable[[int, list[int]], Sequence[Any]]) -> list[Any]:
    """The items at indices that count through several pieces; each piece is read once.

    Args:
        ends: the index after the last of each piece.
        read: of a piece, by its number, what stands at indices inside it.
    """
    wanted: dict[int, list[int]] = {}
    for place, index in enumerate(indices):
        wanted.setdefault(bisect_right(ends, index), []).append(place)
    rows: list[Any] = [None] * len(indices)
    for number, places in wanted.items():
        begin = ends[number - 1] if number else 0
        for place, row in zip(places, read(number, [indices[it] - begin for it in places]), strict=True):
            rows[place] = row
    return rows
