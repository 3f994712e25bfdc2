"""StreamDataset: items of several sources, in an order that is a function of seed, pass and position.

Blocks of neighbours are permuted over everything; as many of them as fit into a window, one after the other, are mixed
row by row. So a reader stays within a window for a while, and whoever goes to a position computes that window only.
"""

from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from ..batching import to_device
from ..loader import generator_of
from .files import Known
from .rows import gathered

STRETCH = 10_000
"""Positions in which sources have exactly their shares."""

_KEPT = 2


class BlockOrder:
    """A permutation of the items from `edges[0]` to `edges[-1]`, another one for each seed and pass."""

    def __init__(self, edges: Tensor, costs: Tensor, window_bytes: int) -> None:
        """Take blocks.

        Args:
            edges: `[n + 1]` int64, the items at which blocks begin, and the end.
            costs: `[n]` int64, the bytes of each block.
            window_bytes: how much is mixed row by row.
        """
        self.edges = edges
        self.costs = costs
        self.window_bytes = window_bytes
        self._plans: dict[Any, _Plan] = {}
        self._windows: dict[Any, Tensor] = {}

    def __getstate__(self) -> dict[str, Any]:
        # A worker makes its own: orders of many blocks take longer to send.
        return {**self.__dict__, "_plans": {}, "_windows": {}}

    def __len__(self) -> int:
        return int(self.edges[-1] - self.edges[0])

    def take(self, seed: int | None, number: int, start: int, stop: int) -> Tensor:
        """`[stop - start]` int64: the items at these positions of the pass; without a seed in their own order."""
        if seed is None:
            return torch.arange(start, stop) + self.edges[0]
        plan = _kept(self._plans, (seed, number), lambda: self._plan(seed, number))
        taken = []
        while start < stop:
            place = int(torch.searchsorted(plan.ends, start, right=True))
            first = int(plan.ends[place - 1]) if place else 0
            inside = _kept(self._windows, (seed, number, place), lambda it=place: self._window(plan, seed, number, it))
            taken.append(inside[start - first : stop - first])
            start += len(taken[-1])
        return torch.cat(taken) if taken else torch.zeros(0, dtype=torch.int64)

    def _plan(self, seed: int, number: int) -> "_Plan":
        order = torch.randperm(len(self.costs), generator=generator_of("blocks", seed, number))
        ends = torch.cumsum(self.edges.diff()[order], 0)
        window = (torch.cumsum(self.costs[order], 0) - 1).clamp_(min=0) // self.window_bytes
        last = torch.cat([window.diff() != 0, torch.ones(1, dtype=torch.bool)])
        return _Plan(order, ends[last], torch.cat([torch.zeros(1, dtype=torch.int64), last.nonzero().flatten() + 1]))

    def _window(self, plan: "_Plan", seed: int, number: int, place: int) -> Tensor:
        blocks = plan.order[plan.firsts[place] : plan.firsts[place + 1]].tolist()
        rows = torch.cat([torch.arange(int(self.edges[block]), int(self.edges[block + 1])) for block in blocks])
        return rows[torch.randperm(len(rows), generator=generator_of("rows", seed, number, place))]


class _Plan(NamedTuple):
    """The order of blocks in a pass; the positions at which windows end; the first block of each, and the end."""

    order: Tensor
    ends: Tensor
    firsts: Tensor


class Interleave:
    """Maps a position to its source, and to the number of its item there.

    In each stretch of `STRETCH` positions a source has exactly its share, at least 1, evenly spread.
    """

    def __init__(self, weights: Sequence[float]) -> None:
        # Whole shares, by the largest remainders, and at least 1 for each.
        wanted = [weight / sum(weights) * STRETCH for weight in weights]
        counts = [max(1, int(it)) for it in wanted]
        # Rounded down, so that the shares that lost most get what is left.
        by_rest = sorted(range(len(weights)), key=lambda it: counts[it] - wanted[it])
        for place in range(max(0, STRETCH - sum(counts))):
            counts[by_rest[place % len(counts)]] += 1
        while sum(counts) > STRETCH:
            counts[counts.index(max(counts))] -= 1
        self.counts = counts
        self._stretches: dict[Any, tuple[Tensor, Tensor]] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_stretches": {}}

    def take(self, seed: int | None, start: int, stop: int) -> tuple[Tensor, Tensor]:
        """`[stop - start]` int64 each: the sources, and the numbers of the items that were taken of each before."""
        parts = []
        while start < stop:
            stretch, first = divmod(start, STRETCH)
            stretch_order = _kept(self._stretches, (seed, stretch), lambda it=stretch: self._stretch(seed, it))
            last = min(STRETCH, first + stop - start)
            parts.append([it[first:last] for it in stretch_order])
            start += last - first
        sources, numbers = zip(*parts, strict=True)
        return torch.cat(sources), torch.cat(numbers)

    def _stretch(self, seed: int | None, number: int) -> tuple[Tensor, Tensor]:
        generator = None if seed is None else generator_of("mixture", seed, number)
        keys, sources, numbers = [], [], []
        for source, count in enumerate(self.counts):
            inside = (
                torch.full((count,), 0.5)
                if generator is None
                else torch.rand(count, generator=generator, dtype=torch.float32)
            )
            keys.append((torch.arange(count) + inside.double()) / count)
            sources.append(torch.full((count,), source))
            numbers.append(torch.arange(count) + number * count)
        # Stable, as keys of several sources may be equal and each machine is to have one order.
        order = torch.argsort(torch.cat(keys), stable=True)
        return torch.cat(sources)[order], torch.cat(numbers)[order]


def _kept(cache: dict[Any, Any], key: Any, make: Callable[[], Any]) -> Any:
    """The value of the key, made by `make` where it is not there; the last two keys stay."""
    if key not in cache:
        value = make()
        # Threads that make batches share it: a key may be gone by the time that it is dropped.
        for old in [*cache][: len(cache) + 1 - _KEPT]:
            cache.pop(old, None)
        cache[key] = value
    return cache[key]


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
        self._sizes = [part.last - part.first for part in parts]
        self._ends = [*accumulate(self._sizes)]
        self._fingerprint = fingerprint
        self._mixture = None if weights is None else Interleave(weights)
        blocks = [part.source.blocks(part.first, part.last) for part in parts]
        moved = [
            edges - part.first + end - size
            for (edges, _), part, end, size in zip(blocks, self.parts, self._ends, self._sizes, strict=True)
        ]
        if self._mixture is not None:
            self._orders = [BlockOrder(it, costs, window_bytes) for it, (_, costs) in zip(moved, blocks, strict=True)]
        else:
            edges = torch.cat([moved[0][:1], *(it[1:] for it in moved)])
            self._orders = [BlockOrder(edges, torch.cat([costs for _, costs in blocks]), window_bytes)]

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
