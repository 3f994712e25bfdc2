"""The protocols of the data part (the source that a loader reads from, and the batcher), and datasets in memory."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from ..errors import ShapeError

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


class TensorDataset:
    """Items are tuples of the rows of several tensors; a batch is one `index_select` of each.

    Example:
        >>> from burnlike.data import DataLoader
        >>> data = TensorDataset(torch.arange(6).reshape(3, 2), torch.tensor([7, 8, 9]))
        >>> [targets.tolist() for _, targets in DataLoader(data, batch_size=2)]
        [[7, 8], [9]]
    """

    draws = False

    def __init__(self, *tensors: Tensor, fingerprint: str | None = None) -> None:
        """Take tensors; nothing is copied.

        Args:
            tensors: `[n, ...]` each.
            fingerprint: a hash of the data, by which a loader's saved position knows it again.

        Raises:
            ShapeError: there is none, or they have different numbers of rows.
        """
        shapes = [list(it.shape) for it in tensors]
        if not all(shapes) or len({shape[0] for shape in shapes}) != 1:
            raise ShapeError(f"TensorDataset: expected tensors with the same number of rows, got {shapes}")
        self.tensors = tensors
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return len(self.tensors[0])

    def __getitem__(self, index: int, /) -> tuple[Tensor, ...]:
        return tuple(it[index] for it in self.tensors)

    def batch(self, indices: Sequence[int], device: torch.device) -> tuple[Any, ...]:
        """The rows of these indices, of each tensor, on `device`."""
        rows = torch.tensor(indices)
        return tuple(it.index_select(0, rows.to(it.device)).to(device, non_blocking=True) for it in self.tensors)
