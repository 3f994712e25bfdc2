"""StreamDataset: items of several sources, in an order that is computed on demand."""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ..batching import to_device
from .files import Known
from .order import BlockOrder, Interleave
from .rows import gathered


class Source(Protocol):
    """Items in files, by index.

    Attributes:
        vocab_size: a token that is not below it is an error.
    """

    vocab_size: int | None

    def __len__(self) -> int: ...

    def read(self, indices: Sequence[int]) -> list[Any]:
        """The items at these indices; a DataError with the place if something is damaged."""
        ...

    def item(self, row: Any) -> Any:
        """The item that this becomes."""
        ...

    def collate(self, rows: Sequence[Any]) -> Any:
        """The batch that several become."""
        ...

    def blocks(self, first: int, last: int) -> tuple[Tensor, Tensor]:
        """Blocks of the items from first to last, as of `BlockOrder`: edges and costs."""
        ...


class Part(NamedTuple):
    """The items of a source from one index to another."""

    source: Source
    first: int
    last: int


class StreamDataset:
    """Items of several sources; an index counts through one after the other. `order_of_pass` says which are where.

    With weights, a pass has as many items as the sources together, of which some come more often and others not at
    all; each source goes on in the next pass where it stopped, and every item of it has come before any comes again.
    """

    draws = False

    def __init__(
        self,
        parts: Sequence[Part],
        weights: Sequence[float] | None,
        window_bytes: int,
        fingerprint: Known,
        unreadable: Sequence[str] = (),
    ) -> None:
        """Put sources together.

        Args:
            parts: of one kind.
            weights: of each part; None for every item once in a pass.
            window_bytes: how much is mixed item by item.
            fingerprint: gives the hash of all shards.
            unreadable: the places of damaged rows that were left out when tokens were made, and what is wrong there.
        """
        self.parts = list(parts)
        self.unreadable = tuple(unreadable)
        self._first = self.parts[0].source
        self._sizes = [it.last - it.first for it in parts]
        self._ends = [*accumulate(self._sizes)]
        self._fingerprint = fingerprint
        self._mixture = None if weights is None else Interleave(weights)
        blocks = [it.source.blocks(it.first, it.last) for it in parts]
        moved = [edges - part.first + end - size for (edges, _), part, end, size in self._each(blocks)]
        if self._mixture is not None:
            self._orders = [BlockOrder(it, costs, window_bytes) for it, (_, costs) in zip(moved, blocks, strict=True)]
        else:
            edges = torch.cat([moved[0][:1], *(it[1:] for it in moved)])
            self._orders = [BlockOrder(edges, torch.cat([costs for _, costs in blocks]), window_bytes)]

    def _each(self, blocks: Sequence[Any]) -> Any:
        return zip(blocks, self.parts, self._ends, self._sizes, strict=True)

    @property
    def fingerprint(self) -> str:
        """A hash of the content of the shards, by which a saved position knows them again."""
        return self._fingerprint()

    def changes_since(self, fingerprint: object) -> str:
        """The change of the data since it had this fingerprint, for the end of a sentence."""
        return self._fingerprint.change(fingerprint)

    def expect_vocabulary(self, size: int) -> None:
        """Make tokens that a model of so many doesn't know errors, which name their places."""
        for part in self.parts:
            part.source.vocab_size = size

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, index: int, /) -> Any:
        return self._first.item(self.read([index])[0])

    def order_of_pass(self, seed: int | None, number: int, start: int, stop: int) -> list[int]:
        """The indices at these positions of a pass."""
        if self._mixture is None:
            return self._orders[0].take(seed, number, start, stop).tolist()
        begin = number * len(self)
        sources, counts = self._mixture.take(seed, begin + start, begin + stop)
        indices = torch.empty_like(counts)
        for place, order in enumerate(self._orders):
            chosen = sources == place
            if chosen.any():
                count = counts[chosen]
                indices[chosen] = _passes(order, seed, int(count[0]), int(count[-1]) + 1)
        return indices.tolist()

    def read(self, indices: Sequence[int]) -> list[Any]:
        """The items at these indices, in their order."""
        for index in indices:
            if not 0 <= index < len(self):
                raise IndexError(f"item {index} of {len(self)}")

        def read(number: int, inside: list[int]) -> list[Any]:
            part = self.parts[number]
            return part.source.read([it + part.first for it in inside])

        return gathered(indices, self._ends, read)

    def batch(self, indices: Sequence[int], device: torch.device) -> Any:
        """The items at these indices as one batch on `device`."""
        return to_device(self._first.collate(self.read(indices)), device)


def _passes(order: BlockOrder, seed: int | None, start: int, stop: int) -> Tensor:
    """The items at positions of the endless row of passes."""
    taken, size = [], len(order)
    while start < stop:
        number, first = divmod(start, size)
        last = min(size, first + stop - start)
        taken.append(order.take(seed, number, first, last))
        start += last - first
    return torch.cat(taken)
