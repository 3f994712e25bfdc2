"""Windows of the tokens of several files, as one long row of them."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.utils.data import default_collate

from ...errors import DataError
from ..configs import NO_TARGET
from ..sources.tokens import expect_known
from .files import OpenFiles

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
        self.files = [it for it in files if it.length]
        self.size, self.stride = size, stride
        self.documents: Documents = documents
        self.vocab_size: int | None = None
        self._ends = [*accumulate(it.length for it in self.files)]
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
