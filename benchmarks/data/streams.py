"""Streams beside `datasets`' own streaming: shuffled rows of the same Parquet and JSON lines shards, tokens, resuming.

    python -m benchmarks.data.streams

Rows: 40,000 of a text of about 500 characters and a number in 8 shards, in batches of 64, shuffled: ours within
windows of 16 MiB over a permutation of all blocks, theirs with a buffer of 2,000 rows over a permutation of shards. A
call reads 100 batches from the beginning. Tokens: what a training reads, of two of the shards, 25 batches of 16
windows of 512: ours of tokens that were made before, theirs tokenized on the way and joined in the usual `map`; `first`
makes ours in the call. Resuming: until the batch after 400. All in one process.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from benchmarks._harness import Comparison, compare, main
from burnlike.data import DataLoader, StreamConfig
from burnlike.data.codec import TextTokenizer, train_tokenizer

ROWS, SHARDS, BATCH = 40_000, 8, 64
LENGTH, WINDOWS = 512, 16
READ, SKIPPED, TOKEN_BATCHES = 100, 400, 25
MOST_REPEATS = 3
BAR = 1.0
WORDS = [f"{first}{last}" for first in ("ba", "co", "du", "fle", "gri") for last in ("n", "rk", "st", "m")]
"""Of which the texts are drawn."""


def run(repeats: int) -> list[Comparison]:
    """Rows of both kinds, tokens, and resuming."""
    repeats = min(repeats, MOST_REPEATS)
    with _shards() as folder:
        results = []
        for kind in ("parquet", "jsonl"):
            ours, theirs = _our_rows(folder, kind), _their_rows(folder, kind)
            results.append(
                _compared(f"{kind}: {READ * BATCH:,} rows", _first(ours, READ), _first(theirs, READ), repeats)
            )
            results.append(_compared(f"{kind}: batch {SKIPPED:,}", _after(ours), _their_after(theirs), repeats))
        for kind in ("parquet", "jsonl"):
            theirs = _first(_their_tokens(folder, kind), TOKEN_BATCHES)
            name = f"{kind}: {TOKEN_BATCHES * WINDOWS * LENGTH:,} tokens of text"
            results.append(_compared(name, _first(_our_tokens(folder, kind), TOKEN_BATCHES), theirs, repeats))
            results.append(_compared(f"{kind}: the same, first", _made_again(folder, kind), theirs, repeats))
    return results


def _compared(name: str, ours: Callable[[], object], theirs: Callable[[], object], repeats: int) -> Comparison:
    return compare(name, ours, theirs, theirs_name="datasets", bar=BAR, repeats=repeats)


@contextmanager
def _shards() -> Iterator[Path]:
    """Rows as Parquet and as JSON lines, a tokenizer, and a cache of this run's own."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = Path(tempfile.mkdtemp())
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(folder / "cache")
    try:
        picked = torch.randint(len(WORDS), (ROWS, 100), generator=torch.Generator().manual_seed(1))
        for shard, rows in enumerate(picked.chunk(SHARDS)):
            texts = [" ".join(WORDS[it] for it in row) for row in rows.tolist()]
            numbers = [*range(shard * len(rows), (shard + 1) * len(rows))]
            for kind in ("parquet", "jsonl"):
                (folder / kind).mkdir(exist_ok=True)
            pq.write_table(
                pa.table({"text": texts, "n": numbers}), folder / "parquet" / f"{shard}.parquet", row_group_size=1000
            )
            with (folder / "jsonl" / f"{shard}.jsonl").open("w") as file:
                file.writelines(json.dumps({"text": it, "n": n}) + "\n" for it, n in zip(texts, numbers, strict=True))
        train_tokenizer(texts[:1000], 512).save(str(folder / "tokenizer.json"))
        yield folder
    finally:
        if before is None:
            del os.environ["XDG_CACHE_HOME"]
        else:
            os.environ["XDG_CACHE_HOME"] = before
        shutil.rmtree(folder)


def _our_rows(folder: Path, kind: str) -> Callable[[], Any]:
    return _ours(folder / kind, BATCH, columns=["text", "n"], shuffle_window_mib=16)


def _our_tokens(folder: Path, kind: str) -> Callable[[], Any]:
    return _ours(folder / kind, WINDOWS, "[01].*", tokenizer=str(folder / "tokenizer.json"), context_length=LENGTH)


def _ours(path: Path, batch_size: int, pattern: str = "*", **options: Any) -> Callable[[], Any]:
    config = StreamConfig.from_dict(
        {"sources": [{"path": str(path), "pattern": pattern}], "validation_items": 1, **options}
    )

    def make() -> Any:
        data = config.init()
        return DataLoader(data.train, data.batcher, batch_size=batch_size, seed=1)

    return make


def _streamed(folder: Path, kind: str, shards: int = SHARDS) -> Any:
    import datasets

    files = sorted(map(str, (folder / kind).iterdir()))[:shards]
    reader = "parquet" if kind == "parquet" else "json"
    options: dict[str, Any] = {"split": "train", "streaming": True, "cache_dir": str(folder / "cache")}
    return datasets.load_dataset(reader, data_files=files, **options).shuffle(seed=1, buffer_size=2_000)


def _their_rows(folder: Path, kind: str) -> Callable[[], Any]:
    return lambda: _batches(_streamed(folder, kind), BATCH)


def _batches(rows: Any, size: int) -> Any:
    return torch.utils.data.DataLoader(rows, batch_size=size)


def _their_tokens(folder: Path, kind: str) -> Callable[[], Any]:
    tokenizer = TextTokenizer(folder / "tokenizer.json")

    def joined(rows: dict[str, list[str]]) -> dict[str, list[list[int]]]:
        tokens = [token for row in tokenizer.encode_all([f"{it}\n\n" for it in rows["text"]]) for token in row]
        starts = range(0, len(tokens) - LENGTH, LENGTH)
        return {"tokens": [tokens[it : it + LENGTH + 1] for it in starts]}

    def make() -> Any:
        windows = _streamed(folder, kind, 2).map(joined, batched=True, batch_size=1000, remove_columns=["text", "n"])
        return _batches(windows.with_format("torch"), WINDOWS)

    return make


def _made_again(folder: Path, kind: str) -> Callable[[], None]:
    """Making the tokens of all shards, and reading as many of them."""

    def read() -> None:
        shutil.rmtree(folder / "cache" / "burnlike", ignore_errors=True)
        _first(_our_tokens(folder, kind), TOKEN_BATCHES)()

    return read


def _first(make: Callable[[], Any], count: int) -> Callable[[], None]:
    def read() -> None:
        for _ in islice(iter(make()), count):
            pass

    return read


def _after(make: Callable[[], Any]) -> Callable[[], None]:
    """Going on from a saved position."""
    state = {**make().state_dict(), "position": SKIPPED}

    def read() -> None:
        loader = make()
        loader.load_state_dict(state)
        next(iter(loader))

    return read


def _their_after(make: Callable[[], Any]) -> Callable[[], None]:
    """The only way that gives the same batches: `skip`, which reads what was before."""

    def read() -> None:
        next(iter(_batches(make().dataset.skip(SKIPPED * BATCH), BATCH)))

    return read


if __name__ == "__main__":
    main("Streams beside datasets", run)
