"""How the processes of a job lie in its mesh, as a table; torch is not loaded for it."""

from collections.abc import Iterator

from .sizes import MeshSizes

_DIVIDED = {
    "pipeline": "the layers of the model, one after the other",
    "replicate": "items; each has a copy of the model",
    "shard": "items, each parameter, its gradient and its optimizer state",
    "context": "each sequence",
    "tensor": "each layer",
    "expert": "the experts of a layer, among the processes of shard",
}
_SHOWN = 4


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
