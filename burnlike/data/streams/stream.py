"""Stream: the parts of a data set that is larger than memory."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..._regular_file import read_regular
from ...errors import DataError
from ..codec import TextCodec
from ..sources.splits import Splits
from ..sources.tokens import mapped
from .configs import StreamConfig
from .files import Known, Shard, shards_of
from .parts import Part, StreamDataset
from .row_source import RowSource
from .tokenized import ColumnEncoder, Encoder, TextEncoder, tokenized
from .windows import Numbers, WindowSource

_PLACES = ("sources", "tokenizer", "validation_path")
"""Fields whose files may move."""


class Stream(Splits):
    """What a `StreamConfig` makes: `train` and `valid` are a `StreamDataset` each.

    Where the sources have text, `encode` and `decode` are as of a `TextCodec`.
    """

    def __init__(self, config: StreamConfig) -> None:
        self._config = config
        self._codec = TextCodec(_tokenizer(config)) if not (config.columns or config.tokens) else None
        self._shards: list[Shard] = []
        self._unreadable: list[str] = []
        self._sources = [
            self._source(it.path, it.pattern, f"data.sources.{place}.path") for place, it in enumerate(config.sources)
        ]
        train, valid = self._parts()
        facts = {name: value for name, value in config.to_dict().items() if name not in _PLACES}
        weights = [it.weight for it in config.sources if it.weight is not None] or None
        known = Known(self._shards, facts, weights, _identity(config))
        window_bytes = (config.shuffle_window_mib << 20) // (len(train) if weights else 1)
        super().__init__(
            StreamDataset(train, weights, window_bytes, known, self._unreadable),
            StreamDataset(valid, None, window_bytes, known),
            fingerprint=known,
            files={} if config.tokenizer is None else {"tokenizer.json": Path(config.tokenizer).expanduser()},
        )
        if self._codec is not None and all(it.kind != "tokens" for it in self._shards):
            self.vocab_size = self._codec.vocab_size
            self.encode, self.decode = self._codec.encode, self._codec.decode

    def expect_vocabulary(self, size: int) -> None:
        """Make tokens that a model of so many doesn't know errors of the data, which name their places."""
        for dataset in (self.train, self.valid):
            if isinstance(dataset, StreamDataset):
                dataset.expect_vocabulary(size)

    def _parts(self) -> tuple[list[Part], list[Part]]:
        """What is trained on, and what is validated on."""
        config, count = self._config, self._config.validation_items or 0
        for place, source in enumerate(self._sources):
            if count >= len(source):
                raise DataError(
                    f"data.sources.{place}: {config.sources[place].path} has {len(source)} items, expected more than"
                    f" the {count} of data.validation_items; keep fewer, or name other files by data.validation_path"
                )
        train = [Part(it, count, len(it)) for it in self._sources]
        if config.validation_path is None:
            return train, [Part(it, 0, count) for it in self._sources]
        source = self._source(config.validation_path, "**/*", "data.validation_path")
        return train, [Part(source, 0, len(source))]

    def _source(self, path: str, pattern: str, field: str) -> Any:
        config, shards = self._config, shards_of(path, pattern, field)
        self._shards += shards
        has_tokens = shards[0].kind == "tokens"
        if config.columns:
            if has_tokens:
                raise DataError(f"{field}: {shards[0].path} has tokens, and no columns as data.columns names them")
            return RowSource(shards, config.columns, config.shuffle_window_mib << 20)
        files = [_numbers(it, config) for it in shards] if has_tokens else self._tokenized(shards)
        size = config.context_length + (not config.packing)
        stride = max(1, size - 1)
        return WindowSource(files, size, stride, has_marks=config.packing, name=f"{field}: {path}")

    def _tokenized(self, shards: Sequence[Shard]) -> list[Numbers]:
        config = self._config
        encoder: Encoder
        if config.tokens:
            encoder = ColumnEncoder(config.tokens)
        else:
            encoder = TextEncoder(self._codec, config.text, config.separator, _identity(config))
        made = [tokenized(it, encoder, has_marks=config.packing) for it in shards]
        self._unreadable += [text for it in made for text in it.unreadable]
        return [it.numbers for it in made]


def codec(config: StreamConfig, directory: Path) -> TextCodec:
    if config.columns or config.tokens:
        raise DataError("data: Stream has no text in columns of tokens; generate from token numbers in Python")
    return TextCodec(None if config.tokenizer is None else directory / "tokenizer.json", config.context_length)


def _numbers(shard: Shard, config: StreamConfig) -> Numbers:
    """The tokens of a `.npy` or `.bin` file, of which nothing is read."""
    if config.packing:
        raise DataError(
            f"{shard.path}: data.packing keeps documents apart, and a file of tokens has none; give JSON lines or"
            " Parquet with a column of tokens (data.tokens), or leave packing out"
        )
    found = mapped(shard.path, config.dtype)
    return Numbers(shard.path, found.dtype.str, found.offset, len(found), None, shard.status)


def _tokenizer(config: StreamConfig) -> Path | None:
    return None if config.tokenizer is None else Path(config.tokenizer).expanduser()


def _identity(config: StreamConfig) -> str:
    """What the tokens of a text depend on: the content of the tokenizer's file."""
    path = _tokenizer(config)
    return "bytes" if path is None else hashlib.sha256(read_regular(path)).hexdigest()
