"""Shards that tests write, and the stream over them."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from burnlike.data import DataLoader, Stream, StreamConfig


def text_of(number: int) -> str:
    return f"document {number} " + "abc " * (number % 5)


def write_lines(folder: Path, shards: int = 3, rows: int = 40, first: int = 0) -> Path:
    """JSON lines with `text` and `n`, which counts from `first`."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        numbers = range(first + shard * rows, first + (shard + 1) * rows)
        lines = [json.dumps({"text": text_of(it), "n": it}) for it in numbers]
        (folder / f"part-{shard}.jsonl").write_text("".join(f"{it}\n" for it in lines))
    return folder


def write_parquet(folder: Path, shards: int = 2, rows: int = 50, first: int = 1000, group: int = 20) -> Path:
    """The same as Parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    for shard in range(shards):
        numbers = [*range(first + shard * rows, first + (shard + 1) * rows)]
        table = pa.table({"text": [text_of(it) for it in numbers], "n": numbers})
        pq.write_table(table, folder / f"part-{shard}.parquet", row_group_size=group)
    return folder


def stream(*sources: Any, **options: Any) -> Stream:
    """A stream over paths, or pairs of a path and a weight."""
    pairs = [it if isinstance(it, tuple) else (it, None) for it in sources]
    listed = [{"path": str(path), "weight": weight} for path, weight in pairs]
    return StreamConfig.from_dict({"sources": listed, "validation_items": 1, **options}).init()


def loader(data: Stream, **options: Any) -> DataLoader[Any, Any]:
    return DataLoader(data.train, data.batcher, **{"batch_size": 4, "seed": 3, **options})
