"""The rows of a shard as tokens in a file, made once: piece by piece, whatever the size of the shard."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple, TypeVar

from ..._regular_file import read_regular
from .cache import made
from .encoders import Encoder
from .files import Shard
from .rows import Damaged, values_of
from .windows import Numbers

_VERSION = 1
_QUIET_S = 5.0

Value = TypeVar("Value")


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
        for rows in _pieces(values_of(shard, encoder.columns), encoder.rows_at_once):
            found = iter(encoder.encode([it for _, it in rows if not isinstance(it, Damaged)]))
            good = []
            for place, value in rows:
                it = value if isinstance(value, Damaged) else next(found)
                if isinstance(it, Damaged):
                    unreadable.append(f"{place}: {it.message}")
                elif it is not None:
                    good.append(it)
            for it in encoder.arranged(good):
                tokens_file.write(numpy.asarray(it.tokens, encoder.dtype).tobytes())
                count += len(it.tokens)
                if has_marks:
                    marks_file.write(it.marks)
            if time.monotonic() - said > _QUIET_S:
                said = time.monotonic()
                print(f"making tokens of {shard.path}: {count:,}", file=sys.stderr, flush=True)
        for file in (tokens_file, marks_file):
            file.flush()
            os.fsync(file.fileno())
    (directory / "facts.json").write_text(json.dumps({"tokens": count, "unreadable": unreadable}))


def _pieces(values: Iterable[Value], size: int) -> Iterator[list[Value]]:
    iterator = iter(values)
    while piece := list(islice(iterator, size)):
        yield piece
