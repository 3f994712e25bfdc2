"""Byte-pair tokens of text, by the package `tokenizers`."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..errors import DataError

PIECE_CHARACTERS = 100_000
SMALLEST = 256
"""A token for each byte."""


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

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens `[n]`."""
        return self._tokenizer.decode(tokens.tolist(), skip_special_tokens=False)


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Any:
    """Learn byte-pair tokens (Sennrich et al. 2016) over bytes, so that any text has tokens.

    The same texts give the same tokens.

    Args:
        vocab_size: how many tokens; at least one for each byte.

    Returns:
        A `tokenizers.Tokenizer`; its `save(path)` writes the file.
    """
    tokenizers = _package()
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=vocab_size,
        initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator((piece for text in texts for piece in pieces_of(text)), trainer)
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
