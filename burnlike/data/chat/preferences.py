"""PreferenceData: pairs of answers to a prompt, of which one is preferred, or answers with a label.

PromptData: prompts whose answers a model writes while it trains, with the columns that judge the answers.
"""

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import DataError
from ..dataset import Dataset, InMemDataset
from ..sources.rows import pieces
from ..sources.splits import Unlabeled, drawn
from .codec import format_for, prompt_rows, template_of
from .configs import PreferencesConfig, PromptsConfig
from .conversations import ConversationBatcher, Conversations, ConversationTokens, PackedConversations
from .files import Source
from .formats import (
    Conversation,
    Messages,
    WrongRow,
    answer_of,
    answered,
    expect_texts,
    format_named,
    messages_in,
    tools_of,
    turn,
    with_system,
)
from .images import image_column
from .splits import AT_ONCE, ChatData
from .templates import ChatTemplate, Encoded, WrongConversation

ANSWERS = ("chosen", "rejected")
LABELS = ("label", "kto_tag")
_TEXT_LABELS = {"true": True, "false": False, "1": True, "0": False}
PROMPTS: dict[str, Callable[[Mapping[str, Any]], Messages]] = {
    "prompt": lambda row: turn("prompt", row, "user"),
    "messages": lambda row: [*format_named("messages").read(row).messages],
    "conversations": lambda row: [*format_named("sharegpt").read(row).messages],
    "instruction": lambda row: [*format_named("alpaca").prompt(row).messages],
    "question": lambda row: turn("question", row, "user"),
}
"""Readers of a prompt by the column that has it."""


class AnswerFormat(NamedTuple):
    """The way to read rows: the column of the prompt, '' where the answers are whole conversations; those of the
    answers, and of a label; '' where there are two answers, the chosen one and the rejected one.
    """

    column: str
    answers: tuple[str, ...] = ANSWERS
    label: str = ""

    @property
    def name(self) -> str:
        columns = [answer for answer in (self.column, *self.answers, self.label) if answer]
        return f"{', '.join(columns)}{'' if self.column else ' (whole conversations)'}"

    def read(self, row: Mapping[str, Any]) -> list[Conversation]:
        """The conversations with each of the answers."""
        for name in self.answers:
            if row.get(name) is None:
                raise WrongRow(f"expected the columns {' and '.join(self.answers)}, got no {name}")
        prompt = PROMPTS[self.column](row) if self.column else []
        answers = [answer_of(name, row[name]) if self.column else messages_in(name, row) for name in self.answers]
        conversations = []
        for name, answer in zip(self.answers, answers, strict=True):
            conversation = Conversation(with_system(row, answered(prompt, name, answer)), tools_of(row))
            conversations.append(conversation)
            expect_texts(conversation)
            if conversation.messages[-1]["role"] != "assistant":
                raise WrongRow(f"{name}: expected an answer of the assistant at its end")
        return conversations

    def value(self, row: Mapping[str, Any]) -> float:
        """The margin of a pair, 0 where it has none; 1 for an answer that is desirable, else 0."""
        value = row.get(self.label or "margin")
        if self.label:
            value = _TEXT_LABELS.get(value.lower(), value) if isinstance(value, str) else value
            if value not in (True, False):
                raise WrongRow(f"{self.label}: expected true or false, got {value!r:.40}")
            return float(value)
        try:
            margin = float(value or 0)  # CSV has texts
        except (TypeError, ValueError):
            margin = math.nan
        if isinstance(value, bool) or not math.isfinite(margin):
            raise WrongRow(f"margin: expected a finite number, got {value!r:.40}")
        return margin


def format_of_answers(row: Mapping[str, Any]) -> AnswerFormat:
    """The format that the columns of a row show: of pairs, or of answers with a label.

    Raises:
        DataError: they show none.
    """
    column = next((name for name in PROMPTS if name in row), "")
    missing = [name for name in ANSWERS if name not in row]
    if not missing:
        return AnswerFormat(column)
    label = next((name for name in LABELS if name in row), None)
    if label is not None and len(missing) == len(ANSWERS):
        if "completion" in row:
            return AnswerFormat(column, ("completion",), label)
        if {"instruction", "output"} <= {*row}:
            return AnswerFormat("instruction", ("output",), label)
        if column in ("messages", "conversations"):
            return AnswerFormat("", (column,), label)
    raise DataError(
        f"expected rows with `chosen` and `rejected`, the preferred answer and the other, or with an answer"
        f" (`completion`, `output`, `messages` or `conversations`) and a `label` or `kto_tag`, for Kto; there is no"
        f" {' and no '.join(missing)} among {', '.join([*row][:30])}"
    )


class AnswerTokens(ConversationTokens):
    """Conversations, one or two for each value: the chosen answer at even places, the rejected one at odd ones."""

    def __init__(self, n_answers: int) -> None:
        super().__init__()
        self.n_answers, self.values = n_answers, array("f")

    def __len__(self) -> int:
        return len(self.values)

    def drawn(self, fraction: float, seed: int) -> tuple[list[int], list[int]]:
        return drawn(len(self), fraction, seed)

    def lengths(self) -> Tensor:
        return super().lengths().view(-1, self.n_answers).amax(1)


class Answers(Conversations):
    """Items are mappings of `input_ids` and `labels`, int64 `[n]`, and `desirable`, 1.0 or 0.0.

    Attributes:
        reference: log-probabilities `[items, answers]` by the reference, which items have then; None: not computed.
    """

    rows: AnswerTokens
    reference: Tensor | None = None

    def __getitem__(self, index: int, /) -> dict[str, Any]:
        return self.answers(index)[0] | {"desirable": self.rows.values[self.row_of(index)]} | self.kept(index)

    def answers(self, index: int) -> list[dict[str, Tensor]]:
        """The tokens of each answer of an item, and labels, of its conversation."""
        first = self.row_of(index) * self.rows.n_answers
        return [self.tokens_of(row) for row in range(first, first + self.rows.n_answers)]

    def kept(self, index: int) -> dict[str, Tensor]:
        return {} if self.reference is None else {"reference": self.reference[index]}


class Pairs(Answers):
    """Items are mappings of `chosen` and `rejected`, each with `input_ids` and `labels`, int64 `[n]`, and `margin`."""

    def __getitem__(self, index: int, /) -> dict[str, Any]:
        answers = dict(zip(ANSWERS, self.answers(index), strict=True))
        return answers | {"margin": self.rows.values[self.row_of(index)]} | self.kept(index)

    @property
    def sizes(self) -> Tensor:
        return ConversationTokens.lengths(self.rows).view(-1, 2).sum(1)[torch.as_tensor(self.indices)]


class AnswerBatcher(ConversationBatcher):
    """Makes mappings `[n, length]` int64 of answers, and `desirable`, `[n]` float32."""

    def batch(self, items: Sequence[Mapping[str, Any]], device: torch.device) -> dict[str, Any]:
        desirable = torch.tensor([item["desirable"] for item in items], device=device)
        return super().batch(items, device) | {"desirable": desirable} | _reference(items, device)


def _reference(items: Sequence[Mapping[str, Any]], device: torch.device) -> dict[str, Tensor]:
    return {"reference": torch.stack([it["reference"] for it in items]).to(device)} if "reference" in items[0] else {}


class PairBatcher(ConversationBatcher):
    """Makes mappings `[n, 2, length]` int64 of pairs, and `margin` `[n]` float32."""

    makes = "padded pairs of answers"

    def batch(self, items: Sequence[Mapping[str, Any]], device: torch.device) -> dict[str, Any]:
        rows = super().batch([item[name] for item in items for name in ANSWERS], device)
        batch = {name: row.unflatten(0, (len(items), 2)) for name, row in rows.items()}
        batch["margin"] = torch.tensor([item["margin"] for item in items], device=device)
        return batch | _reference(items, device)


class PackedPairs(PackedConversations):
    """Items are `input_ids`, `labels` and `position_ids`, int64 `[n]`, of several pairs, and their `margin`, `[pairs]`.

    Of each pair the chosen answer is the first.
    """

    @staticmethod
    def _joined(items: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        row = PackedConversations._joined([item[name] for item in items for name in ANSWERS])
        return row | {"margin": torch.tensor([it["margin"] for it in items])} | _reference(items, torch.device("cpu"))


class PackedPairBatcher(ConversationBatcher):
    """Makes mappings `[n, length]` int64 of packed pairs, and `margin`, `[pairs]` float32 of all rows."""

    def batch(self, items: Sequence[Mapping[str, Tensor]], device: torch.device) -> dict[str, Any]:
        of_pairs = {name: torch.cat([it[name] for it in items]) for name in ("margin", "reference") if name in items[0]}
        return super().batch(items, device) | {name: pair.to(device) for name, pair in of_pairs.items()}


class PreferenceData(ChatData):
    """Pairs, or answers with a label, in parts; see `ChatData`."""

    _train_rows: Answers
    dataset_type, batcher_type = Pairs, PairBatcher
    packed_type, packed_batcher_type, packed_conversations = PackedPairs, PackedPairBatcher, 2

    def __init__(self, config: PreferencesConfig, directory: Path | None = None) -> None:
        super().__init__(config, directory)
        self.facts = {**self.facts, "padding": self.template.pad_token, "max_length": config.max_length}

    def examples(self, count: int) -> list[str]:
        rows = [self._train_rows.answers(index) for index in range(min(count, len(self._train_rows)))]
        if self.format.label:
            items = [self._train_rows[index]["desirable"] for index in range(len(rows))]
            return [
                f"{'desirable' if value else 'undesirable'}:\n{self._shown(row[0])}"
                for row, value in zip(rows, items, strict=True)
            ]
        return ["\n".join(f"{name}:\n{self._shown(it)}" for name, it in zip(ANSWERS, row, strict=True)) for row in rows]

    def _format_of_row(self, first: Mapping[str, Any]) -> Any:
        answers = format_of_answers(first)
        if answers.label:
            if self._config.packing:
                raise DataError("data.packing: expected false for answers with a label, which Kto takes apart")
            self.dataset_type, self.batcher_type = Answers, AnswerBatcher
        return answers

    def _read(self, sources: Sequence[Source]) -> AnswerTokens:
        rows = AnswerTokens(len(self.format.answers))
        for piece in pieces(chain.from_iterable(sources), AT_ONCE):
            self.counts["read"] += len(piece)
            read = [*self._answers(piece)]
            encoded = iter(self.template.encode([*chain.from_iterable(it for _, it, _ in read)], "last_answer"))
            for place, conversations, value in read:
                answers = [next(encoded) for _ in conversations]
                if wrong := [it for it in answers if isinstance(it, WrongConversation)]:
                    self._note(f"{place}: {wrong[0]}")
                    continue
                rows_of = [it[0] for it in answers if not isinstance(it, WrongConversation)]  # of the last answer
                kept = [row for it in rows_of if (row := self._kept(place, it)) is not None]
                if len(kept) == len(answers):
                    for answer in kept:
                        rows.append(answer)
                    rows.values.append(value)
        return rows

    def _answers(self, piece: Sequence[Any]) -> Iterator[tuple[str, list[Conversation], float]]:
        for place, row in piece:
            image_column(row, "answers of Preferences are of texts alone")
            try:
                conversations, value = self.format.read(row), self.format.value(row)
                for conversation in conversations:
                    self._count_left_out(conversation)
                yield place, conversations, value
            except WrongRow as error:
                self._note(f"{place}: {error}")


Answered = tuple[tuple[str, ...], list[Tensor]]
"""The names of the rewards of a row, and the tokens `[n]` int64 of the conversation of each."""


def whole_conversations(config: PreferencesConfig, sources: Sequence[Any], directory: Path) -> Unlabeled:
    """The conversations of files and streams of JSON, each with its answer: two of a row of a pair."""
    template = template_of(config, directory)
    read = [*answered_rows(config, template, chain.from_iterable(prompt_rows(source) for source in sources))]
    dataset: Dataset[Any] = InMemDataset([it for _, it in read])
    return Unlabeled(dataset, [place for place, _ in read], AnsweredBatcher(template.pad_token))


def answered_rows(
    config: PreferencesConfig, template: ChatTemplate, rows: Iterable[tuple[str, Any]]
) -> Iterator[tuple[str, Answered]]:
    """The place of each row, and its conversations as a training on pairs has them.

    Raises:
        DataError: one has no answer at its end, is not written by the template, or is too long where `on_long` is not
            `truncate`.
    """
    for piece in pieces(rows, AT_ONCE):
        read = [(place, *_answered(place, row)) for place, row in piece]
        encoded = iter(template.encode([*chain.from_iterable(it for _, _, it in read)], "last_answer"))
        for place, columns, _ in read:
            yield place, (columns, [_whole(place, config, next(encoded)) for _ in columns])


def _answered(place: str, row: Any) -> tuple[tuple[str, ...], Sequence[Conversation]]:
    """The names of the rewards of a row, and its conversations."""
    try:
        if isinstance(row, str):
            raise WrongRow("expected a JSON object with a conversation, such as its messages, got plain text")
        if any(name in row for name in ANSWERS):
            return ANSWERS, format_of_answers(row).read(row)
        conversation = format_for(row).read(row)
        expect_texts(conversation)
        if conversation.messages[-1]["role"] != "assistant":
            raise WrongRow("expected an answer of the assistant at its end")
        return ("reward",), [conversation]
    except (WrongRow, DataError) as error:
        raise DataError(f"{place}: {error}") from error


def _whole(place: str, config: PreferencesConfig, rows: list[Encoded] | WrongConversation) -> Tensor:
    if isinstance(rows, WrongConversation):
        raise DataError(f"{place}: {rows}")
    (encoded,) = rows  # that of the last answer
    if not any(encoded.counts[: config.max_length]):
        raise DataError(
            f"{place}: expected an answer that begins within {config.max_length} tokens (data.max_length), got a"
            f" conversation of {len(encoded.tokens)}; shorten it, or take a run with a larger max_length"
        )
    if len(encoded.tokens) > config.max_length and config.on_long != "truncate":
        raise DataError(
            f"{place}: expected at most {config.max_length} tokens (data.max_length), got {len(encoded.tokens)}"
        )
    return torch.tensor(encoded.tokens[: config.max_length])


class AnsweredBatcher:
    """Makes mappings of `input_ids` and `attention_mask`, `[rows, length]` int64, and `columns`: of each item the names
    of its rewards, one for each of its rows.
    """

    makes = "padded conversations"

    def __init__(self, pad_token: int) -> None:
        self._rows = ConversationBatcher(pad_token)

    def batch(self, items: Sequence[Answered], device: torch.device) -> dict[str, Any]:
        rows = self._rows.batch([{"input_ids": it, "labels": it} for _, tokens in items for it in tokens], device)
        return {name: rows[name] for name in ("input_ids", "attention_mask")} | {"columns": [it for it, _ in items]}


class PromptFormat(NamedTuple):
    """The way to read rows, by the name of the column of the prompt."""

    name: str

    def read(self, row: Mapping[str, Any]) -> Conversation:
        """The messages before the answer; answers at the end of a conversation are left out."""
        if row.get(self.name) is None:
            raise WrongRow(f"expected a prompt in the column {self.name}, got none")
        messages = with_system(row, PROMPTS[self.name](row))
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
