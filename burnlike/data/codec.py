"""Text to tokens and back, as a training on text has them: bytes, or byte-pair tokens by the package `tokenizers`.

A stream of tokens becomes text as it comes.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError

PIECE_CHARACTERS = 100_000
SPECIAL_TOKENS = {"pad": "<pad>", "bos": "<s>", "eos": "</s>", "unk": "<unk>", "mask": "<mask>"}
"""The tokens of `train_tokenizer` that stand for no text, by their roles; their numbers are 0 to 4, in this order."""
SMALLEST = 256 + len(SPECIAL_TOKENS)
"""A token for each byte, and the special ones."""


class TextTokenizer:
    """Turns text into tokens and back, by a file that `tokenizers` has written.

    Attributes:
        vocab_size: number of different tokens.
    """

    def __init__(self, path: Path) -> None:
        tokenizers = _package()
        if not path.is_file():
            raise DataError(f"data.tokenizer: there is no file {path}; make one by `burnlike tokenizer`")
        try:
            self._tokenizer = tokenizers.Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises Exception itself
            raise DataError(f"{path}: expected a tokenizer.json, as `burnlike tokenizer` writes it: {error}") from error
        self._tokenizer.no_truncation()  # a file may say to cut texts, and to fill them up
        self._tokenizer.no_padding()
        self.vocab_size: int = self._tokenizer.get_vocab_size()

    def encode(self, text: str) -> Tensor:
        """The tokens `[n]` int32 of a text."""
        pieces = self._tokenizer.encode_batch(list(pieces_of(text)), add_special_tokens=False)
        return torch.tensor([token for piece in pieces for token in piece.ids], dtype=torch.int32)

    def encode_all(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """The tokens of each of several texts."""
        pieces = [(number, piece) for number, text in enumerate(texts) for piece in pieces_of(text)]
        tokens: list[list[int]] = [[] for _ in texts]
        encoded = self._tokenizer.encode_batch([piece for _, piece in pieces], add_special_tokens=False)
        for (number, _), piece_tokens in zip(pieces, encoded, strict=True):
            tokens[number] += piece_tokens.ids
        return [*tokens]

    def content(self) -> Any:
        """The content of the file."""
        return json.loads(self._tokenizer.to_str())

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens `[n]`."""
        return self._tokenizer.decode(tokens.tolist(), skip_special_tokens=False)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Any:
    """Learn byte-pair tokens (Sennrich et al. 2016) over bytes, so that any text has tokens.

    The same texts give the same tokens. A text is `<s> text </s>` where special tokens are asked for, a pair of texts
    `<s> one </s> other </s>`, of which the second text has the token type 1.

    Args:
        vocab_size: how many tokens; at least one for each byte, and the special ones.

    Returns:
        A `tokenizers.Tokenizer`; its `save(path)` writes the file.
    """
    tokenizers = _package()
    begin, end = SPECIAL_TOKENS["bos"], SPECIAL_TOKENS["eos"]
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token=SPECIAL_TOKENS["unk"]))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=[*SPECIAL_TOKENS.values()],
        show_progress=False,
    )
    tokenizer.train_from_iterator((piece for text in texts for piece in pieces_of(text)), trainer)
    tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
        single=f"{begin} $A {end}",
        pair=f"{begin} $A {end} $B:1 {end}:1",
        special_tokens=[(it, tokenizer.token_to_id(it)) for it in (begin, end)],
    )
    return tokenizer


def pieces_of(text: str) -> Iterator[str]:
    """The text in pieces that end at the ends of lines, where tokens end too."""
    lines: list[str] = []
    size = 0
    for line in text.splitlines(keepends=True):
        lines.append(line)
        size += len(line)
        if size >= PIECE_CHARACTERS:
            yield "".join(lines)
            lines, size = [], 0
    if lines:
        yield "".join(lines)


def _package() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise DataError("byte-pair tokens need the package tokenizers: pip install 'burnlike[tokenizers]'") from error
    return tokenizers


BYTES = 256
_UNKNOWN = "\N{REPLACEMENT CHARACTER}"
_LONGEST_TAIL = 3
"""Bytes of a character in UTF-8 that may wait for the last one."""


class TextCodec:
    """The tokens of a text: its bytes in UTF-8, or those of a tokenizer's file.

    Attributes:
        vocab_size: number of different tokens.
        context_length: how many of them a model was trained to see at once; None where nothing says it.
        stop_tokens: tokens that end a text; none, as texts are one after the other in such data.
    """

    stop_tokens: frozenset[int] = frozenset()

    def __init__(self, tokenizer: Path | None = None, context_length: int | None = None) -> None:
        self._tokenizer = None if tokenizer is None else TextTokenizer(tokenizer)
        self.vocab_size = BYTES if self._tokenizer is None else self._tokenizer.vocab_size
        self.context_length = context_length

    def encode(self, text: str) -> Tensor:
        """The tokens `[n]` int64 of a text."""
        if self._tokenizer is not None:
            return self._tokenizer.encode(text).long()
        return torch.tensor(list(text.encode()), dtype=torch.int64)

    def tokenizer_content(self) -> Any:
        """The content of the tokenizer's file; None where tokens are bytes."""
        return None if self._tokenizer is None else self._tokenizer.content()

    def encode_all(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """The tokens of each of several texts, by all cores where a tokenizer makes them."""
        if self._tokenizer is not None:
            return self._tokenizer.encode_all(texts)
        return [text.encode() for text in texts]

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens `[n]`; bytes that are not UTF-8 show as the replacement character.

        Tokens of a larger vocabulary that are no bytes have no text.
        """
        if self._tokenizer is not None:
            return self._tokenizer.decode(tokens)
        return bytes(it for it in tokens.tolist() if it < BYTES).decode("utf-8", errors="replace")

    def chat(self, messages: Sequence[Any]) -> Tensor:
        """Refuse a conversation: plain text has no template for it."""
        raise DataError("plain text has no chat template; give --prompt without --chat, or train on chat data")


def text_pieces(tokens: Iterable[int], decode: Callable[[Tensor], str]) -> Iterator[str]:
    """The text of tokens as they come; a character whose bytes are in several tokens comes whole.

    Tokens are decoded with those of the piece before, as some decoders drop a space at the beginning.
    """
    ids: list[int] = []
    written, begin = "", 0
    text = ""
    for token in tokens:
        ids.append(token)
        text = decode(torch.tensor(ids))
        tail = len(text) - len(text.rstrip(_UNKNOWN))
        ready = text[: len(text) - min(tail, _LONGEST_TAIL)]
        if len(ready) > len(written):
            yield ready[len(written) :]
            written = ready
            if not tail:  # the tokens before the last piece are not needed any more
                ids, begin = ids[begin:], len(ids) - begin
                written = text = decode(torch.tensor(ids))
    if len(text) > len(written):
        yield text[len(written) :]


def until(pieces: Iterable[str], stops: Sequence[str]) -> Iterator[str]:
    """The pieces of a text up to the first of the texts `stops`, which may lie across several pieces."""
    held = ""
    for piece in pieces:
        held += piece
        places = [place for stop in stops if (place := held.find(stop)) >= 0]
        if places:
            if min(places):
                yield held[: min(places)]
            return
        # The longest end that may be the beginning of a stop text waits.
        lengths = range(min(len(held), max(map(len, stops), default=0)), 0, -1)
        waiting = next((size for size in lengths if any(stop.startswith(held[-size:]) for stop in stops)), 0)
        if len(held) > waiting:
            yield held[: len(held) - waiting]
            held = held[len(held) - waiting :]
    if held:
        yield held
