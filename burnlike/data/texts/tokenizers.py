"""Tokenizers of transformers for rows of text: read from their files, texts to tokens, and back."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from ..chat.tokenizers import read_tokenizer, tokenizer_files
from .configs import TextRowsConfig

FOLDER = "tokenizer"
"""Where a run keeps the files of its tokenizer, in `data/`."""

_ALONE = "tokenizer.json"
_BY_NAME = {
    "pad_token": ("[PAD]", "<pad>"),
    "mask_token": ("[MASK]", "<mask>"),
    "bos_token": ("<s>", "<bos>"),
    "eos_token": ("</s>", "<eos>"),
    "unk_token": ("[UNK]", "<unk>"),
}
"""Names of tokens in a file that stands alone, which does not say what they are for."""


def kept_files(path: Path) -> dict[str, Path]:
    """The files of a tokenizer that a run keeps, by their names there."""
    files = {_ALONE: path} if path.is_file() else tokenizer_files(path)
    return {f"{FOLDER}/{name}": file for name, file in files.items()}


def tokenizer_at(config: TextRowsConfig, directory: Path | None) -> Path:
    """The tokenizer that a run keeps in `directory`; where it has none, the one that the config names."""
    kept = None if directory is None else directory / FOLDER
    return kept if kept is not None and kept.is_dir() else Path(config.tokenizer).expanduser()


class RowTokenizer:
    """Makes tokens of texts, of pairs of texts and of words.

    Attributes:
        tokenizer: of transformers.
        facts: what is known of its tokens, by the names that tasks have for them.
        pad_token: what rows are filled up with.
    """

    def __init__(self, path: Path) -> None:
        """Read a directory of files, or a `tokenizer.json`."""
        self.tokenizer, self._is_alone = _opened(path)
        tokenizer = self.tokenizer
        self._drops_start = self._is_alone and tokenizer.bos_token_id is not None
        numbers = {
            "mask_token": tokenizer.mask_token_id,
            "pad_token": tokenizer.pad_token_id,
            "start_token": tokenizer.bos_token_id,
            "end_token": tokenizer.eos_token_id if tokenizer.eos_token_id is not None else tokenizer.sep_token_id,
        }
        pads = (numbers["pad_token"], tokenizer.eos_token_id, 0)
        self.pad_token: int = next(number for number in pads if number is not None)
        special = sorted(tokenizer.all_special_ids)
        self.facts: dict[str, Any] = {
            "vocab_size": len(tokenizer), "special_tokens": special, **numbers, "padding": self.pad_token,
        }  # fmt: skip

    def texts(
        self, texts: Sequence[str], others: Sequence[str] | None, max_length: int, *, is_target: bool = False
    ) -> Mapping[str, list[Any]]:
        """`input_ids` of each text, or of each pair, and whatever else the tokenizer gives for its model."""
        options: dict[str, Any] = {"truncation": True, "max_length": max_length, "return_attention_mask": False}
        if is_target:
            options["max_length"] += self._drops_start
            rows = self.tokenizer(text_target=[*texts], **options)["input_ids"]
            return {"input_ids": [self._target(row, max_length) for row in rows]}
        if self._is_alone:  # a directory says what its model takes
            options["return_token_type_ids"] = others is not None
        tokens = self.tokenizer([*texts], None if others is None else [*others], **options)
        named = {"input_ids": [*tokens["input_ids"]]}
        # Of a tokenizer that does not mark pairs all types are 0, which say nothing.
        if others is not None and any(1 in types for types in tokens.get("token_type_ids", ())):
            named["token_type_ids"] = [*tokens["token_type_ids"]]
        return named

    def _target(self, row: Sequence[int], max_length: int) -> list[int]:
        """The tokens of a text that is to be written, with an end, which a model learns to write.

        The start token that a file alone may put before each text is left out: the decoder is shown one before all.
        """
        end = self.tokenizer.eos_token_id
        tokens = [*row[1:]] if self._drops_start and row[:1] == [self.tokenizer.bos_token_id] else [*row]
        if end is None or (tokens[-1:] == [end] and len(tokens) <= max_length):
            return tokens[:max_length]
        return [*tokens[: max_length - 1], end]

    def marked(self, texts: Sequence[str], max_length: int) -> Mapping[str, list[Any]]:
        """`input_ids`, `special_tokens_mask` and `word_ids` (-1: of no word) of each text."""
        options: dict[str, Any] = {"truncation": True, "max_length": max_length, "return_special_tokens_mask": True}
        tokens = self.tokenizer([*texts], return_attention_mask=False, **options)
        words = [_words(tokens.word_ids(place)) for place in range(len(texts))]
        return {name: [*tokens[name]] for name in ("input_ids", "special_tokens_mask")} | {"word_ids": words}

    def words(self, sentences: Sequence[Sequence[str]], max_length: int) -> tuple[list[Any], list[list[int]]]:
        """`input_ids` of each list of words, and for each token the number of its word, -1 for none."""
        options: dict[str, Any] = {"truncation": True, "max_length": max_length, "return_attention_mask": False}
        tokens = self.tokenizer([[*sentence] for sentence in sentences], is_split_into_words=True, **options)
        return [*tokens["input_ids"]], [_words(tokens.word_ids(place)) for place in range(len(sentences))]


def _words(numbers: Sequence[int | None]) -> list[int]:
    return [-1 if number is None else number for number in numbers]


def _opened(path: Path) -> tuple[Any, bool]:
    """The tokenizer at a path; and True if it is a `tokenizer.json` that stands alone."""
    if not path.exists():
        raise DataError(
            f"data.tokenizer: there is no file or directory {path.absolute()}; expected a directory with the files of a"
            " tokenizer, or a tokenizer.json"
        )
    has_settings = path.is_dir() and any((path / it).exists() for it in ("tokenizer_config.json", "config.json"))
    file = path / _ALONE if path.is_dir() else path
    if has_settings or not file.is_file():
        return read_tokenizer(path), False
    try:
        from transformers import PreTrainedTokenizerFast
    except ImportError as error:
        raise DataError("rows of text need the package transformers: pip install 'burnlike[transformers]'") from error
    try:
        tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(file))
    except Exception as error:  # the package tokenizers raises Exception itself
        text = " ".join(str(error).split())
        raise DataError(f"data.tokenizer: {file}: expected a tokenizer.json of tokenizers: {text}") from error
    for role, names in _BY_NAME.items():
        specials = [name for name in names if name in tokenizer.get_vocab()]
        if specials and getattr(tokenizer, role) is None:
            setattr(tokenizer, role, specials[0])
    return tokenizer, True


class RowCodec:
    """The tokens of a text, with those that the tokenizer adds.

    Attributes:
        tokenizer: of transformers.
        vocab_size: number of different tokens.
        context_length: how many of them a model was trained to see at once.
        stop_tokens: those that end a text.
    """

    def __init__(self, config: TextRowsConfig, directory: Path) -> None:
        tokenizer = RowTokenizer(tokenizer_at(config, directory))
        self.tokenizer = tokenizer.tokenizer
        self.vocab_size: int = tokenizer.facts["vocab_size"]
        self.context_length = config.max_length
        end = tokenizer.facts["end_token"]
        self.stop_tokens: frozenset[int] = frozenset() if end is None else frozenset([end])

    def encode(self, text: str) -> Tensor:
        """The tokens `[n]` int64 of a text."""
        return torch.tensor(self.tokenizer(text)["input_ids"], dtype=torch.int64)

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens `[n]`, without those that stand for no text."""
        return self.tokenizer.decode(tokens.tolist(), skip_special_tokens=True)

    def chat(self, messages: Sequence[Any]) -> Tensor:
        """Refuse a conversation: rows of text have no template for it."""
        raise DataError("rows of text have no chat template; give --prompt without --chat, or train on chat data")
