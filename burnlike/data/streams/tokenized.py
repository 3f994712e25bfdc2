"""The rows of a shard as tokens in a file, made once: piece by piece, whatever the size of the shard."""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ..._regular_file import read_regular
from ..sources.rows import pieces
from .encoders import Encoder
from .files import Shard
from .rows import Damaged, values_of
from .windows import Numbers

_VERSION = 2
_QUIET_S = 5.0


class Tokenized(NamedTuple):
    """A shard as tokens, and for each row that is damaged its place and what is wrong."""

    numbers: Numbers
    unreadable: list[str]


def tokenized(shards: Sequence[Shard], encoder: Encoder, *, has_marks: bool) -> list[Tokenized]:
    """The tokens of each shard, from the cache or made now; processes that do the same share the work.

    Raises:
        DataError: a shard can't be read to its end.
    """
    progress = _Progress(len(shards))
    parts = [_of_shard(it, encoder, progress, has_marks=has_marks, waits=False) for it in shards]
    for place, shard in enumerate(shards):
        if parts[place] is None:  # another process was making it
            parts[place] = _of_shard(shard, encoder, progress, has_marks=has_marks, waits=True)
    return [it for it in parts if it is not None]


def _of_shard(
    shard: Shard, encoder: Encoder, progress: "_Progress", *, has_marks: bool, waits: bool
) -> Tokenized | None:
    facts = (_VERSION, shard.kind, encoder.facts, encoder.columns, has_marks)
    progress.shard += not waits
    place = shard.made("tokens", facts, lambda it: _write(it, shard, encoder, has_marks, progress), waits=waits)
    if place is None:
        return None
    record = json.loads(read_regular(place / "facts.json"))
    marks = place / "marks" if has_marks else None
    unreadable = [it.replace("\0", str(shard.path)) for it in record["unreadable"]]
    return Tokenized(Numbers(place / "tokens", encoder.dtype, 0, record["tokens"], marks), unreadable)


class _Progress:
    """Says now and then, on stderr, how far it is."""

    def __init__(self, count: int) -> None:
        self.shard, self._count = 0, count
        self._said = time.monotonic()

    def note(self, path: Path, tokens: int) -> None:
        if time.monotonic() - self._said > _QUIET_S:
            self._said = time.monotonic()
            place = f"shard {self.shard} of {self._count}"
            print(f"making tokens: {place}, {tokens:,} of {path}", file=sys.stderr, flush=True)


def _write(directory: Path, shard: Shard, encoder: Encoder, has_marks: bool, progress: _Progress) -> None:
    import numpy

    count, unreadable = 0, []
    with (directory / "tokens").open("wb") as tokens_file, (directory / "marks").open("wb") as marks_file:
        for rows in pieces(values_of(shard, encoder.columns), encoder.rows_at_once):
            encoded = iter(encoder.encode([written for _, written in rows if not isinstance(written, Damaged)]))
            good = []
            for place, value in rows:
                written = value if isinstance(value, Damaged) else next(encoded)
                if isinstance(written, Damaged):
                    unreadable.append(f"{place}: {written.message}")
                elif written is not None:
                    good.append(written)
            for written in encoder.arranged(good):
                tokens_file.write(numpy.asarray(written.tokens, encoder.dtype).tobytes())
                count += len(written.tokens)
                if has_marks:
                    marks_file.write(written.marks)
            progress.note(shard.path, count)
    (directory / "facts.json").write_text(json.dumps({"tokens": count, "unreadable": unreadable}))
