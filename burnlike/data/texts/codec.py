"""Text to tokens and back, by the tokenizer of rows of text."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from .configs import TextRowsConfig
from .tokenizers import RowTokenizer, tokenizer_at


class RowCodec:
    """The tokens of a text, with those that the tokenizer adds.

    Attributes:
        vocab_size: number of different tokens.
        context_length: how many of them a model was trained to see at once.
        stop_tokens: those that end a text.
    """

    def __init__(self, config: TextRowsConfig, directory: Path) -> None:
        tokenizer = RowTokenizer(tokenizer_at(config, directory))
        self._tokenizer = tokenizer.tokenizer
        self.vocab_size: int = tokenizer.facts["vocab_size"]
        self.context_length = config.max_length
        end = tokenizer.facts["end_token"]
        self.stop_tokens: frozenset[int] = frozenset() if end is None else frozenset([end])

    def encode(self, text: str) -> Tensor:
        """The tokens `[n]` int64 of a text."""
        return torch.tensor(self._tokenizer(text)["input_ids"], dtype=torch.int64)

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens `[n]`, without those that stand for no text."""
        return self._tokenizer.decode(tokens.tolist(), skip_special_tokens=True)

    def chat(self, messages: Sequence[Any]) -> Tensor:
        """Refuse a conversation: rows of text have no template for it."""
        raise DataError("rows of text have no chat template; give --prompt without --chat, or train on chat data")
