"""The protocols of the data part: the source that a loader reads from, and the batcher that makes batches of it."""

from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch

Item = TypeVar("Item")
ItemCo = TypeVar("ItemCo", covariant=True)
ItemContra = TypeVar("ItemContra", contravariant=True)
BatchCo = TypeVar("BatchCo", covariant=True)


class Dataset(Protocol[ItemCo]):
    """Items that are reached by their index, 0 to `len - 1`; reading one changes nothing."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int, /) -> ItemCo: ...


class Batcher(Protocol[ItemContra, BatchCo]):
    """Makes one batch of several items."""

    def batch(self, items: Sequence[ItemContra], device: torch.device) -> BatchCo:
        """Collate `items`, in their order, on `device`."""
        ...


class InMemDataset(list[Item]):
    """Items held in a list; Burn's name for the simplest dataset."""

    draws = False
