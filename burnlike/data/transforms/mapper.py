"""MapperDataset: a function of each item."""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from ..dataset import Dataset

Item = TypeVar("Item")
Mapped = TypeVar("Mapped")


class MapperDataset(Generic[Item, Mapped]):
    """`function(item)` for each item of another dataset, computed when it is read.

    A function that draws random numbers takes them from the global generators of Python, torch or NumPy: a DataLoader
    with a seed sets these for each batch, so that the numbers are the same with any number of workers.

    Example:
        >>> list(MapperDataset([1, 2, 3], lambda item: item * 10))
        [10, 20, 30]
    """

    def __init__(self, dataset: Dataset[Item], function: Callable[[Item], Mapped]) -> None:
        self.dataset = dataset
        self.function = function

    @property
    def fingerprint(self) -> Any:
        """That of the dataset."""
        return getattr(self.dataset, "fingerprint", None)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int, /) -> Mapped:
        return self.function(self.dataset[index])
