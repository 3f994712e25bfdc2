"""The data loader beside torch's: an epoch of shuffled batches of 64 of 4,096 items, with 0, 2 and 4 workers.

    python -m benchmarks.data.loader

`items`: images of 3 x 32 x 32 as uint8 that become float32 when they are read, one by one, and are collated by torch's
default_collate on both sides. `tensors`: rows of tensors in memory, by the TensorDataset of each side. Starting and
ending the workers is part of an epoch, on both sides.
"""

import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.utils.data
from torch import Tensor

from benchmarks._harness import Comparison, compare, main
from burnlike.data import DataLoader, TensorDataset

COUNT, BATCH = 4096, 64
WORKERS = (0, 2, 4)
MOST_REPEATS = 15
BAR = 1.0

PIXELS = torch.randint(0, 256, (COUNT, 3, 32, 32), dtype=torch.uint8)
CLASSES = torch.arange(COUNT) % 10


class Images:
    """Items that take some work to read."""

    draws = False

    def __len__(self) -> int:
        return COUNT

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return PIXELS[index].float().div_(255), CLASSES[index]


def epoch(loader: Any) -> Callable[[], None]:
    """Read all batches once."""

    def read() -> None:
        for _ in loader:
            pass

    return read


def run(repeats: int) -> list[Comparison]:
    """Each kind of items with each number of workers."""
    warnings.filterwarnings("ignore", "This DataLoader will create")
    results = []
    kinds: dict[str, tuple[Any, Any]] = {
        "items": (Images(), Images()),
        "tensors": (TensorDataset(PIXELS, CLASSES), torch.utils.data.TensorDataset(PIXELS, CLASSES)),
    }
    for name, (ours, theirs) in kinds.items():
        for workers in WORKERS:
            results.append(
                compare(
                    f"{name}, {workers} workers",
                    epoch(DataLoader(ours, batch_size=BATCH, seed=1, num_workers=workers)),
                    epoch(torch.utils.data.DataLoader(theirs, BATCH, shuffle=True, num_workers=workers)),
                    theirs_name="torch's DataLoader",
                    bar=BAR,
                    repeats=min(repeats, MOST_REPEATS),
                )
            )
    return results


if __name__ == "__main__":
    main("The data loader beside torch's", run)
