"""How many processes each kind of parallelism has; torch is not loaded for them."""

from collections.abc import Iterator
from math import prod
from typing import NamedTuple

_DIVIDED = {
    "pipeline": "the layers of the model, one after the other",
    "replicate": "items; each has a copy of the model",
    "shard": "items, each parameter, its gradient and its optimizer state",
    "context": "each sequence",
    "tensor": "each layer",
    "expert": "the experts of a layer, among the processes of shard",
}
_SHOWN = 4


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
        """Number of processes with gradients of their own, over which a step takes the mean."""
        return self.data * self.context

    @property
    def layout(self) -> list[int]:
        """The sizes that decide which items, part of a sequence and part of the model each process has."""
        return [self.pipeline, self.data, self.context, self.tensor]

    def __str__(self) -> str:
        return " x ".join(f"{name} {size}" for name, size in self._asdict().items() if size > 1) or "one process"

    @property
    def world(self) -> int:
        return prod(self[:-1])


def mesh_table(sizes: MeshSizes, items: int = 1) -> list[str]:
    """A row for each size above 1: which processes share it with rank 0, and what they divide.

    Args:
        sizes: of the mesh.
        items: of a step of each process that reads items of its own.
    """
    rows = [("size", "", "with rank 0", "they divide"), *_rows(sizes)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join([*(it.ljust(width) for it, width in zip(row[:3], widths, strict=True)), row[3]]) for row in rows]
    world = f"{sizes.world} process{'es' * (sizes.world > 1)}"
    return [*lines, f"{world}, {sizes.data} with items of their own: a step has {sizes.data * items} items"]


def _rows(sizes: MeshSizes) -> Iterator[tuple[str, str, str, str]]:
    stride = sizes.world
    for name, size in sizes._asdict().items():
        # Experts lie among the processes of `shard`, the nearest first.
        stride = sizes.context * sizes.tensor if name == "expert" else stride // size
        if size > 1:
            ranks = [str(stride * place) for place in range(min(size, _SHOWN))]
            yield name, str(size), ", ".join(ranks) + ", ..." * (size > _SHOWN), _DIVIDED[name]
