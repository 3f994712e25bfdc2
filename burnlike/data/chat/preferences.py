"""PreferenceData: pairs of answers to a prompt, of which one is preferred."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ...errors import DataError
from ..configs import NO_TARGET
from ..dataset import Dataset, InMemDataset
from ..sources.rows import pieces
from ..sources.splits import Unlabeled
from .codec import format_for, prompt_rows, template_of
from .configs import PreferencesConfig
from .conversations import ConversationBatcher, Conversations, ConversationTokens
from .files import Source
from .formats import Conversation, Messages, WrongRow, answer_of, expect_texts, format_named, messages_in, turn
from .splits import AT_ONCE, ChatData
from .templates import ChatTemplate, Encoded, WrongConversation

ANSWERS = ("chosen", "rejected")
PROMPTS: dict[str, Callable[[Mapping[str, Any]], Messages]] = {
    "prompt": lambda row: turn("prompt", row, "user"),
    "messages": lambda row: [*format_named("messages").read(row).messages],
    "conversations": lambda row: [*format_named("sharegpt").read(row).messages],
    "instruction": lambda row: [*format_named("alpaca").prompt(row).messages],
    "question": lambda row: turn("question", row, "user"),
}
"""Readers of a prompt by the column that has it."""


class PairFormat(NamedTuple):
    """The way to read rows: the column of the prompt, '' where the answers are whole conversations."""

    column: str

    @property
    def name(self) -> str:
        return f"{self.column}, chosen, rejected" if self.column else "chosen, rejected (whole conversations)"

    def read(self, row: Mapping[str, Any]) -> tuple[Conversation, Conversation]:
        """The conversations with the chosen and with the rejected answer."""
        for name in ANSWERS:
            if row.get(name) is None:
                raise WrongRow(f"expected the columns chosen and rejected, got no {name}")
        if self.column:
            prompt = PROMPTS[self.column](row)
            if self.column == "prompt" and (system := row.get("system")):
                prompt = [*turn("system", {"system": system}, "system"), *prompt]
            pair = [Conversation([*prompt, *answer_of(name, row[name])]) for name in ANSWERS]
        else:
            pair = [Conversation(messages_in(name, row)) for name in ANSWERS]
        for name, conversation in zip(ANSWERS, pair, strict=True):
            expect_texts(conversation)
            if conversation.messages[-1]["role"] != "assistant":
                raise WrongRow(f"{name}: expected an answer of the assistant at its end")
        return pair[0], pair[1]


class PairTokens(ConversationTokens):
    """Pairs of conversations: those with the chosen answers at even places, with the rejected at odd ones."""

    def __init__(self) -> None:
        super().__init__()
        self.margins: list[float] = []

    def __len__(self) -> int:
        return len(self.margins)

    def lengths(self) -> Tensor:
        return super().lengths().view(-1, 2).amax(1)


class Pairs(Conversations):
    """Items are mappings of `chosen` and `rejected`, each with `input_ids` and `labels`, int64 `[n]`, and `margin`."""

    rows: PairTokens

    def __getitem__(self, index: int, /) -> dict[str, Any]:
        if not 0 <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        place = self.indices[index]
        item: dict[str, Any] = {"margin": self.rows.margins[place]}
        for number, name in enumerate(ANSWERS):
            tokens, counts = self.rows[2 * place + number]
            labels = tokens.where(counts, NO_TARGET)
            labels[0] = NO_TARGET  # nothing is before it
            item[name] = {"input_ids": tokens, "labels": labels}
        return item


class PairBatcher(ConversationBatcher):
    """Makes mappings `[n, 2, length]` int64 of pairs, and `margin` `[n]` float32."""

    makes = "padded pairs of answers"

    def batch(self, items: Sequence[Mapping[str, Any]], device: torch.device) -> dict[str, Any]:
        rows = super().batch([item[name] for item in items for name in ANSWERS], device)
        batch = {name: it.unflatten(0, (len(items), 2)) for name, it in rows.items()}
        batch["margin"] = torch.tensor([item["margin"] for item in items], device=device)
        return batch


class PreferenceData(ChatData):
    """Pairs in parts; see `ChatData`."""

    dataset_type, batcher_type = Pairs, PairBatcher

    def __init__(self, config: PreferencesConfig, directory: Path | None = None) -> None:
        super().__init__(config, directory)
        self.facts = {**self.facts, "padding": self.template.pad_token}

    def examples(self, count: int) -> list[str]:
        items = [self._train_rows[it] for it in range(min(count, len(self._train_rows)))]
        return ["\n".join(f"{name}:\n{self._shown(item[name])}" for name in ANSWERS) for item in items]

    def _format_of_row(self, first: Mapping[str, Any]) -> Any:
        columns = [*first]
        if missing := [name for name in ANSWERS if name not in first]:
            raise DataError(
                f"expected rows with `chosen` and `rejected`, the preferred answer and the other; there is no"
                f" {' and no '.join(missing)} among {', '.join(columns[:30])}"
            )
        return _pair_format(first)

    def _read(self, sources: Sequence[Source]) -> PairTokens:
        rows = PairTokens()
        for piece in pieces(chain.from_iterable(sources), AT_ONCE):
            self.counts["read"] += len(piece)
            read = [*self._pairs(piece)]
            encoded = iter(self.template.encode([*chain.from_iterable(pair for _, pair, _ in read)], "last_answer"))
            for place, _, margin in read:
                pair = [next(encoded), next(encoded)]
                if wrong := [it for it in pair if isinstance(it, WrongConversation)]:
                    self._note(f"{place}: {wrong[0]}")
                    continue
                kept = [row for it in pair if isinstance(it, Encoded) and (row := self._kept(place, it)) is not None]
                if len(kept) == len(ANSWERS):
                    for answer in kept:
                        rows.append(answer)
                    rows.margins.append(margin)
        return rows

    def _pairs(self, piece: Sequence[Any]) -> Iterator[tuple[str, tuple[Conversation, Conversation], float]]:
        for place, row in piece:
            try:
                pair = self.format.read(row)
                margin = row.get("margin")
                if margin is not None and (isinstance(margin, bool) or not isinstance(margin, int | float)):
                    raise WrongRow(f"margin: expected a number, got {margin!r:.40}")
                yield place, pair, float(margin or 0.0)
            except WrongRow as error:
                self._note(f"{place}: {error}")


def _pair_format(row: Mapping[str, Any]) -> PairFormat:
    return PairFormat(next((name for name in PROMPTS if name in row), ""))


Answered = tuple[tuple[str, ...], list[Tensor]]
"""The names of the rewards of a row, and the tokens `[n]` int64 of the conversation of each."""


def whole_conversations(config: PreferencesConfig, sources: Sequence[Any], directory: Path) -> Unlabeled:
    """The conversations of files and streams of JSON, each with its answer: two of a row of a pair."""
    template = template_of(config, directory)
    read = [*answered_rows(config, template, chain.from_iterable(prompt_rows(it) for it in sources))]
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
        read = [(place, *_answered(place, config, row)) for place, row in piece]
        encoded = iter(template.encode([*chain.from_iterable(it for _, _, it in read)], "last_answer"))
        for place, columns, _ in read:
            yield place, (columns, [_whole(place, config, next(encoded)) for _ in columns])


def _answered(place: str, config: PreferencesConfig, row: Any) -> tuple[tuple[str, ...], Sequence[Conversation]]:
    """The names of the rewards of a row, and its conversations."""
    try:
        if isinstance(row, str):
            raise WrongRow("expected a JSON object with a conversation, such as its messages, got plain text")
        if any(name in row for name in ANSWERS):
            return ANSWERS, _pair_format(row).read(row)
        conversation = format_for(config, row).read(row)
        expect_texts(conversation)
        if conversation.messages[-1]["role"] != "assistant":
            raise WrongRow("expected an answer of the assistant at its end")
        return ("reward",), [conversation]
    except WrongRow as error:
        raise DataError(f"{place}: {error}") from error


def _whole(place: str, config: PreferencesConfig, encoded: Encoded | WrongConversation) -> Tensor:
    if isinstance(encoded, WrongConversation):
        raise DataError(f"{place}: {encoded}")
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
