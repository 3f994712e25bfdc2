"""The chat template of a tokenizer: conversations as tokens, and which of them are answers.

Text is tokenized as a whole, so that tokens are those of transformers' `apply_chat_template`; answers are places in the
text first, and become tokens by the offsets of these.
"""

import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, takewhile
from pathlib import Path
from typing import Any, NamedTuple

from ..._regular_file import read_regular
from ...errors import DataError
from .configs import TEMPLATES
from .filling import OverLimitError, filler
from .formats import Conversation, Messages
from .tokenizers import add_tokens, built_in, read_tokenizer, tokenizer_files

TOKENIZER_FOLDER, TEMPLATE_NAME = "tokenizer", "chat_template.jinja"
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
_MOST_BYTES = 2**22

Spans = list[tuple[int, int]]
"""Places in a text, from and to."""


class Encoded(NamedTuple):
    """A conversation as tokens; `counts` says of which there is a loss."""

    tokens: list[int]
    counts: list[bool]


class WrongConversation(ValueError):
    """Why a template can't write a conversation, or its answers are not to be found."""


_USER, _ANSWER = {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}
_CALL = {"type": "function", "function": {"name": "c", "arguments": {}}, "id": "abcdefghi"}
_CALLS = {**_ANSWER, "tool_calls": [_CALL]}
_RESULT = {"role": "tool", "name": "c", "content": "d", "tool_call_id": "abcdefghi"}
_ENDING = ([_USER, _ANSWER], [_USER, _ANSWER, _USER], [_USER, _CALLS, _RESULT])
"""Conversations that show what ends an answer: the end of the text, and the message that comes next."""
_MAYBE_LEFT_OUT = {
    "system": ("a system message", 0, [_USER, _ANSWER]),
    "developer": ("a developer message", 0, [_USER, _ANSWER]),
    "later system": ("a later system message", 1, [_USER, _ANSWER]),
    "later developer": ("a later developer message", 1, [_USER, _ANSWER]),
    "later tool": ("a result of a tool", 2, [_USER, _CALLS, _ANSWER]),
}
"""Roles, with `later` for a message that is not the first: their name, and where in which conversation to try them."""


class ChatTemplate:
    """Makes tokens of conversations.

    Attributes:
        tokenizer: of transformers.
        name: of the template, for a person.
        files: it is read from, by the names that a run keeps them by, or the content of one that has new tokens.
        new_tokens: their numbers, by their texts.
        pad_token: what rows are filled up with.
    """

    def __init__(
        self, directory: Path, template: str | None, system: str | None = None, new_tokens: Sequence[str] = ()
    ) -> None:
        """Read a tokenizer and its template.

        Args:
            directory: with the tokenizer's files.
            template: the name of one of burnlike's, or the path of a Jinja file; None: the tokenizer's own.
            system: what conversations begin with that have no system message.
            new_tokens: texts that are one token each, which the tokenizer gets if it lacks them.

        Raises:
            DataError: a file is missing or damaged, or there is no template.
        """
        self.tokenizer = read_tokenizer(directory)
        vocabulary = self.tokenizer.get_vocab()
        self.files: dict[str, Path | bytes] = {
            f"{TOKENIZER_FOLDER}/{name}": file for name, file in tokenizer_files(directory).items()
        }
        if template is not None and template not in TEMPLATES:
            self.files[TEMPLATE_NAME] = Path(template).expanduser()
        self.new_tokens = add_tokens(self.tokenizer, new_tokens)
        if any(name not in vocabulary for name in new_tokens):
            content = self.tokenizer.backend_tokenizer.to_str(pretty=True)
            self.files[f"{TOKENIZER_FOLDER}/tokenizer.json"] = content.encode()
        self.eos_token: int | None = self.tokenizer.eos_token_id
        added = self.tokenizer.added_tokens_decoder.items()
        self.special = {*self.tokenizer.all_special_ids, *(number for number, it in added if it.special)}
        self.text, self.name = self._template(directory, template)
        self.system = system
        self.marks_answers = bool(_GENERATION.search(self.text))
        pads = (self.tokenizer.pad_token_id, self.eos_token, 0)
        self.pad_token: int = next(it for it in pads if it is not None)

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end an answer: those that end a text, and those before each kind of message."""
        encoded = self.encode([Conversation(it) for it in _ENDING], "answers")
        last = [
            [token for token, counted in zip(*it, strict=True) if counted][-1:]
            for it in encoded
            if not isinstance(it, WrongConversation)
        ]
        ends = [token for it in last for token in it if token in self.special]
        return frozenset([*ends, *([] if self.eos_token is None else [self.eos_token])])

    def left_out(self, conversation: Conversation) -> list[str]:
        """The kinds of messages of a conversation that the template does not write, for a person."""
        roles = {f"{'later ' if place else ''}{it['role']}" for place, it in enumerate(conversation.messages)}
        return [kind for role, kind in self._left_out.items() if role in roles]

    @cached_property
    def _left_out(self) -> dict[str, str]:
        return {
            role: kind
            for role, (kind, place, others) in _MAYBE_LEFT_OUT.items()
            if self._leaves_out(role.split()[-1], place, others)
        }

    def _leaves_out(self, role: str, place: int, others: Messages) -> bool:
        text = "burnlike"
        try:
            return text not in self._render(
                [*others[:place], {**_RESULT, "role": role, "content": text}, *others[place:]], None
            )
        except WrongConversation:  # of which a person is told where a row has such a message
            return False

    def encode(self, conversations: Sequence[Conversation], loss: str) -> list[Encoded | WrongConversation]:
        """The tokens of each, or what is wrong with it; for `loss` see the config."""
        written = [self._written(rendered, loss) for rendered in conversations]
        good = [rendered for rendered in written if not isinstance(rendered, WrongConversation)]
        texts = [text for text, *_ in good] or [""]
        encoding = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
        tokens = iter(zip(good, encoding["input_ids"], encoding["offset_mapping"], strict=bool(good)))
        results: list[Encoded | WrongConversation] = []
        for rendered in written:
            if isinstance(rendered, WrongConversation):
                results.append(rendered)
                continue
            (_, spans, last), ids, offsets = next(tokens)
            first = None if last is None else bisect_right([end for _, end in offsets], last)
            results.append(self._ended(ids, _counted(offsets, spans), first))
        return results

    def prompt(self, conversation: Conversation) -> list[int]:
        """The tokens up to where an answer begins."""
        try:
            text = self._render(self._with_system(conversation.messages), conversation.tools, begins_answer=True)
        except WrongConversation as error:
            raise DataError(str(error)) from error
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def begin(self) -> list[int]:
        """The tokens that the tokenizer itself puts before a text: that of its beginning, or none."""
        first = self.tokenizer("a")["input_ids"][:1]
        return first if first == [self.tokenizer.bos_token_id] else []

    def _template(self, directory: Path, template: str | None) -> tuple[str, str]:
        if template in TEMPLATES:
            return built_in(template, self.tokenizer, begins=bool(self.begin())), template
        if template is not None:
            path = Path(template).expanduser()
            try:
                return read_regular(path, _MOST_BYTES).decode("utf-8-sig"), str(path)
            except (OSError, ValueError) as error:
                ready_made = f"there are also {', '.join(TEMPLATES)}"
                raise DataError(f"data.chat_template: {path} can't be read ({error}); {ready_made}") from error
        try:
            tokenizers = self.tokenizer.get_chat_template()
        except ValueError as error:
            raise DataError(
                f"the tokenizer in {directory} has no chat template; name one by data.chat_template: the path of a"
                f" Jinja file, or one of {', '.join(TEMPLATES)} (`plain`: the messages, one after the other)"
            ) from error
        return tokenizers, f"of the tokenizer {directory}"

    def _with_system(self, messages: Messages) -> Messages:
        if self.system is None or (messages and messages[0]["role"] == "system"):
            return messages
        return [{"role": "system", "content": self.system}, *messages]

    def _written(self, conversation: Conversation, loss: str) -> "tuple[str, Spans, int | None] | WrongConversation":
        """The text of a conversation, where in it answers are, from and to, and where one begins that ends it."""
        messages, tools = self._with_system(conversation.messages), conversation.tools
        try:
            if self._begins_unasked:
                raise WrongConversation(
                    f"the chat template {self.name} begins an answer behind every conversation, so that it can't be"
                    " said where one ends: write that part only {% if add_generation_prompt %}, in a template that"
                    " data.chat_template names"
                )
            if loss == "all":
                text = self._render(messages, tools)
                return text, [(0, len(text))], 0 if messages[-1]["role"] == "assistant" else None
            find = self._marked if self.marks_answers else self._by_prefixes
            return find(messages, tools, only_last=loss == "last_answer")
        except WrongConversation as error:
            return error

    def _by_prefixes(self, messages: Messages, tools: Any, *, only_last: bool) -> tuple[str, Spans, int | None]:
        """The text, and where the answers are."""
        answers = _answers(messages)
        whole, spans = self._places_of(answers[-1:] if only_last else answers, messages, tools)
        return whole, spans, spans[-1][0] if answers[-1:] == [len(messages) - 1] else None

    def _marked(self, messages: Messages, tools: Any, *, only_last: bool) -> tuple[str, Spans, int | None]:
        """The text, and the places that the template marks by `{% generation %}`: of all answers, or of some."""
        ((whole, marks),) = self._filled([(messages, {"return_assistant_tokens_mask": True})], tools)
        answers = _answers(messages)
        wanted = answers[-1:] if only_last else answers
        spans = [(begin, end) for begin, end in marks]
        if wanted != [place for place, it in enumerate(messages) if it["role"] == "assistant"]:
            _, places = self._places_of(wanted, messages, tools)
            spans = [(begin, end) for begin, end in spans if any(it[0] <= begin and end <= it[1] for it in places)]
        ends = bool(spans) and wanted[-1:] == [len(messages) - 1]
        if ends and whole[spans[-1][1] :].strip():  # the last answer may have no mark
            with suppress(WrongConversation):
                ends = self._places_of(wanted[-1:], messages, tools)[1][0][0] <= spans[-1][0]
        return whole, spans, spans[-1][0] if ends else None

    def _places_of(self, places: Sequence[int], messages: Messages, tools: Any) -> tuple[str, Spans]:
        """The text, and where messages are: between what is written up to each and with it, if these are prefixes."""
        asked = {"add_generation_prompt": not self.marks_answers}
        pairs = [[(messages[:place], asked), (messages[: place + 1], {})] for place in places]
        (whole, _), *parts = self._filled([(messages, {}), *chain.from_iterable(pairs)], tools)
        spans = []
        for place, (before, _), (after, _) in zip(places, parts[::2], parts[1::2], strict=True):
            if not (whole.startswith(before) and whole.startswith(after) and len(before) <= len(after)):
                marking = "give a template that marks answers by {% generation %} in data.chat_template"
                hint = "all" if self.marks_answers else f"last_answer or all, or {marking}"
                raise WrongConversation(
                    f"messages[{place}]: the chat template {self.name} writes the beginning of a conversation otherwise"
                    f" when more follows, so that it can't be said which tokens are this answer. Set data.loss: {hint}"
                )
            spans.append((len(before), len(after)))
        return whole, spans

    @cached_property
    def _begins_unasked(self) -> bool:
        """True if the template begins an answer behind a conversation also where `add_generation_prompt` is false."""
        try:
            asked, alone = self._render([_USER], None, begins_answer=True), self._render([_USER], None)
            answered, more = self._render([_USER, _ANSWER], None), self._render([_USER, _ANSWER, _USER], None)
        except WrongConversation:
            return False
        alike = takewhile(lambda pair: pair[0] == pair[1], zip(answered, more, strict=False))
        behind = answered[sum(1 for _ in alike) :]
        return asked == alone and behind != "" and alone.endswith(behind)

    def _render(self, messages: Messages, tools: Any, *, begins_answer: bool = False) -> str:
        return self._filled([(messages, {"add_generation_prompt": begins_answer})], tools)[0][0]

    def _filled(self, requests: Sequence[tuple[Messages, Mapping[str, bool]]], tools: Any) -> list[tuple[str, Any]]:
        """The texts that the template makes in transformers' sandbox, and what it marks."""
        common = {**self.tokenizer.special_tokens_map, "tools": tools, "chat_template": self.text}
        try:
            return filler(os.getpid()).fill([{**common, "conversations": [it], **more} for it, more in requests])
        except OverLimitError as error:
            raise DataError(
                f"data.chat_template: the chat template {self.name} {error} for one conversation"
            ) from error
        except ValueError as error:
            raise WrongConversation(f"the chat template {self.name} refuses the conversation: {error}") from error

    def _ended(self, tokens: list[int], counts: list[bool], first: int | None) -> Encoded:
        """Let each answer end in the token that ends it, which is learned; what is only space behind it is not.

        Args:
            first: the first token of an answer that ends the conversation; None if there is no such answer.
        """
        for begin, end in [*_runs(counts)]:
            last = next((place for place in range(end - 1, begin - 1, -1) if not self._is_space(tokens[place])), begin)
            if tokens[last] in self.special:
                counts[last + 1 : end] = [False] * (end - last - 1)
            elif end < len(tokens) and tokens[end] in self.special:
                counts[end] = True
        behind = max([first or 0, *(end for _, end in _runs(counts))])
        if first is not None and not self.special.intersection(tokens[max(first, behind - 1) :]):
            if self.eos_token is None:
                raise DataError(
                    f"the chat template {self.name} does not end answers, and the tokenizer has no eos_token for it"
                )
            counts[behind:] = [True] * (len(tokens) - behind)
            tokens, counts = [*tokens, self.eos_token], [*counts, True]
        return Encoded(tokens, counts)

    def _is_space(self, token: int) -> bool:
        return token not in self.special and not self.tokenizer.decode([token]).strip()


def _counted(offsets: Sequence[tuple[int, int]], spans: Spans) -> list[bool]:
    """For each token, True if it has a character of a span; one of space only may have no characters, but their end."""
    counts, ends = [False] * len(offsets), [end for _, end in offsets]
    for first, last in spans:
        for place in range(bisect_right(ends, first), len(offsets)):
            begin, end = offsets[place]
            if not (begin < last or begin == end <= last):
                break
            counts[place] = True
    return counts


def _runs(counts: Sequence[bool]) -> Iterable[tuple[int, int]]:
    """From and to where it is true."""
    begin = None
    for place, counted in enumerate([*counts, False]):
        if counted and begin is None:
            begin = place
        elif not counted and begin is not None:
            yield begin, place
            begin = None


def _answers(messages: Messages) -> list[int]:
    """The places of the answers that there is a loss on."""
    return [place for place, it in enumerate(messages) if it["role"] == "assistant" and it.get("weight", 1)]
