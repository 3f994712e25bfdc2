"""Stream: the parts of a data set that is larger than memory, and the encoders of its rows into tokens.

Rows are texts, lists of tokens, or conversations. The tokens of a shard are written to a file once: piece by piece,
whatever the size of the shard.
"""

import hashlib
import json
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from ..._regular_file import open_regular, read_regular
from ...errors import DataError
from ..chat.codec import ChatCodec, template_of
from ..chat.configs import ChatConfig
from ..chat.conversations import ConversationBatcher, packed
from ..chat.formats import Format, WrongRow, format_of
from ..chat.templates import TEMPLATE_NAME, TOKENIZER_FOLDER, ChatTemplate, WrongConversation
from ..chat.tokenizers import tokenizer_files
from ..codec import TextCodec
from ..configs import NO_TARGET
from ..sources.rows import pieces
from ..sources.splits import Splits, marked_text, shown
from ..sources.tokens import mapped
from .configs import StreamConfig
from .files import Known, Shard, shards_of
from .parts import Part, StreamDataset
from .rows import BEGINS, COUNTS, PADS, ColumnType, Damaged, Documents, Numbers, RowSource, WindowSource, values_of

_SEPARATOR = "\n\n"
_VERSION = 4
"""Of how conversations are written: tokens that are kept of another one are not taken."""


class Encoded(NamedTuple):
    """A row as tokens, and a mark for each: `BEGINS`, `COUNTS`, `PADS` or several; and whether its end was cut off."""

    tokens: Sequence[int]
    marks: bytes
    is_cut: bool = False


class Encoder(Protocol):
    """Makes tokens of rows.

    Attributes:
        columns: what it needs of a row; None is all of it.
        rows_at_once: how many rows `encode` takes.
        dtype: holds every token.
        facts: what the tokens depend on beside the rows, as plain values.
    """

    columns: tuple[str, ...] | None
    rows_at_once: int
    dtype: str
    facts: tuple[Any, ...]

    def encode(self, rows: Sequence[Any]) -> list[list[Encoded] | Damaged]:
        """The tokens of each row, in several rows or in none, or what is wrong with it."""
        ...

    def arranged(self, rows: Sequence[Encoded]) -> Iterator[Encoded]:
        """The rows to write, of rows that came together."""
        return iter(rows)


class TextEncoder(Encoder):
    """The tokens of a column of text, with a separator after each."""

    rows_at_once = 512

    def __init__(self, config: StreamConfig, codec: TextCodec | ChatCodec) -> None:
        self._codec, self._column = codec, config.text
        self._separator = separator_of(config, codec)
        self.columns: tuple[str, ...] | None = (config.text,)
        self.dtype = dtype_for(codec.vocab_size)
        self.facts: tuple[Any, ...] = ("text", self._separator, identity_of(config))

    def encode(self, rows: Sequence[Any]) -> list[list[Encoded] | Damaged]:
        column = self._column
        texts = [row[column] if isinstance(row[column], str) else None for row in rows]
        tokens = iter(self._codec.encode_all([text for text in texts if text is not None]))
        return [
            Damaged(f"expected text in '{column}', got {_kind(row[column])}")
            if text is None
            else [_document([*next(tokens), *self._separator])]
            for row, text in zip(rows, texts, strict=True)
        ]


class ColumnEncoder(Encoder):
    """The tokens that a column has already, as lists of whole numbers."""

    rows_at_once = 512
    dtype = "uint32"

    def __init__(self, column: str) -> None:
        self._column = column
        self.columns: tuple[str, ...] | None = (column,)
        self.facts: tuple[Any, ...] = ("tokens",)

    def encode(self, rows: Sequence[Any]) -> list[list[Encoded] | Damaged]:
        column = self._column
        return [
            [_document(row[column])]
            if isinstance(row[column], list) and all(type(token) is int and 0 <= token < 2**32 for token in row[column])
            else Damaged(f"expected a list of tokens >= 0 in '{column}', got {_kind(row[column])}")
            for row in rows
        ]


class ChatEncoder(Encoder):
    """Conversations, each in rows of `context_length` tokens of its own, or several packed into one."""

    rows_at_once = 4096
    columns: tuple[str, ...] | None = None

    def __init__(self, config: StreamConfig, template: ChatTemplate, rows: Format) -> None:
        self._config, self._template, self._format = config, template, rows
        self._chat = chat_config(config)
        self.dtype = dtype_for(len(template.tokenizer))
        # Without places, which may differ while the tokens are the same.
        chosen = {**self._chat.to_dict(), "path": "", "tokenizer": "", "chat_template": template.text}
        self.facts: tuple[Any, ...] = ("chat", _VERSION, rows.name, chosen, identity_of(config))

    def encode(self, rows: Sequence[Any]) -> list[list[Encoded] | Damaged]:
        read = [self._conversation(row) for row in rows]
        encoded = iter(self._template.encode([it for it in read if not isinstance(it, Damaged)], self._chat.loss))
        return [it if isinstance(it, Damaged) else self._kept(next(encoded)) for it in read]

    def arranged(self, rows: Sequence[Encoded]) -> Iterator[Encoded]:
        length = self._chat.max_length
        lengths = [len(row.tokens) for row in rows]
        packs = packed(lengths, length, 0) if self._chat.packing else [[index] for index in range(len(rows))]
        for pack in packs:
            tokens = [token for it in pack for token in rows[it].tokens]
            padding = length - len(tokens)
            marks = b"".join(rows[it].marks for it in pack) + bytes([PADS]) * padding
            yield Encoded([*tokens, *[self._template.pad_token] * padding], marks)

    def _conversation(self, row: Any) -> Any:
        try:
            return self._format.read(row)
        except WrongRow as error:
            return Damaged(str(error))

    def _kept(self, encoded: Any) -> list[Encoded] | Damaged:
        if isinstance(encoded, WrongConversation):
            return Damaged(str(encoded))
        most, on_long = self._chat.max_length, self._chat.on_long
        kept = []
        for tokens, counts, *_ in encoded:
            if len(tokens) > most and on_long == "error":
                return Damaged(f"expected at most {most} tokens (data.context_length), got {len(tokens)}")
            if (len(tokens) <= most or on_long == "truncate") and any(counts[1:most]):
                kept.append(_document(tokens[:most], counts[:most])._replace(is_cut=len(tokens) > most))
        return kept


def _document(tokens: Sequence[int], counts: Sequence[bool] | None = None) -> Encoded:
    marks = bytearray([COUNTS]) * len(tokens) if counts is None else bytearray(COUNTS * bool(count) for count in counts)
    if marks:
        marks[0] |= BEGINS
    return Encoded(tokens, bytes(marks))


def codec_of(config: StreamConfig, directory: Path | None = None) -> TextCodec | ChatCodec:
    """Text to tokens and back: of the tokenizer that a run has kept in `directory`, or that the config names."""
    path = tokenizer_path(config)
    is_directory = path is not None and path.is_dir()
    if directory is not None and path is not None:
        path, is_directory = directory / "tokenizer.json", not (directory / "tokenizer.json").exists()
    if not is_directory:
        return TextCodec(path, config.context_length)
    chat = chat_config(config)
    try:
        return ChatCodec(template_of(chat, directory), chat.max_length)
    except DataError:
        if config.chat is not None:
            raise
        # It has no template, which text does not need.
        return ChatCodec(template_of(chat.replace(chat_template="plain"), directory), chat.max_length)


def chat_config(config: StreamConfig) -> ChatConfig:
    """The options of conversations as `type: Chat` has them."""
    options = {} if config.chat is None else config.chat.to_dict()
    common = {"path": config.sources[0].path, "tokenizer": config.tokenizer or "", "packing": config.packing}
    return ChatConfig.from_dict({**options, **common, "max_length": config.context_length})


def chat_format(config: StreamConfig, shard: Shard) -> Format:
    """The format of the first row of a shard that can be read."""
    first = next((row for _, row in values_of(shard, None) if not isinstance(row, Damaged)), None)
    if first is None:
        raise DataError(f"{shard.path}: expected rows of conversations, got none that can be read")
    try:
        return format_of(chat_config(config).format, [*first], first)
    except DataError as error:
        raise DataError(f"{shard.path}: {error}") from error


def separator_of(config: StreamConfig, codec: TextCodec | ChatCodec) -> list[int]:
    """The tokens that end a document."""
    if isinstance(codec, ChatCodec):
        end = codec.template.eos_token
        if config.separator is None and end is not None:
            return [end]
        return codec.template.tokenizer(config.separator or _SEPARATOR, add_special_tokens=False)["input_ids"]
    text = _SEPARATOR if config.separator is None else config.separator
    return codec.encode(text).tolist() if text else []


def tokenizer_path(config: StreamConfig) -> Path | None:
    return None if config.tokenizer is None else Path(config.tokenizer).expanduser()


def identity_of(config: StreamConfig) -> str:
    """The identity of the tokenizer: the tokens depend on its files beside the text."""
    path = tokenizer_path(config)
    if path is None:
        return "bytes"
    files = sorted(path.glob("*token*.json")) + sorted(path.glob("*.model")) if path.is_dir() else [path]
    return hashlib.sha256(b"".join(hashlib.sha256(read_regular(file)).digest() for file in files)).hexdigest()


def dtype_for(vocab_size: int) -> str:
    """The smallest type that holds so many tokens."""
    return next(it for it, most in (("uint8", 2**8), ("uint16", 2**16), ("uint32", 2**32)) if vocab_size <= most)


def _kind(value: Any) -> str:
    return "none" if value is None else f"{type(value).__name__} {str(value)[:40]!r}"


_WRITTEN_VERSION = 3
_QUIET_S = 5.0


class Tokenized(NamedTuple):
    """A shard as tokens; for each row that is damaged its place and what is wrong; and how many rows were changed."""

    numbers: Numbers
    unreadable: list[str]
    counts: Mapping[str, int]


def tokenized(shards: Sequence[Shard], encoder: Encoder, *, has_marks: bool) -> list[Tokenized]:
    """The tokens of each shard, from the cache or made now; processes that do the same share the work.

    Raises:
        DataError: a shard can't be read to its end.
    """
    progress = _Progress(len(shards))
    # First what no other process is making: several of a training share the shards.
    parts = [_of_shard(it, encoder, progress, has_marks=has_marks, waits=False) for it in shards]
    for place, shard in enumerate(shards):
        if parts[place] is None:  # another process was making it
            parts[place] = _of_shard(shard, encoder, progress, has_marks=has_marks, waits=True)
    return [part for part in parts if part is not None]


def _of_shard(
    shard: Shard, encoder: Encoder, progress: "_Progress", *, has_marks: bool, waits: bool
) -> Tokenized | None:
    facts = (_WRITTEN_VERSION, shard.kind, encoder.facts, encoder.columns, has_marks)
    progress.shard += not waits
    place = shard.made("tokens", facts, lambda it: _write(it, shard, encoder, has_marks, progress), waits=waits)
    if place is None:
        return None
    record = json.loads(read_regular(place / "facts.json"))
    marks = place / "marks" if has_marks else None
    unreadable = [it.replace("\0", str(shard.path)) for it in record["unreadable"]]
    return Tokenized(Numbers(place / "tokens", encoder.dtype, 0, record["tokens"], marks), unreadable, record["counts"])


class _Progress:
    """Says now and then, on stderr, how far it is."""

    def __init__(self, count: int) -> None:
        self.shard, self._count = 0, count
        self._said = time.monotonic()

    def note(self, path: Path, tokens: int) -> None:
        if time.monotonic() - self._said > _QUIET_S:
            self._said = time.monotonic()
            place = f"shard {self.shard} of {self._count}"
            print(f"making tokens: {place}, {tokens:,} of {path}", file=sys.stderr, flush=True)


def _write(directory: Path, shard: Shard, encoder: Encoder, has_marks: bool, progress: _Progress) -> None:
    import numpy

    count, unreadable, counts = 0, [], Counter[str]()
    with (directory / "tokens").open("wb") as tokens_file, (directory / "marks").open("wb") as marks_file:
        for rows in pieces(values_of(shard, encoder.columns), encoder.rows_at_once):
            encoded = iter(encoder.encode([written for _, written in rows if not isinstance(written, Damaged)]))
            good = []
            for place, value in rows:
                written = value if isinstance(value, Damaged) else next(encoded)
                if isinstance(written, Damaged):
                    unreadable.append(f"{place}: {written.message}")
                else:
                    counts["truncated"] += any(it.is_cut for it in written)
                    counts["without an answer, or too long"] += not written
                    good.extend(written)
            for written in encoder.arranged(good):
                tokens_file.write(numpy.asarray(written.tokens, encoder.dtype).tobytes())
                count += len(written.tokens)
                if has_marks:
                    marks_file.write(written.marks)
            progress.note(shard.path, count)
    (directory / "facts.json").write_text(json.dumps({"tokens": count, "unreadable": unreadable, "counts": counts}))


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
        self._counts: Counter[str] = Counter()
        self._types: dict[str, ColumnType] = {}
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

    @property
    def said(self) -> list[str]:
        """Messages of a run at its beginning."""
        left_out = ", ".join(f"{count:,} {what}" for what, count in self._counts.items() if count)
        return [f"examples  {left_out}"] if left_out else []

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
        lines += self.said
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
            return RowSource(shards, config.columns, config.shuffle_window_mib << 20, self._types)
        documents: Documents = "packed" if config.packing else "one" if config.chat else "joined"
        size = config.context_length + (documents == "joined")
        # Windows share one token, which is the last target of one and the first input of the next.
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
            for part in parts:
                self._counts.update(part.counts)
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
