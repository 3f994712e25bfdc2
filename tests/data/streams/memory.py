"""Reads a stream and prints by how many MiB that has raised the memory of the process: `MODE PATH BATCHES`."""

import json
import resource
import sys
from pathlib import Path

import numpy  # noqa: F401 - so that importing it is not counted
import pyarrow.parquet  # noqa: F401
import torch

from burnlike.data import DataLoader, StreamConfig


def grown(mode: str, path: str, batches: int) -> float:
    options = {"columns": ["text", "n"]} if mode == "columns" else {"packing": True}
    config = {"sources": [{"path": path}], "validation_items": 8, "shuffle_window_mib": 16, "context_length": 512}
    DataLoader([1, 2], batch_size=1, seed=1)
    torch.randperm(10**6).sum()
    before = peak()
    data = StreamConfig.from_dict({**config, **options}).init()
    loader = DataLoader(data.train, data.batcher, batch_size=32, seed=1, steps_per_epoch=batches)
    for _ in loader:
        pass
    assert loader.state_dict()["fingerprint"]
    return peak() - before


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def write_large(folder: Path, mib: int, shards: int = 4) -> Path:
    """JSON lines of so many MiB together."""
    folder.mkdir()
    line = json.dumps({"text": "some words of a document " * 40, "n": 7}) + "\n"
    for shard in range(shards):
        with (folder / f"{shard}.jsonl").open("w") as file:
            for _ in range((mib << 20) // shards // len(line)):
                file.write(line)
    return folder


if __name__ == "__main__":
    print(grown(sys.argv[1], sys.argv[2], int(sys.argv[3])))
