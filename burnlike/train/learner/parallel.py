"""How several processes train one model; here: a single process."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn


class SingleProcess:
    """Trains by itself.

    Attributes:
        rank: number of the process.
        world_size: how many there are.
    """

    rank = 0
    world_size = 1

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    @contextmanager
    def accumulating(self, model: nn.Module, is_last: bool) -> Iterator[None]:
        """Around a forward and backward pass; gradients are exchanged in the last of a step."""
        yield

    def total(self, size: int) -> float:
        """The sum of a number over the processes."""
        return float(size)
