"""ChatData: the conversations of a config, read, written by a template, and packed."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import torch

from ...errors import DataError
from ..configs import NO_TARGET
from ..dataset import FileFingerprint
from ..sources.rows import pieces
from ..sources.splits import Splits, histogram, marked_text, named_parts
from .codec import ChatCodec, template_of
from .configs import ChatConfig, PreferencesConfig, PromptsConfig
from .conversations import ConversationBatcher, Conversations, ConversationTokens, PackedConversations
from .files import Source, sources_of
from .formats import Conversation, Format, WrongRow, expect_texts, format_of
from .images import ImageReader, PicturedBatcher, PicturedConversations, PicturedTokens
from .templates import Encoded, WrongConversation

AT_ONCE = 512
_SHOWN_ROWS = 20
_SEVERAL_ROWS = "in several rows, as the template writes answers otherwise when more follows"
_PARTS = ("train", "valid")
_REPEATED = re.compile(r"(<[^<>\s]+>)\1{2,}")
"""Tokens of one image."""


class ChatData(Splits):
    """Conversations in parts.

    Attributes:
        template: what wrote them.
        codec: text to their tokens, and back.
        format: of the rows.
        vocab_size: number of different tokens.
        counts: how many conversations were `read`, `truncated`, `too long` and left out, `without an answer` and left
            out, `unreadable`.
        parts: the rows of tokens of each file or part.
    """

    dataset_type: type[Conversations] = Conversations
    batcher_type: Callable[[int], ConversationBatcher] = ConversationBatcher
    packed_type: type[PackedConversations] = PackedConversations
    packed_batcher_type: type[ConversationBatcher] = ConversationBatcher
    packed_conversations = 1
    """How many conversations of `max_length` a packed row has room for."""

    def __init__(self, config: ChatConfig | PreferencesConfig | PromptsConfig, directory: Path | None = None) -> None:
        """Read all; `directory` has the tokenizer that a run has kept."""
        self._config = config
        self.template = template_of(config, directory)
        self.codec = ChatCodec(self.template, config.max_length)
        self.vocab_size = self.codec.vocab_size
        self.counts: Counter[str] = Counter()
        self._unreadable: list[str] = []
        by_split = sources_of(config.path, "data.path")
        if config.validation_path is not None:
            of_validation = sources_of(config.validation_path, "data.validation_path")
            all_of_it = [*chain(*of_validation.values())]
            by_split = {**by_split, config.valid_split: of_validation.get(config.valid_split) or all_of_it}
        train, *_ = named_parts(config, by_split, config.path)
        self.format: Any = self._format_of(train[0])
        self._reader = ImageReader(self.template.directory, self.template.tokenizer, self.template.pad_token)
        self._images: dict[str, Path] = {}
        rows = {name: self._read(sources) for name, sources in by_split.items()}
        if self._images:
            self.dataset_type = PicturedConversations
            self.batcher_type = partial(PicturedBatcher, reader=self._reader)
        super().__init__(*self._split(rows, self._fingerprint_of(by_split)))
        self.facts = {"format": self.format.name, "vocab_size": self.vocab_size}
        self.facts |= {"new_tokens": self.template.new_tokens} if self.template.new_tokens else {}
        self.files = self.template.files

    def _format_of(self, source: Source) -> Format:
        """The format of the rows, of which `source` has the first."""
        if (first := next(iter(source), None)) is None:
            raise DataError(f"{source.rows.path} has no rows")
        try:
            return self._format_of_row(first[1])
        except DataError as error:
            raise DataError(f"{source.rows.path}: {error}") from error

    def _format_of_row(self, first: Mapping[str, Any]) -> Format:
        return format_of(self._config.format, [*first], first)

    @property
    def trained_on(self) -> str:
        """The tokens that have a loss, for a person."""
        return f"loss on {self._config.loss.replace('_', ' ')}"

    @property
    def said(self) -> list[str]:
        """Messages of a run at its beginning."""
        return [
            line for line in self.describe() if line.startswith(("format", "examples", "tokens", "images", "packing"))
        ]

    def describe(self) -> list[str]:
        lengths = self._train_rows.lengths.tolist()
        tokens, counted = self._train_rows.rows.n_tokens()
        left_out = ", ".join(f"{count:,} {what}" for what, count in self.counts.items() if count and what != "read")
        named, parts = self.format.name, {"train": self.train, "valid": self.valid, **self.splits}
        lines = [
            f"format    {named}; chat template {self.template.name}; {self.trained_on}",
            f"examples  {self.counts['read']:,} read{f'; {left_out}' if left_out else ''}",
            "parts     " + ", ".join(f"{len(getattr(it, 'conversations', it)):,} {name}" for name, it in parts.items()),
            f"tokens    {tokens:,} of {self.vocab_size:,} different ones"
            + (f", {counted / tokens:.1%} with loss" if counted else ""),
        ]
        if self._images:
            rows: Any = self._train_rows.rows
            images = [len(it.images) for it in rows.pictured if it.images]
            lines.append(f"images    {sum(images):,} in {len(images):,} conversations")
        least, bars = histogram(lengths)
        lines += [f"lengths   {least} tokens", f"          {bars}"]
        if isinstance(self.train, PackedConversations):
            fill = f"{self.train.fill:.1%} of {len(self.train):,} rows of {self.train.length:,} tokens is filled"
            lines.append(f"packing   {fill}, by {len(self._train_rows):,} conversations")
        lines += [f"unread    {it}" for it in self._unreadable]
        return lines

    def examples(self, count: int) -> list[str]:
        return [self._shown(self._train_rows[index]) for index in range(min(count, len(self._train_rows)))]

    def _shown(self, item: Mapping[str, Any]) -> str:
        """The text of `input_ids` and `labels` of a conversation, with what has no loss marked."""

        def decode(tokens: torch.Tensor) -> str:
            return self.template.tokenizer.decode(tokens.tolist())

        text = marked_text(item["input_ids"], (item["labels"] != NO_TARGET).tolist(), decode)
        files = item["pictured"].images if "pictured" in item else ()
        text = _REPEATED.sub(lambda it: f"{it[1]} x {len(it[0]) // len(it[1])} ", text) if files else text
        return "\n".join([*(f"image {file}" for file in files), text])

    def expect_vocabulary(self, size: int) -> None:
        """Refuse a model that does not know all tokens of the tokenizer."""
        if size < self.vocab_size:
            raise DataError(f"data.tokenizer has {self.vocab_size} tokens, and the model knows {size}")

    def _read(self, sources: Sequence[Source]) -> ConversationTokens:
        rows = PicturedTokens() if ImageReader.is_in(self.template.directory) else ConversationTokens()
        for piece in pieces(((source, *row) for source in sources for row in source), AT_ONCE):
            self.counts["read"] += len(piece)
            read = [
                (place, conversation)
                for source, place, row in piece
                if (conversation := self._conversation(source, place, row)) is not None
            ]
            encoded = self.template.encode([it for _, it in read], self._config.loss, self._reader)
            for (place, _), result in zip(read, encoded, strict=True):
                if isinstance(result, WrongConversation):
                    self._note(f"{place}: {result}")
                else:
                    self.counts[_SEVERAL_ROWS] += len(result) > 1
                    rows.append_all(kept for it in result if (kept := self._kept(place, it)) is not None)
        return rows

    def _conversation(self, source: Source, place: str, row: Mapping[str, Any]) -> Conversation | None:
        try:
            conversation = self._reader.with_images(self.format.read(row), row, source)
            expect_texts(conversation)
            self._count_left_out(conversation)
            return conversation
        except WrongRow as error:
            self._note(f"{place}: {error}")
            return None

    def _count_left_out(self, conversation: Conversation) -> None:
        for kind in self.template.left_out(conversation):
            self.counts[f"with {kind}, which the template leaves out"] += 1

    def _note(self, text: str) -> None:
        self.counts["unreadable"] += 1
        if len(self._unreadable) < _SHOWN_ROWS:
            self._unreadable.append(text)

    def _kept(self, place: str, row: Encoded) -> Encoded | None:
        """A conversation that is not longer than may be; None where it is left out."""
        most = self._config.max_length
        if row.pictured.images and self._config.packing:
            raise DataError(f"{place}: data.packing: expected false where conversations have images: each has a row")
        if len(row.tokens) > most:
            if self._config.on_long == "error":
                raise DataError(
                    f"{place}: expected at most {most} tokens (data.max_length), got {len(row.tokens)}; choose another"
                    " max_length, or data.on_long: truncate or drop"
                )
            if self._config.on_long == "drop" or most < row.image_end:  # an image is whole
                self.counts["too long"] += 1
                return None
            self.counts["truncated"] += 1
            row = row._replace(tokens=row.tokens[:most], counts=row.counts[:most])
        # The first token has nothing before it to be predicted from.
        if not any(row.counts[1:]):
            self.counts["without an answer"] += 1
            return None
        self._images |= {f"image {len(self._images) + number}": it for number, it in enumerate(row.pictured.images)}
        return row

    def _split(self, rows: Mapping[str, ConversationTokens], fingerprint: FileFingerprint) -> tuple[Any, ...]:
        """The arguments of `Splits`."""
        config = self._config
        whole, valid, rest = named_parts(config, rows, self._config.path)
        unreadable = [*self._unreadable, *[""] * (self.counts["unreadable"] - len(self._unreadable))]
        if valid is not None:
            parts = [(whole, [*range(len(whole))]), (valid, [*range(len(valid))])]
        else:
            parts = [(whole, it) for it in whole.drawn(config.validation_fraction, config.split_seed)]
        for name, (_, indices) in zip(_PARTS, parts, strict=True):
            if not indices:
                told = "; ".join([f"{count} {what}" for what, count in self.counts.items()] + unreadable[:1])
                raise DataError(f"{config.path}: nothing is left to {name} on ({told})")
        datasets = [self.dataset_type(it, indices, fingerprint) for it, indices in parts]
        datasets[0].unreadable = unreadable
        self._train_rows = datasets[0]
        others = {name: self.dataset_type(it, [*range(len(it))], fingerprint) for name, it in rest.items() if len(it)}
        if not config.packing:
            return *datasets, self.batcher_type(self.template.pad_token), others, fingerprint
        capacity = self.packed_conversations * config.max_length
        packs = [self.packed_type(dataset, capacity, config.split_seed) for dataset in datasets]
        more = {name: self.packed_type(value, capacity, config.split_seed) for name, value in others.items()}
        length = max(pack.length for pack in packs)
        return *packs, self.packed_batcher_type(self.template.pad_token, length), more, fingerprint

    def _fingerprint_of(self, by_split: Mapping[str, Sequence[Source]]) -> FileFingerprint:
        files = {
            f"{part}/{number}/{place}": file
            for part, sources in by_split.items()
            for number, source in enumerate(sources)
            for place, file in enumerate(source.files)
        }
        files |= self._images
        facts = self._config.to_dict()
        for name in ("path", "tokenizer", "validation_path", "chat_template", "new_tokens"):
            facts.pop(name, None)
        tokenizer = self.template.tokenizer.backend_tokenizer.to_str()
        return FileFingerprint(files, facts, self.template.text, tokenizer)
