"""Text to tokens and back, as a training on conversations has them, and conversations to prompts."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from .configs import TEMPLATES, ChatConfig
from .formats import Conversation, WrongRow, format_named
from .templates import TEMPLATE_NAME, TOKENIZER_FOLDER, ChatTemplate


class ChatCodec:
    """The tokens of texts and of conversations, by the tokenizer and template that a run has kept.

    Attributes:
        vocab_size: number of different tokens.
        context_length: how many of them a model was trained to see at once.
        template: what writes conversations.
    """

    def __init__(self, template: ChatTemplate, context_length: int | None = None) -> None:
        self.template = template
        self.vocab_size = len(template.tokenizer)
        self.context_length = context_length

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self.template.end_tokens

    def encode(self, text: str) -> Tensor:
        """The tokens `[n]` int64 of a text, with the one that begins texts, if the tokenizer has one."""
        tokens = self.template.tokenizer(text, add_special_tokens=False)["input_ids"]
        begin = self.template.begin()
        return torch.tensor(tokens if tokens[: len(begin)] == begin else begin + tokens, dtype=torch.int64)

    def encode_all(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """The tokens of each of several texts, by all cores."""
        encoded = self.template.tokenizer([*texts], add_special_tokens=False)["input_ids"] if texts else []
        begin = self.template.begin()
        return [it if it[: len(begin)] == begin else begin + it for it in encoded]

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens `[n]`, without special ones."""
        options: Any = {"skip_special_tokens": True, "clean_up_tokenization_spaces": False}
        return self.template.tokenizer.decode(tokens.tolist(), **options)

    def chat(self, messages: Sequence[Any]) -> Tensor:
        """The tokens `[n]` int64 of a conversation, up to where the next answer begins."""
        try:
            checked = format_named("messages").read({"messages": [*messages]})
        except WrongRow as error:
            raise DataError(str(error)) from error
        return torch.tensor(self.template.prompt(Conversation(checked.messages)), dtype=torch.int64)


def codec(config: ChatConfig, directory: Path) -> ChatCodec:
    """The codec of the tokenizer and template that a run keeps in `directory`; else of those that are named."""
    return ChatCodec(template_of(config, directory), config.max_length)


def template_of(config: ChatConfig, directory: Path | None = None) -> ChatTemplate:
    """The template of a config: as a run has kept it in `directory`, or from the files that the config names."""
    named, tokenizer = config.chat_template, Path(config.tokenizer).expanduser()
    if directory is not None and (kept := directory / TOKENIZER_FOLDER).is_dir():
        tokenizer = kept
        if named is not None and named not in TEMPLATES:
            named = str(directory / TEMPLATE_NAME)
    return ChatTemplate(tokenizer, named, config.system)
