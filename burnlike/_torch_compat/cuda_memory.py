"""The history of CUDA's memory, which torch's documents say how to record, by names with an underscore.

Without them a profile has no snapshot.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch


@contextmanager
def memory_snapshot(device: torch.device, file: Path | None) -> Iterator[Path | None]:
    """Record each allocation within the block, and write it for pytorch.org/memory_viz.

    Gives the file; None, and writes nothing, without one, on other devices, and where torch has no such functions.
    """
    memory = torch.cuda.memory
    has_recorder = all(hasattr(memory, name) for name in ("_record_memory_history", "_dump_snapshot"))
    if file is None or device.type != "cuda" or not has_recorder:
        yield None
        return
    memory._record_memory_history(max_entries=1_000_000, device=device)
    try:
        yield file
        file.parent.mkdir(parents=True, exist_ok=True)
        memory._dump_snapshot(str(file))
    finally:
        memory._record_memory_history(enabled=None)
