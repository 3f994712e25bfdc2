"""The rows of a shard as tokens in a file, made once: piece by piece, whatever the size of the shard."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from ..._regular_file import read_regular
from .cache import made
from .files import Shard
from .rows import Damaged, values_of
from .windows import BEGINS, COUNTS, Numbers

_VERSION = 1
_ROWS_AT_ONCE = 512
_QUIET_S = 5.0

Value = TypeVar("Value")


class Encoded(NamedTuple):
    """A row as tokens; where it says `counts`, only those are predicted for which it is true."""

    tokens: Sequence[int]
    counts: Sequence[bool] | None = None


class Encoder(Protocol):
    """Makes tokens of rows.

    Attributes:
        columns: what it needs of a row; None is all of it.
        dtype: holds every token.
        facts: what the tokens depend on beside the row, as plain values.
    """

    columns: tuple[str, ...] | None
    dtype: str
    facts: tuple[Any, ...]

    def encode(self, rows: Sequence[Any]) -> list[Encoded | Damaged]:
        """The tokens of each row, or what is wrong with it."""
        ...


class Tokenized(NamedTuple):
    """A shard as tokens, and for each row that is damaged its place and what is wrong."""

    numbers: Numbers
    unreadable: list[str]


def tokenized(shard: Shard, encoder: Encoder, *, has_marks: bool) -> Tokenized:
    """The tokens of a shard, from the cache or made now.

    Raises:
        DataError: the shard can't be read to its end.
    """
    facts = (_VERSION, shard.content(), shard.kind, encoder.facts, encoder.columns, has_marks)
    place = made("tokens", facts, lambda directory: _write(directory, shard, encoder, has_marks))
    said = json.loads(read_regular(place / "facts.json"))
    marks = place / "marks" if has_marks else None
    unreadable = [it.replace("\0", str(shard.path)) for it in said["unreadable"]]
    return Tokenized(Numbers(place / "tokens", encoder.dtype, 0, said["tokens"], marks), unreadable)


def _write(directory: Path, shard: Shard, encoder: Encoder, has_marks: bool) -> None:
    import numpy

    count, unreadable, said = 0, [], time.monotonic()
    with (directory / "tokens").open("wb") as tokens_file, (directory / "marks").open("wb") as marks_file:
        for rows in _pieces(values_of(shard, encoder.columns), _ROWS_AT_ONCE):
            good = [it for it in rows if not isinstance(it[1], Damaged)]
            found = iter(encoder.encode([it[1] for it in good]))
            for place, value in rows:
                it = value if isinstance(value, Damaged) else next(found)
                if isinstance(it, Damaged):
                    unreadable.append(it.said(place))
                    continue
                tokens_file.write(numpy.asarray(it.tokens, encoder.dtype).tobytes())
                count += len(it.tokens)
                if has_marks:
                    marks_file.write(_marks(it))
            if time.monotonic() - said > _QUIET_S:
                said = time.monotonic()
                print(f"making tokens of {shard.path}: {count:,}", file=sys.stderr, flush=True)
        for file in (tokens_file, marks_file):
            file.flush()
            os.fsync(file.fileno())
    (directory / "facts.json").write_text(json.dumps({"tokens": count, "unreadable": unreadable}))


def _marks(row: Encoded) -> bytes:
    marks = bytearray(COUNTS * bool(it) for it in row.counts) if row.counts else bytearray([COUNTS]) * len(row.tokens)
    if marks:
        marks[0] |= BEGINS
    return bytes(marks)


def _pieces(values: Iterable[Value], size: int) -> Iterator[list[Value]]:
    iterator = iter(values)
    while piece := list(islice(iterator, size)):
        yield piece


class TextEncoder:
    """The tokens of a column of text, with a separator after each."""

    def __init__(self, codec: Any, column: str, separator: str, identity: str) -> None:
        self._codec = codec
        self.columns: tuple[str, ...] | None = (column,)
        self._column = column
        self.dtype = dtype_for(codec.vocab_size)
        self.facts: tuple[Any, ...] = ("text", separator, identity)
        self._separator = codec.encode(separator).tolist() if separator else []

    def encode(self, rows: Sequence[Any]) -> list[Encoded | Damaged]:
        column = self._column
        texts = [it[column] if isinstance(it[column], str) else None for it in rows]
        tokens = iter(self._codec.encode_all([it for it in texts if it is not None]))
        return [
            Damaged(f"expected text in '{column}', got {_kind(row[column])}", column)
            if text is None
            else Encoded([*next(tokens), *self._separator])
            for row, text in zip(rows, texts, strict=True)
        ]


class ColumnEncoder:
    """The tokens that a column has already, as lists of whole numbers."""

    dtype = "uint32"

    def __init__(self, column: str) -> None:
        self.columns: tuple[str, ...] | None = (column,)
        self._column = column
        self.facts: tuple[Any, ...] = ("tokens",)

    def encode(self, rows: Sequence[Any]) -> list[Encoded | Damaged]:
        column = self._column
        return [
            Encoded(it[column])
            if _are_tokens(it[column])
            else Damaged(f"expected a list of tokens >= 0 in '{column}', got {_kind(it[column])}", column)
            for it in rows
        ]


def dtype_for(vocab_size: int) -> str:
    """The smallest type that holds so many tokens."""
    return next(it for it, most in (("uint8", 2**8), ("uint16", 2**16), ("uint32", 2**32)) if vocab_size <= most)


def _are_tokens(value: Any) -> bool:
    return isinstance(value, list) and all(type(it) is int and 0 <= it < 2**32 for it in value)


def _kind(value: Any) -> str:
    return "none" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"
