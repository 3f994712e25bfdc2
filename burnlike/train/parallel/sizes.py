"""How many processes each kind of parallelism has; torch is not loaded for them."""

from math import prod
from typing import NamedTuple


class MeshSizes(NamedTuple):
    """The processes of a job, by what they divide among them; their product is the number of processes.

    Attributes:
        pipeline: stages of the model, one after the other.
        replicate: copies of all that the others divide.
        shard: parts of each parameter, each of which reads items of its own.
        context: parts of each sequence.
        tensor: parts of each layer.
        expert: parts of the experts of a layer, among the processes of `shard`, of `replicate` where
            that is 1; no factor of the product.
    """

    pipeline: int = 1
    replicate: int = 1
    shard: int = 1
    context: int = 1
    tensor: int = 1
    expert: int = 1

    @property
    def data(self) -> int:
        """How many processes read items of their own."""
        return self.replicate * self.shard

    @property
    def mean(self) -> int:
        """How many processes have gradients of their own, of which the step takes the mean."""
        return self.data * self.context

    @property
    def layout(self) -> list[int]:
        """What decides which items, part of a sequence and part of the model each process has."""
        return [self.pipeline, self.data, self.context, self.tensor]

    def __str__(self) -> str:
        return " x ".join(f"{name} {size}" for name, size in self._asdict().items() if size > 1) or "one process"

    @property
    def world(self) -> int:
        return prod(self[:-1])
