"""PromptData: prompts whose answers a model writes while it trains, with the columns that judge the answers."""

from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch

from ...errors import DataError
from ..sources.rows import pieces
from .configs import PromptsConfig
from .conversations import ConversationBatcher, Conversations, ConversationTokens
from .files import Source
from .formats import Conversation, Messages, WrongRow, expect_texts, tools_of
from .images import image_column
from .preferences import PROMPTS, system_beside
from .splits import AT_ONCE, ChatData
from .templates import Encoded


class PromptFormat(NamedTuple):
    """The way to read rows, by the name of the column of the prompt."""

    name: str

    def read(self, row: Mapping[str, Any]) -> Conversation:
        """The messages before the answer; answers at the end of a conversation are left out."""
        if row.get(self.name) is None:
            raise WrongRow(f"expected a prompt in the column {self.name}, got none")
        messages = [*PROMPTS[self.name](row)]
        messages[:0] = system_beside(self.name, row, messages)
        while messages and messages[-1]["role"] == "assistant":
            messages.pop()
        if not messages:
            raise WrongRow(f"{self.name}: expected a message before the answer")
        conversation = Conversation(messages, tools_of(row))
        expect_texts(conversation)
        return conversation


def format_of_prompts(row: Mapping[str, Any]) -> PromptFormat:
    """The format that the columns of a row show; a DataError if they show none."""
    if (column := next((name for name in PROMPTS if name in row), None)) is None:
        raise DataError(f"expected rows with one of {', '.join(PROMPTS)}, got {', '.join([*row][:30])}")
    return PromptFormat(column)


class PromptTokens(ConversationTokens):
    """Prompts as tokens, with the messages and the row of each."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[tuple[Messages, Mapping[str, Any]]] = []


class Prompts(Conversations):
    """Items are mappings of `input_ids`, int64 `[n]`, the `messages` of a prompt and its `row`."""

    rows: PromptTokens

    def __getitem__(self, index: int, /) -> dict[str, Any]:
        place = self.row_of(index)
        messages, row = self.rows.sources[place]
        return {"input_ids": self.rows[place][0], "messages": messages, "row": row}


class PromptRowBatcher(ConversationBatcher):
    """Makes mappings of lists: of `input_ids`, int64 `[n]` each, `messages` and `rows`."""

    makes = "prompts"

    def batch(self, items: Sequence[Mapping[str, Any]], device: torch.device) -> dict[str, Any]:
        return {
            "input_ids": [item["input_ids"].to(device) for item in items],
            "messages": [item["messages"] for item in items],
            "rows": [item["row"] for item in items],
        }


class PromptData(ChatData):
    """Prompts in parts; see `ChatData`."""

    dataset_type, batcher_type = Prompts, PromptRowBatcher

    def __init__(self, config: PromptsConfig, directory: Path | None = None) -> None:
        super().__init__(config, directory)
        self.facts = {**self.facts, "padding": self.template.pad_token}

    @property
    def trained_on(self) -> str:
        return "answers are the model's own"

    def examples(self, count: int) -> list[str]:
        items = [self._train_rows[index] for index in range(min(count, len(self._train_rows)))]
        texts = [self.template.tokenizer.decode(item["input_ids"].tolist()) for item in items]
        columns = [{name: value for name, value in item["row"].items() if name not in PROMPTS} for item in items]
        return [f"{text}\n{row or ''}".rstrip() for text, row in zip(texts, columns, strict=True)]

    def _format_of_row(self, first: Mapping[str, Any]) -> Any:
        return format_of_prompts(first)

    def _read(self, sources: Sequence[Source]) -> PromptTokens:
        rows = PromptTokens()
        for piece in pieces(chain.from_iterable(sources), AT_ONCE):
            self.counts["read"] += len(piece)
            for place, row in piece:
                image_column(row, "Prompts are of texts alone")
                try:
                    conversation = self.format.read(row)
                    tokens = self.template.prompt(conversation)
                except (WrongRow, DataError) as error:
                    self._note(f"{place}: {error}")
                    continue
                if len(tokens) > self._config.max_length:
                    if self._config.on_long == "error":
                        raise DataError(
                            f"{place}: expected a prompt of at most {self._config.max_length} tokens (data.max_length),"
                            f" got {len(tokens)}; choose another max_length, or data.on_long: drop"
                        )
                    self.counts["too long"] += 1
                    continue
                rows.append_all([Encoded(tokens, [False] * len(tokens))])
                rows.sources.append((conversation.messages, row))
        return rows
