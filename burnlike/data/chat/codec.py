"""Text to tokens and back, as a training on conversations has them, and new prompts for predictions."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...errors import DataError
from ..dataset import Dataset, InMemDataset
from ..sources.rows import bytes_of, text_lines
from ..sources.splits import Unlabeled
from .configs import TEMPLATES, ChatFormatConfig, ConversationsConfig
from .files import file_source
from .formats import COLUMNS, Conversation, Format, WrongRow, expect_texts, format_named
from .templates import TEMPLATE_NAME, TOKENIZER_FOLDER, ChatTemplate


class ChatCodec:
    """The tokens of texts and of conversations, by the tokenizer and template that a run has kept.

    Attributes:
        vocab_size: number of different tokens.
        context_length: how many of them a model was trained to see at once.
        template: what writes conversations.
        prompt_in: reads the messages before the answer from a row.
    """

    def __init__(
        self,
        template: ChatTemplate,
        context_length: int | None = None,
        prompt_in: Callable[[Mapping[str, Any]], Conversation] = lambda row: format_for(row).prompt(row),
    ) -> None:
        self.template, self.prompt_in = template, prompt_in
        self.vocab_size = len(template.tokenizer)
        self.context_length = context_length

    @property
    def stop_tokens(self) -> frozenset[int]:
        """Tokens that end an answer."""
        return self.template.end_tokens

    def encode(self, text: str) -> Tensor:
        """The tokens `[n]` int64 of a text, with the one that begins texts, if the tokenizer has one."""
        return torch.tensor(self.encode_all([text])[0], dtype=torch.int64)

    def encode_all(self, texts: Sequence[str]) -> list[Sequence[int]]:
        """The tokens of each of several texts, by all cores."""
        encoded = self.template.tokenizer([*texts], add_special_tokens=False)["input_ids"] if texts else []
        begin = self.template.begin()
        return [it if it[: len(begin)] == begin else begin + it for it in encoded]

    def decode(self, tokens: Tensor) -> str:
        """The text of tokens `[n]`, without special ones that are not new."""
        new = {*self.template.new_tokens.values()}
        written = [it for it in tokens.tolist() if not new or it in new or it not in self.template.special]
        options: Any = {"skip_special_tokens": not new, "clean_up_tokenization_spaces": False}
        return self.template.tokenizer.decode(written, **options)

    def chat(self, messages: Sequence[Any]) -> Tensor:
        """The tokens `[n]` int64 of a conversation, up to where the next answer begins."""
        try:
            checked = format_named("messages").read({"messages": [*messages]})
        except WrongRow as error:
            raise DataError(str(error)) from error
        return torch.tensor(self.template.prompt(Conversation(checked.messages)), dtype=torch.int64)


def codec(config: ConversationsConfig[Any], directory: Path) -> ChatCodec:
    """The codec of the tokenizer and template that a run keeps in `directory`; else of those that are named."""
    return ChatCodec(template_of(config, directory), config.max_length, config.prompt_in)


def template_of(config: ConversationsConfig[Any], directory: Path | None = None) -> ChatTemplate:
    """The template of a config: as a run has kept it in `directory`, or from the files that the config names."""
    named, tokenizer = config.chat_template, Path(config.tokenizer).expanduser()
    if directory is not None and (kept := directory / TOKENIZER_FOLDER).is_dir():
        tokenizer = kept
        if named is not None and named not in TEMPLATES:
            named = str(directory / TEMPLATE_NAME)
    return ChatTemplate(tokenizer, named, config.system, new_tokens=config.new_tokens, thoughts=config.thoughts)


def prompts(config: ConversationsConfig[Any], sources: Sequence[Any], directory: Path) -> Unlabeled:
    """The prompts of files (`.txt`: one a line) and streams, as tokens, with the codec that decodes the answers."""
    run_codec = codec(config, directory)
    rows = [prompt for source in sources for prompt in read_prompts(run_codec, source)]
    return _unlabeled(rows, PromptBatcher(run_codec))


def read_prompts(run_codec: Any, source: Any, **options: Any) -> Iterator[tuple[str, Tensor]]:
    """The place and the tokens of each prompt of a file or a stream; options of `prompt_tokens`."""
    for place, row in prompt_rows(source):
        try:
            yield place, prompt_tokens(run_codec, row, **options)
        except DataError as error:
            raise DataError(f"{place}: {error}") from error


def prompt_tokens(run_codec: Any, row: Any, *, continues: bool = False, system: str | None = None) -> Tensor:
    """The tokens `[n]` int64 of a prompt: a text, or a row of a file.

    Args:
        continues: whether a text, also that of the column `prompt`, is gone on with as it is, in place of answered.
        system: the message that a conversation without one begins with.
    """
    text = row if isinstance(row, str) else row.get("prompt") if continues else None
    if isinstance(text, str) and continues:
        if not text:
            raise DataError("prompt: expected a text of at least one character, got an empty one")
        return run_codec.encode(text)
    if not isinstance(run_codec, ChatCodec):
        if isinstance(row, str):
            return run_codec.chat([row])  # refuses it
        raise DataError(f"expected a text, or a row with a text as `prompt`, got {', '.join(row)}")
    try:
        is_text = isinstance(row, str)
        conversation = Conversation([{"role": "user", "content": row}]) if is_text else run_codec.prompt_in(row)
        if system is not None and not any(message["role"] == "system" for message in conversation.messages[:1]):
            conversation.messages.insert(0, {"role": "system", "content": system})
        expect_texts(conversation)
        return torch.tensor(run_codec.template.prompt(conversation))
    except WrongRow as error:
        raise DataError(str(error)) from error


def beginnings(run_codec: Any, sources: Sequence[Any]) -> Unlabeled:
    """The lines of text files and streams as tokens, which a language model of plain text goes on with."""
    lines = ((place, line.rstrip("\r\n")) for source in sources for place, line in _lines_of(source))
    rows = [(place, run_codec.encode(text)) for place, text in lines if text]
    return _unlabeled(rows, PromptBatcher(run_codec, continues=True))


def _unlabeled(rows: Sequence[tuple[str, Tensor]], batcher: "PromptBatcher") -> Unlabeled:
    dataset: Dataset[Any] = InMemDataset([{"input_ids": tokens} for _, tokens in rows])
    return Unlabeled(dataset, [place for place, _ in rows], batcher)


def prompt_rows(source: Any) -> Iterator[tuple[str, Any]]:
    """The place of each row, and the row: a text where it is a line of plain text."""
    if isinstance(source, Path) and source.suffix.lower() != ".txt":
        yield from file_source(source)
        return
    for place, line in _lines_of(source):
        if line.lstrip().startswith("{"):
            try:
                yield place, json.loads(line)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{place}: expected a JSON object, or plain text: {error}") from error
        elif line.strip():
            yield place, line.strip()


def _lines_of(source: Any) -> Iterator[tuple[str, str]]:
    """The place and the text of each line of a text file, or of a stream."""
    name = source if isinstance(source, Path) else Path("standard input")
    stream = None if isinstance(source, Path) else BytesIO(bytes_of(source)).readlines()
    for number, line in enumerate(text_lines(name, stream), start=1):
        yield f"{name}:{number}", line


def format_for(row: Mapping[str, Any], wanted: str | ChatFormatConfig | None = None) -> Format:
    """The format that a config names; else the one whose first column, before the answer's, the row has."""
    if isinstance(wanted, ChatFormatConfig):
        return format_named(wanted)
    first_columns = {name: columns[0] for name, columns in COLUMNS.items()}
    format_name = wanted or next((name for name, column in first_columns.items() if column in row), None)
    if format_name is None:
        raise WrongRow(f"expected one of the columns {', '.join(first_columns.values())}, got {', '.join(row)}")
    return format_named(format_name)


class PromptBatcher:
    """Makes mappings of `input_ids`, a list of prompts `[n]` int64, their `codec`, and `continues`: whether a model
    goes on with their text, in place of answering it.
    """

    makes = "prompts"

    def __init__(self, run_codec: Any, *, continues: bool = False) -> None:
        self._codec = run_codec
        self._continues = continues

    def batch(self, items: Sequence[Mapping[str, Tensor]], device: torch.device) -> dict[str, Any]:
        tokens = [item["input_ids"].to(device) for item in items]
        return {"input_ids": tokens, "codec": self._codec, "continues": self._continues}
