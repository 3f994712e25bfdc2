"""Text to tokens and back, as a training on text has them: bytes, or a tokenizer's; and a stream of tokens as text."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError
from .tokenizer import TextTokenizer

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
        waiting = next((size for size in lengths if any(it.startswith(held[-size:]) for it in stops)), 0)
        if len(held) > waiting:
            yield held[: len(held) - waiting]
            held = held[len(held) - waiting :]
    if held:
        yield held
