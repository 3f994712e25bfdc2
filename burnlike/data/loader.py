"""DataLoader: batches in an order that depends on seed and epoch only, and a position that can be saved."""

import hashlib
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, TypeVar

import torch

from ..errors import DataError
from .dataset import Batcher, Dataset

Item = TypeVar("Item")
Batch = TypeVar("Batch")

PREFETCHED_PER_WORKER = 2


class DataLoader(Generic[Item, Batch]):
    """Hands out the batches of one epoch after the other; each `iter()` goes on where the last one stopped.

    The order is a pure function of `(seed, epoch)`: neither the number of workers nor what was read before plays a
    part. With `steps_per_epoch`, epochs are equal pieces of an endless row of passes, each pass a new permutation, so
    every item is seen equally often whatever the length of an epoch. Without it, an epoch is one pass, and its last
    batch may be smaller.

    Example:
        >>> import torch
        >>> from burnlike.data import DataLoader, InMemDataset
        >>> class Stack:
        ...     def batch(self, items, device):
        ...         return torch.tensor(items, device=device)
        >>> loader = DataLoader(InMemDataset([10, 20, 30]), Stack(), batch_size=2)
        >>> [batch.tolist() for batch in loader]
        [[10, 20], [30]]
        >>> loader.epoch
        1
    """

    def __init__(
        self,
        dataset: Dataset[Item],
        batcher: Batcher[Item, Batch],
        *,
        batch_size: int,
        seed: int | None = None,
        steps_per_epoch: int | None = None,
        device: torch.device | str = "cpu",
        num_workers: int = 0,
    ) -> None:
        """Make a loader at the beginning of epoch 0.

        Args:
            dataset: the items.
            batcher: makes a batch of items.
            batch_size: items of a batch, >= 1.
            seed: of the shuffling; None keeps the order of the dataset.
            steps_per_epoch: batches of an epoch; None is all items once.
            device: where batches are made.
            num_workers: threads that make batches ahead; 0 makes each when it is asked for.

        Raises:
            DataError: there are no items.
            ValueError: a number is out of range.
        """
        if len(dataset) == 0:
            raise DataError("expected a dataset with at least one item, got an empty one")
        for name, value, least in (
            ("batch_size", batch_size, 1),
            ("steps_per_epoch", steps_per_epoch, 1),
            ("num_workers", num_workers, 0),
        ):
            if value is not None and value < least:
                raise ValueError(f"expected {name} >= {least}, got {value}")
        self.dataset = dataset
        self.batcher = batcher
        self.batch_size = batch_size
        self.seed = seed
        self.steps_per_epoch = steps_per_epoch
        self.device = torch.device(device)
        self.num_workers = num_workers
        self.epoch = 0
        self.position = 0
        self._passes: dict[tuple[int | None, int, int], list[int]] = {}

    def __getstate__(self) -> dict[str, Any]:
        """The content of copies and pickles: everything but the orders of passes, which are made again."""
        return {**self.__dict__, "_passes": {}}

    def __len__(self) -> int:
        """Batches of an epoch."""
        return self.steps_per_epoch or -(-len(self.dataset) // self.batch_size)

    def __iter__(self) -> Iterator[Batch]:
        """The batches that are left of the current epoch; the position moves on before each is handed out."""
        steps = range(self.position, len(self))
        if self.num_workers == 0:
            for step in steps:
                yield self._hand_out(self._make_batch(self.epoch, step))
        else:
            yield from self._iterate_ahead(self.epoch, steps)

    def indices(self, epoch: int, step: int) -> list[int]:
        """Indices of the items of one batch."""
        n_items = len(self.dataset)
        if self.steps_per_epoch is None:
            order = self._order(epoch, n_items)
            return order[step * self.batch_size : (step + 1) * self.batch_size]
        taken: list[int] = []
        first = (epoch * self.steps_per_epoch + step) * self.batch_size
        while len(taken) < self.batch_size:
            number, start = divmod(first + len(taken), n_items)
            taken += self._order(number, n_items)[start : start + self.batch_size - len(taken)]
        return taken

    def rewind(self) -> None:
        """Go back to the beginning of epoch 0."""
        self.epoch = self.position = 0

    def state_dict(self) -> dict[str, Any]:
        """The position, and what it is a position in; plain values.

        A dataset that has a `fingerprint`, a hash of its items as a string, is known again by it.
        """
        return {"epoch": self.epoch, "position": self.position, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go to a saved position.

        Raises:
            DataError: it was saved by a loader with other batches; the position is as before.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise DataError(
                    f"the saved loader position is one of other batches: {name} was {state.get(name)}, is {value} now"
                )
        epoch, position = int(state["epoch"]), int(state["position"])
        if epoch < 0 or not 0 <= position < len(self):
            raise DataError(f"the saved loader position does not exist: batch {position} of epoch {epoch}")
        self.epoch, self.position = epoch, position

    def _identity(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "batch_size": self.batch_size,
            "steps_per_epoch": len(self),
            "num_items": len(self.dataset),
            "fingerprint": getattr(self.dataset, "fingerprint", None),
        }

    def _iterate_ahead(self, epoch: int, steps: range) -> Iterator[Batch]:
        ahead: deque[Future[Batch]] = deque()
        with ThreadPoolExecutor(self.num_workers, thread_name_prefix="DataLoader") as pool:
            try:
                for step in steps:
                    ahead.append(pool.submit(self._make_batch, epoch, step))
                    if len(ahead) > self.num_workers * PREFETCHED_PER_WORKER:
                        yield self._hand_out(ahead.popleft().result())
                while ahead:
                    yield self._hand_out(ahead.popleft().result())
            finally:
                for future in ahead:
                    future.cancel()

    def _hand_out(self, batch: Batch) -> Batch:
        self.position += 1
        if self.position == len(self):
            self.epoch, self.position = self.epoch + 1, 0
        return batch

    def _make_batch(self, epoch: int, step: int) -> Batch:
        return self.batcher.batch([self.dataset[index] for index in self.indices(epoch, step)], self.device)

    def _order(self, number: int, n_items: int) -> list[int]:
        """The order of the items in one pass; that of the last two passes is kept."""
        key = (self.seed, n_items, number)
        order = self._passes.get(key)
        if order is None:
            order = _permutation(*key)
            # A new dict, as threads that make batches may be reading the old one.
            self._passes = {**dict([*self._passes.items()][-1:]), key: order}
        return order


def _permutation(seed: int | None, n_items: int, number: int) -> list[int]:
    if seed is None:
        return list(range(n_items))
    digest = hashlib.sha256(f"{seed} {number}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
    return torch.randperm(n_items, generator=generator).tolist()
