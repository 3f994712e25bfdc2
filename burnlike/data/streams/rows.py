"""Rows of JSON lines and of Parquet in shards, one after the other and by index; and windows of their tokens."""

import gzip
import math
import zlib
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec
import torch
from torch import Tensor
from torch.utils.data import default_collate

from ..._regular_file import open_regular
from ...errors import DataError, nearest
from ..configs import NO_TARGET
from ..sources.parquet import group_sizes, parquet_file, parquet_rows, python_type, read_group
from ..sources.table_cells import EXACT, LARGEST, shown
from ..sources.tokens import expect_known
from .files import OpenFiles, Shard

_LONGEST_LINE = 2**28
_decode = msgspec.json.Decoder().decode


class Damaged(NamedTuple):
    """A problem with a row."""

    message: str


def values_of(shard: Shard, columns: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    """The place of each row, `\\0` standing for the path, and its columns, or what is wrong with it."""
    if shard.kind != "parquet":
        return _json_values(shard, columns)
    file = parquet_file(shard.path)
    names = known_columns(shard.path, file, columns)
    return ((f"\0: row {number}", row) for number, row in parquet_rows(shard.path, file, names))


def _json_values(shard: Shard, columns: Sequence[str] | None) -> Iterator[tuple[str, Any]]:
    number = 0
    try:
        with open_regular(shard.path) as file:
            opened: Any = gzip.GzipFile(fileobj=file) if shard.path.suffix == ".gz" else file
            # Bounded: a binary file without an end of line would be read whole.
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
        row = _decode(line.removeprefix(b"\xef\xbb\xbf"))  # the mark that UTF-8 of Windows begins with
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


def known_columns(path: Path, file: Any, columns: Sequence[str] | None) -> list[str] | None:
    names = file.schema_arrow.names
    missing = next((column for column in columns or () if column not in names), None)
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
        # By piece: a row group of Parquet is decoded as a whole, whatever is taken of it.
        wanted.setdefault(bisect_right(ends, index), []).append(place)
    rows: list[Any] = [None] * len(indices)
    for number, places in wanted.items():
        begin = ends[number - 1] if number else 0
        for place, row in zip(places, read(number, [indices[it] - begin for it in places]), strict=True):
            rows[place] = row
    return rows


_LINES_OF_BLOCK = 1024
_COUNTED_BYTES = 2**20
_VERSION = 2


class ColumnType(NamedTuple):
    """The type of the values of a column, or of what its lists have: the same in each batch.

    Attributes:
        name: in messages.
        types: of Python, that values may have.
        dtype: of the tensors; None of text.
    """

    name: str
    types: frozenset[type]
    dtype: torch.dtype | None

    def problem(self, value: Any) -> str:
        """The reason why a value does not fit; empty where it does."""
        leaves = [value] if self.dtype is None else _leaves(value)
        if not self.types.issuperset(map(type, leaves)):
            wrong = next(it for it in leaves if type(it) not in self.types)
            return (
                f"expected {self.name}, the type of the column in the first {_LINES_OF_BLOCK:,} lines, or in the schema"
                f" of Parquet, got {shown(wrong)}; Parquet keeps one type for each column"
            )
        if self.dtype is not torch.float32 or max(map(abs, leaves), default=0) <= EXACT:
            return ""
        for number in leaves:
            if _INFINITE <= abs(number) < math.inf:
                return f"expected a number up to {LARGEST:.3g}, the largest of float32, got {shown(number)}"
            if type(number) is int and torch.tensor(float(number), dtype=torch.float32).item() != number:
                return (
                    f"expected whole numbers up to {EXACT:,}, as the column has fractions and is float32, got {number};"
                    " subtract or divide, or write ids to a column of their own"
                )
        return ""


_INFINITE = 2.0**128 - 2.0**103
"""From this on float32 rounds to infinity."""

_TEXT = ColumnType("text", frozenset({str}), None)
_INTS = ColumnType("whole numbers", frozenset({int}), torch.int64)
_FLOATS = ColumnType("numbers", frozenset({int, float}), torch.float32)
_BY_TYPE = {str: _TEXT, bool: ColumnType("truth values", frozenset({bool}), torch.bool), int: _INTS, float: _FLOATS}


def _leaves(value: Any) -> list[Any]:
    """The values in lists of lists; of anything else itself."""
    leaves = value if isinstance(value, list) else [value]
    while list in map(type, leaves):
        leaves = [leaf for it in leaves for leaf in (it if type(it) is list else [it])]
    return leaves


def _type_of(value: Any) -> ColumnType | None:
    types = {*map(type, _leaves(value))}
    column_type = _FLOATS if types == {int, float} else _BY_TYPE.get(types.pop()) if len(types) == 1 else None
    return None if column_type is _TEXT and not isinstance(value, str) else column_type


class RowSource:
    """Rows of several shards by index: mappings of the columns, or with two chosen columns pairs."""

    def __init__(
        self, shards: Sequence[Shard], columns: Sequence[str], window_bytes: int, types: dict[str, ColumnType]
    ) -> None:
        """Index the shards; a DataError if one can't be read.

        Args:
            types: of the columns, one mapping for all sources, which adds what its own rows say.
        """
        self.columns = tuple(columns)
        self.types = types
        self.vocab_size: int | None = None  # rows have no tokens
        opened = OpenFiles()
        self._groups = _Groups(window_bytes)
        self._shards = [
            _ParquetRows(shard, self.columns, types, self._groups)
            if shard.kind == "parquet"
            else _JsonRows(shard, self.columns, types, opened)
            for shard in shards
        ]
        self._shards = [shard for shard in self._shards if len(shard)]
        self._ends = [*accumulate(map(len, self._shards))]
        if not self._shards:
            raise DataError(f"{shards[0].path.parent}: expected shards with rows, got {len(shards)} without any")
        lines = (row for it in shards if it.kind != "parquet" for _, row in values_of(it, self.columns))
        for row in islice(lines, _LINES_OF_BLOCK):
            for name in self.columns:
                _add_type(types, name, None if isinstance(row, Damaged) else _type_of(row[name]))

    def __len__(self) -> int:
        return self._ends[-1]

    def blocks(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        edges, costs = [], []
        for shard, end in zip(self._shards, self._ends, strict=True):
            begin = end - len(shard)
            for start, stop, cost in shard.blocks():
                start, stop = max(first, begin + start), min(last, begin + stop)
                if start < stop:
                    edges.append(start)
                    costs.append(cost)
        return torch.tensor([*edges, last]), torch.tensor(costs)

    def read(self, indices: Sequence[int]) -> list[Any]:
        return gathered(indices, self._ends, lambda number, inside: self._shards[number].read(inside))

    def item(self, row: Any) -> Any:
        """A row with tensors for numbers and for lists of them."""
        return self._pair({name: self._column(name, [it])[0] if name in self.types else it for name, it in row.items()})

    def collate(self, rows: Sequence[Any]) -> Any:
        """A batch of rows: numbers as a tensor for each column, text as lists."""
        return self._pair({name: self._column(name, [row[name] for row in rows]) for name in rows[0]})

    def _pair(self, row: dict[str, Any]) -> Any:
        return tuple(row[column] for column in self.columns) if len(self.columns) == 2 else row

    def _column(self, name: str, values: list[Any]) -> Any:
        if name not in self.types:
            raise DataError(f"column '{name}': expected text, numbers or lists of numbers, got {shown(values[0])}")
        if self.types[name].dtype is None:
            return values
        try:
            return torch.tensor(values, dtype=self.types[name].dtype)
        except (TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"column '{name}': expected numbers, or lists of numbers of one length: {error}") from error


def _add_type(types: dict[str, ColumnType], name: str, added: ColumnType | None) -> None:
    """Add the type that values have, if none is known; whole numbers become numbers where others have fractions."""
    if added is not None and (name not in types or (types[name] is _INTS and added is _FLOATS)):
        types[name] = added


def _problem(row: Any, columns: Sequence[str], types: Mapping[str, ColumnType]) -> str:
    """The reason why a row can't be used; empty where each column has a value of its type."""
    if isinstance(row, Damaged):
        return row.message
    for name in columns:
        problem = types[name].problem(row[name]) if name in types and row[name] is not None else ""
        if row[name] is None or problem:
            return f"'{name}': {problem or 'expected a value, got none'}"
    return ""


class _JsonRows:
    """JSON lines by the places of their beginnings, which are found once and kept in the cache."""

    def __init__(self, shard: Shard, columns: Sequence[str], types: dict[str, ColumnType], opened: OpenFiles) -> None:
        if shard.path.suffix == ".gz":
            raise DataError(
                f"{shard.path}: a compressed file has no places to go to: unpack it first (gunzip '{shard.path}'), or"
                " write Parquet. Text that becomes tokens may be compressed"
            )
        self._shard, self._columns, self._types, self._open = shard, columns, types, opened
        directory = shard.made("lines", _VERSION, lambda it: _write_lines(it, shard))
        assert directory is not None  # it was waited for
        self._index = directory / "places"
        self._count = self._index.stat().st_size // 8 - 1

    def __len__(self) -> int:
        return self._count

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        mean = math.ceil(self._shard.status[0] / max(1, self._count))
        for start in range(0, self._count, _LINES_OF_BLOCK):
            stop = min(self._count, start + _LINES_OF_BLOCK)
            yield start, stop, (stop - start) * mean

    def read(self, indices: Sequence[int]) -> list[Any]:
        rows = []
        for index in indices:
            places = memoryview(self._open.read(self._index, index * 8, 16)).cast("q")
            line = self._open.read(self._shard.path, places[0], places[1] - places[0], self._shard.status)
            row = object_of(line, self._columns)
            if problem := _problem(row, self._columns, self._types):
                raise DataError(f"{self._shard.path}:{self._line(places[0])}: {problem}")
            rows.append({name: row[name] for name in self._columns})
        return rows

    def _line(self, place: int) -> int:
        """The number of the line that begins at a place, counted from 1."""
        number = 1
        for start in range(0, place, _COUNTED_BYTES):
            number += self._open.read(self._shard.path, start, min(_COUNTED_BYTES, place - start)).count(b"\n")
        return number


def _write_lines(directory: Path, shard: Shard) -> None:
    """Write the bytes at which lines begin that are not empty, and that at which the last ends."""
    import numpy

    size = begin = 0
    try:
        with open_regular(shard.path) as file, (directory / "places").open("wb") as places:
            while piece := file.read(_COUNTED_BYTES):
                ends = numpy.flatnonzero(numpy.frombuffer(piece, numpy.uint8) == ord("\n")) + size + 1
                starts = numpy.concatenate([[begin], ends[:-1]]) if len(ends) else ends
                has_text = ends - starts > 2  # more than the end of a line
                places.write(starts[has_text].astype("<i8").tobytes())
                begin, size = (int(ends[-1]) if len(ends) else begin), size + len(piece)
            if size > begin:
                places.write(begin.to_bytes(8, "little"))
            places.write(size.to_bytes(8, "little"))
    except OSError as error:
        raise DataError(f"{shard.path} can't be read: {error.strerror}") from error


class _ParquetRows:
    """Rows of a Parquet file, read by row groups."""

    def __init__(self, shard: Shard, columns: Sequence[str], types: dict[str, ColumnType], groups: "_Groups") -> None:
        file = parquet_file(shard.path)
        known_columns(shard.path, file, columns)
        self._shard, self._columns, self._types, self._read = shard, columns, types, groups
        for name, kind in zip(file.schema_arrow.names, file.schema_arrow.types, strict=True):
            if name in columns:
                _add_type(types, name, _BY_TYPE.get(python_type(kind)))
        sizes = group_sizes(shard.path, file, columns)
        self._sizes, self._costs = [rows for rows, _ in sizes], [cost for _, cost in sizes]
        self._ends = [*accumulate(self._sizes)]
        file.close()

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def blocks(self) -> Iterator[tuple[int, int, int]]:
        for size, end, cost in zip(self._sizes, self._ends, self._costs, strict=True):
            yield end - size, end, cost

    def read(self, indices: Sequence[int]) -> list[Any]:
        rows = gathered(indices, self._ends, self._of_group)
        for index, row in zip(indices, rows, strict=True):
            if problem := _problem(row, self._columns, self._types):
                raise DataError(f"{self._shard.path}: row {index + 1}: {problem}")
        return [{name: row[name] for name in self._columns} for row in rows]

    def _of_group(self, group: int, inside: list[int]) -> list[Any]:
        return self._read.table(self._shard, group, self._columns).take(inside).to_pylist()


class _Groups:
    """Row groups in memory, those that were read last: two windows of them, and at least one."""

    def __init__(self, window_bytes: int) -> None:
        self._most = 2 * window_bytes
        self._tables: OrderedDict[Any, Any] = OrderedDict()

    def __reduce__(self) -> Any:
        return _Groups, (self._most // 2,)

    def table(self, shard: Shard, group: int, columns: Sequence[str]) -> Any:
        key = shard.path, group
        shard.expect_unchanged()
        if key in self._tables:
            self._tables.move_to_end(key)
            return self._tables[key]
        file = parquet_file(shard.path)
        table = read_group(shard.path, file, group, columns)
        file.close()
        shard.expect_unchanged()
        self._tables[key] = table
        while len(self._tables) > 1 and sum(it.nbytes for it in self._tables.values()) > self._most:
            self._tables.popitem(last=False)
        return table


BEGINS, COUNTS, PADS = 1, 2, 4
"""Marks of a token: it is the first of its document; it is predicted; it fills a row up."""

Documents = Literal["joined", "packed", "one"]
"""What a window has: tokens without documents, several documents, or one, with padding behind it."""

_BLOCK_BYTES = 2**17


class Numbers(NamedTuple):
    """Whole numbers in a file.

    Attributes:
        start: byte of the first.
        length: how many there are.
        marks: a file with a byte for each, of `BEGINS` and `COUNTS`; None where there are no documents.
        status: size and time of the file; None where it does not change.
    """

    path: Path
    dtype: str
    start: int
    length: int
    marks: Path | None = None
    status: tuple[int, int] | None = None


class WindowSource:
    """Windows of `size` tokens that begin at every `stride`-th, through all files.

    Items are `[size]` int64 tokens; with marks mappings of `input_ids`, `labels` and, of several documents,
    `position_ids`, int64 without what fills a row up.

    Attributes:
        vocab_size: a token that is not below it is an error; None leaves that to the model.
    """

    def __init__(self, files: Sequence[Numbers], size: int, stride: int, *, documents: Documents, name: str) -> None:
        """Raise DataError if there are too few tokens for one window."""
        self.files = [file for file in files if file.length]
        self.size, self.stride = size, stride
        self.documents: Documents = documents
        self.vocab_size: int | None = None
        self._ends = [*accumulate(file.length for file in self.files)]
        self._open = OpenFiles()
        if not self._ends or self._ends[-1] < size:
            count = self._ends[-1] if self._ends else 0
            raise DataError(f"{name}: expected at least {size} tokens for one window, got {count}")

    def __len__(self) -> int:
        return (self._ends[-1] - self.size) // self.stride + 1

    def blocks(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        import numpy

        window_bytes = self.stride * numpy.dtype(self.files[0].dtype).itemsize
        count = max(1, _BLOCK_BYTES // window_bytes)
        edges = torch.cat([torch.arange(first, last, count), torch.tensor([last])])
        return edges, edges.diff() * window_bytes

    def read(self, indices: Sequence[int]) -> list[Any]:
        return [self._window(index * self.stride) for index in indices]

    def item(self, row: Any) -> Any:
        return row

    def collate(self, rows: Sequence[Any]) -> Any:
        return default_collate([*rows])

    def _window(self, first: int) -> Any:
        tokens, marks = [], []
        place, start, left = bisect_right(self._ends, first), first, self.size
        while left:
            file = self.files[place]
            inside = start - (self._ends[place] - file.length)
            count = min(left, file.length - inside)
            tokens.append(self._numbers(file, inside, count))
            if self.documents != "joined":
                marks.append(torch.frombuffer(bytearray(self._open.read(file.marks, inside, count)), dtype=torch.uint8))  # pyright: ignore[reportArgumentType]
            place, start, left = place + 1, start + count, left - count
        joined = torch.cat(tokens)
        return _item(joined, torch.cat(marks), self.documents) if marks else joined

    def _numbers(self, file: Numbers, first: int, count: int) -> Tensor:
        import numpy

        dtype = numpy.dtype(file.dtype)
        data = self._open.read(file.path, file.start + first * dtype.itemsize, count * dtype.itemsize, file.status)
        tokens = torch.from_numpy(numpy.frombuffer(data, dtype).astype("int64"))
        expect_known(tokens, self.vocab_size, file.path, first)
        return tokens


def _item(tokens: Tensor, marks: Tensor, documents: Documents) -> dict[str, Tensor]:
    """The mapping for a window.

    Its `labels` are `NO_TARGET` where a document begins and where nothing is predicted; `position_ids` begin at 0 with
    each document.

    Args:
        tokens: `[n]` int64.
        marks: `[n]` uint8.
    """
    length = int((marks & PADS == 0).sum())
    tokens, marks = tokens[:length], marks[:length]
    begins = (marks & BEGINS).bool()
    begins[0] = True
    places = torch.arange(len(tokens))
    starts = torch.where(begins, places, 0).cummax(0).values
    labels = torch.where(begins | ((marks & COUNTS) == 0), NO_TARGET, tokens)
    positions = {"position_ids": places - starts} if documents == "packed" else {}
    return {"input_ids": tokens, "labels": labels, **positions}
