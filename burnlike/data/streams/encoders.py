"""Encoders of the rows of a stream into tokens: of text, of lists of tokens, of conversations.

The tokens of a shard are written to a file once: piece by piece, whatever the size of the shard.
"""

import hashlib
import json
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from ..._regular_file import read_regular
from ...errors import DataError
from ..chat.codec import ChatCodec, template_of
from ..chat.configs import ChatConfig
from ..chat.conversations import packed
from ..chat.formats import Format, WrongRow, format_of
from ..chat.templates import ChatTemplate, WrongConversation
from ..codec import TextCodec
from ..sources.rows import pieces
from .configs import StreamConfig
from .files import Shard
from .rows import BEGINS, COUNTS, PADS, Damaged, Numbers, values_of

_SEPARATOR = "\n\n"
_VERSION = 3
"""Of how conversations are written: tokens that are kept of another one are not taken."""


class Encoded(NamedTuple):
    """A row as tokens, and a mark for each: `BEGINS`, `COUNTS`, `PADS` or several."""

    tokens: Sequence[int]
    marks: bytes


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
        ...


class TextEncoder:
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

    def arranged(self, rows: Sequence[Encoded]) -> Iterator[Encoded]:
        return iter(rows)


class ColumnEncoder:
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

    def arranged(self, rows: Sequence[Encoded]) -> Iterator[Encoded]:
        return iter(rows)


class ChatEncoder:
    """Conversations, each in rows of `context_length` tokens of its own, or several packed into one."""

    rows_at_once = 4096
    columns: tuple[str, ...] | None = None

    def __init__(self, config: StreamConfig, template: ChatTemplate, rows: Format) -> None:
        self._config, self._template, self._format = config, template, rows
        self._chat = chat_config(config)
        self.dtype = dtype_for(len(template.tokenizer))
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
                kept.append(_document(tokens[:most], counts[:most]))
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
    if config.chat is not None:
        return ChatCodec(template_of(chat, directory), chat.max_length)
    try:
        return ChatCodec(template_of(chat, directory), chat.max_length)
    except DataError:  # it has no template, which text does not need
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


_WRITTEN_VERSION = 2
_QUIET_S = 5.0


class Tokenized(NamedTuple):
    """A shard as tokens, and for each row that is damaged its place and what is wrong."""

    numbers: Numbers
    unreadable: list[str]


def tokenized(shards: Sequence[Shard], encoder: Encoder, *, has_marks: bool) -> list[Tokenized]:
    """The tokens of each shard, from the cache or made now; processes that do the same share the work.

    Raises:
        DataError: a shard can't be read to its end.
    """
    progress = _Progress(len(shards))
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
    return Tokenized(Numbers(place / "tokens", encoder.dtype, 0, record["tokens"], marks), unreadable)


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

    count, unreadable = 0, []
    with (directory / "tokens").open("wb") as tokens_file, (directory / "marks").open("wb") as marks_file:
        for rows in pieces(values_of(shard, encoder.columns), encoder.rows_at_once):
            encoded = iter(encoder.encode([written for _, written in rows if not isinstance(written, Damaged)]))
            good = []
            for place, value in rows:
                written = value if isinstance(value, Damaged) else next(encoded)
                if isinstance(written, Damaged):
                    unreadable.append(f"{place}: {written.message}")
                else:
                    good.extend(written)
            for written in encoder.arranged(good):
                tokens_file.write(numpy.asarray(written.tokens, encoder.dtype).tobytes())
                count += len(written.tokens)
                if has_marks:
                    marks_file.write(written.marks)
            progress.note(shard.path, count)
    (directory / "facts.json").write_text(json.dumps({"tokens": count, "unreadable": unreadable}))
