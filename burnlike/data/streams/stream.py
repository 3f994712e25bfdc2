"""Stream: the parts of a data set that is larger than memory."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from ..._regular_file import open_regular
from ...errors import DataError
from ..chat.codec import ChatCodec
from ..chat.conversations import ConversationBatcher
from ..chat.templates import TEMPLATE_NAME, TOKENIZER_FOLDER
from ..chat.tokenizers import tokenizer_files
from ..codec import TextCodec
from ..configs import NO_TARGET
from ..sources.splits import Splits, marked_text, shown
from ..sources.tokens import mapped
from .configs import StreamConfig
from .encoders import (
    ChatEncoder,
    ColumnEncoder,
    Encoder,
    TextEncoder,
    chat_config,
    chat_format,
    codec_of,
    identity_of,
    tokenized,
    tokenizer_path,
)
from .files import Known, Shard, shards_of
from .parts import Part, StreamDataset
from .rows import Documents, Numbers, RowSource, WindowSource

_PLACES = ("sources", "tokenizer", "validation_path")
"""Fields whose files may move."""

_SHOWN = 5
_MEGATRON = struct.Struct("<9sQB")
_MEGATRON_DTYPES = {1: "uint8", 4: "int32", 5: "int64", 8: "uint16"}


class Stream(Splits):
    """The data of a `StreamConfig`: `train` and `valid` are a `StreamDataset` each.

    Where the sources have text, `encode` and `decode` are as of a `TextCodec`.
    """

    def __init__(self, config: StreamConfig) -> None:
        self._config = config
        self._codec = None if config.columns or config.tokens else codec_of(config)
        self._shards: list[Shard] = []
        self._unreadable: list[str] = []
        self._sources = [
            self._source(it.path, it.pattern, f"data.sources.{place}.path") for place, it in enumerate(config.sources)
        ]
        train, valid = self._parts()
        batcher = None
        if config.chat is not None and isinstance(self._codec, ChatCodec):
            length = config.context_length if config.packing else 0
            batcher = ConversationBatcher(self._codec.template.pad_token, length)
        facts = {name: value for name, value in config.to_dict().items() if name not in _PLACES}
        weights = [source.weight for source in config.sources if source.weight is not None] or None
        known_facts = Known(self._shards, facts, weights, identity_of(config))
        window_bytes = (config.shuffle_window_mib << 20) // (len(train) if weights else 1)
        super().__init__(
            StreamDataset(train, weights, window_bytes, known_facts, self._unreadable),
            StreamDataset(valid, None, window_bytes, known_facts),
            batcher=batcher,
            fingerprint=known_facts,
            files=_files_of(config),
        )
        if self._codec is not None and all(shard.kind != "tokens" for shard in self._shards):
            self.vocab_size = self._codec.vocab_size
            self.encode, self.decode = self._codec.encode, self._codec.decode

    def expect_vocabulary(self, size: int) -> None:
        """Make tokens that a model of so many doesn't know errors of the data, which name their places."""
        for dataset in (self.train, self.valid):
            if isinstance(dataset, StreamDataset):
                dataset.expect_vocabulary(size)

    def describe(self) -> list[str]:
        what = "rows" if self._config.columns else f"windows of {self._config.context_length} tokens"
        lines = [f"items     {len(self.train):,} {what} to train on, {len(self.valid):,} to validate on"]
        for source, source_config in zip(self._sources, self._config.sources, strict=True):
            share = f", weight {source_config.weight:g}" if source_config.weight is not None else ""
            lines.append(f"source    {source_config.path}: {len(source):,} {what.split()[0]}{share}")
        size = sum(shard.status[0] for shard in self._shards)
        lines.append(f"shards    {len(self._shards):,} files, {size / 2**20:,.1f} MiB")
        if self._codec is not None:
            lines.append(f"tokens    {self._codec.vocab_size:,} different ones")
        lines += [f"unread    {row}" for row in self._unreadable[:_SHOWN]]
        return lines

    def examples(self, count: int) -> list[str]:
        return [self._shown(self.train[index]) for index in range(min(count, len(self.train)))]

    def _shown(self, item: Any) -> str:
        """The text of an item, with what has no loss marked; of one without text its values."""
        if self._codec is None or any(shard.kind == "tokens" for shard in self._shards):
            return shown(item)
        tokens: Tensor = item if isinstance(item, Tensor) else item["input_ids"]
        has_loss = [True] * len(tokens) if isinstance(item, Tensor) else (item["labels"] != NO_TARGET).tolist()
        return marked_text(tokens, has_loss, self._codec.decode)

    def _parts(self) -> tuple[list[Part], list[Part]]:
        """The parts to train on, and those to validate on."""
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
        documents: Documents = "packed" if config.packing else "one" if config.chat else "joined"
        size = config.context_length + (documents == "joined")
        stride = size if config.chat else max(1, size - 1)
        if has_tokens:
            files = [_numbers(shard, config) for shard in shards]
        else:
            encoder = self._encoder(shards[0])
            parts = tokenized(shards, encoder, has_marks=(documents != "joined"))
            unreadable = [text for part in parts for text in part.unreadable]
            if unreadable and not any(part.numbers.length for part in parts):
                raise DataError(f"no row of {len(parts)} shards can be read; the first: {unreadable[0]}")
            self._unreadable += unreadable
            files = [part.numbers for part in parts]
        return WindowSource(files, size, stride, documents=documents, name=f"{field}: {path}")

    def _encoder(self, first: Shard) -> Encoder:
        config, codec = self._config, self._codec
        if config.tokens or codec is None:
            return ColumnEncoder(config.tokens or "")
        if config.chat is None:
            return TextEncoder(config, codec)
        if not isinstance(codec, ChatCodec):
            raise DataError(
                f"data.tokenizer: expected a directory with the files of a tokenizer, got {config.tokenizer}"
            )
        return ChatEncoder(config, codec.template, chat_format(config, first))


def codec(config: StreamConfig, directory: Path) -> TextCodec | ChatCodec:
    if config.columns or config.tokens:
        raise DataError("data: Stream has no text in columns that are tokens or features already")
    return codec_of(config, directory)


def _files_of(config: StreamConfig) -> Mapping[str, Path]:
    """The files of the tokenizer, and of a template, by the names that a run keeps them by."""
    path = tokenizer_path(config)
    if path is None:
        return {}
    if not path.is_dir():
        return {"tokenizer.json": path}
    files = {f"{TOKENIZER_FOLDER}/{name}": file for name, file in tokenizer_files(path).items()}
    template = chat_config(config).chat_template
    is_file = template is not None and Path(template).expanduser().is_file()
    return {**files, TEMPLATE_NAME: Path(template or "").expanduser()} if is_file else files


def _numbers(shard: Shard, config: StreamConfig) -> Numbers:
    """The tokens of a `.npy` or `.bin` file, of which nothing is read."""
    if config.packing or config.chat:
        raise DataError(
            f"{shard.path}: data.packing keeps documents apart, and a file of tokens has none; give JSON lines or"
            " Parquet with a column of tokens (data.tokens), or leave packing out"
        )
    index = shard.path.with_suffix(".idx")
    tokens = mapped(shard.path, _megatron_dtype(index) if index.exists() else config.dtype)
    return Numbers(shard.path, tokens.dtype.str, tokens.offset, len(tokens), None, shard.status)


def _megatron_dtype(index: Path) -> str:
    """The type of the tokens in the `.bin` beside a Megatron-LM index, of which only the beginning is read."""
    with open_regular(index) as file:
        begin = file.read(_MEGATRON.size)
    magic, version, code = _MEGATRON.unpack(begin) if len(begin) == _MEGATRON.size else (b"", 0, 0)
    if (magic, version) != (b"MMIDIDX\0\0", 1) or code not in _MEGATRON_DTYPES:
        raise DataError(
            f"{index}: expected an index of Megatron-LM, version 1, of whole numbers; remove it if it is none"
        )
    return _MEGATRON_DTYPES[code]
