"""The chat template of a tokenizer: conversations as tokens, and which of them are answers.

Text is tokenized as a whole, so that tokens are those of transformers' `apply_chat_template`; answers are places in the
text first, and become tokens by the offsets of these.
"""

import json
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import chain, islice, product, takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..._regular_file import read_regular
from ...errors import DataError
from .configs import TEMPLATES, Thoughts
from .filling import OverLimitError, filler
from .formats import Conversation, Messages, image_parts
from .forms import ANSWER, CALLS, USER, MessageForm, split_thought
from .tokenizers import add_tokens, built_in, read_tokenizer, tokenizer_files

if TYPE_CHECKING:
    from .images import ImageReader

TOKENIZER_FOLDER, TEMPLATE_NAME = "tokenizer", "chat_template.jinja"
_OLD_TEMPLATE = "chat_template.json"
"""Where processors had their template before transformers 4.52."""
_GENERATION = re.compile(r"\{%-?\s*generation\s*-?%\}")
_OPENED = re.compile(r"<think>\s*$")
_MOST_OF_OPENED = 16
"""Tokens at the end of a prompt among which `<think>` is looked for: one, or several of few letters."""
_MOST_BYTES = 2**22
_SURROGATES = 0xD800

Spans = list[tuple[int, int]]
"""Places in a text, from and to."""


class Pictured(NamedTuple):
    """A text with a mark for each of its images, their files, and where they are in the text with their tokens."""

    text: str
    images: Sequence[Path] = ()
    spans: Sequence[tuple[int, int]] = ()


class Encoded(NamedTuple):
    """A conversation as tokens; `counts` says of which there is a loss, `image_end` where the last image ends."""

    tokens: list[int]
    counts: list[bool]
    pictured: Pictured = Pictured("")
    image_end: int = 0


class Row(NamedTuple):
    """A text to learn from: where in it answers are, and where one begins that ends it; None if there is none."""

    text: str
    spans: Spans
    first: int | None
    pictured: Pictured = Pictured("")


class WrongConversation(ValueError):
    """Why a template can't write a conversation, or its answers are not to be found."""


_SYSTEM = {"role": "system", "content": "a"}
_RESULT = {"role": "tool", "name": "c", "content": "d", "tool_call_id": "abcdefghi"}
_ENDING = ([USER, ANSWER], [USER, ANSWER, USER], [USER, CALLS, _RESULT], [USER, {**CALLS, **ANSWER}, _RESULT])
"""Conversations that show what ends an answer: the end of the text, and the message that comes next."""
_MAYBE_LEFT_OUT = {
    "system": ("a system message", 0, [USER, ANSWER]),
    "developer": ("a developer message", 0, [USER, ANSWER]),
    "later system": ("a later system message", 1, [USER, ANSWER]),
    "later developer": ("a later developer message", 1, [USER, ANSWER]),
    "later tool": ("a result of a tool", 2, [USER, CALLS, ANSWER]),
}
"""Roles, with `later` for a message that is not the first: their name, and where in which conversation to try them."""


class ChatTemplate:
    """Makes tokens of conversations.

    Attributes:
        directory: with the tokenizer's files.
        tokenizer: of transformers.
        name: of the template, for a person.
        files: it is read from, by the names that a run keeps them by, or the content of one that has new tokens.
        new_tokens: their numbers, by their texts.
        pad_token: what rows are filled up with.
    """

    def __init__(
        self,
        directory: Path,
        template: str | None,
        system: str | None = None,
        *,
        new_tokens: Sequence[str] = (),
        thoughts: Thoughts = "train",
    ) -> None:
        """Read a tokenizer and its template.

        Args:
            directory: with the tokenizer's files.
            template: the name of one of burnlike's, or the path of a Jinja file; None: the tokenizer's own.
            system: what conversations begin with that have no system message.
            new_tokens: texts that are one token each, which the tokenizer gets if it lacks them.
            thoughts: whether the thoughts before answers are written, or left out.

        Raises:
            DataError: a file is missing or damaged, or there is no template.
        """
        self.directory = directory
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
        self._thoughts = thoughts
        self._special_texts = [str(it) for number, it in added if number in self.special]
        self._form = MessageForm(self._tried, with_thoughts=thoughts == "train")
        self.marks_answers = bool(_GENERATION.search(self.text))
        pads = (self.tokenizer.pad_token_id, self.eos_token, 0)
        self.pad_token: int = next(pad for pad in pads if pad is not None)

    @cached_property
    def end_tokens(self) -> frozenset[int]:
        """Tokens that end an answer: those that end a text, and those before each kind of message."""
        encoded = self.encode([Conversation(it) for it in _ENDING], "answers")
        last = [
            [token for token, counted in zip(row.tokens, row.counts, strict=True) if counted][-1:]
            for it in encoded
            if not isinstance(it, WrongConversation)
            for row in it
        ]
        ends = [token for it in last for token in it if token in self.special]
        return frozenset([*ends, *([] if self.eos_token is None else [self.eos_token])])

    def left_out(self, conversation: Conversation) -> list[str]:
        """The kinds of messages of a conversation that the template does not write, for a person."""
        messages = conversation.messages
        roles = {f"{'later ' if place else ''}{message['role']}" for place, message in enumerate(messages)}
        answers = [message for message in messages if message["role"] == "assistant"]
        kinds = [kind for role, kind in self._left_out.items() if role in roles]
        if conversation.tools and "tools" not in self.text:
            kinds.append("tools")
        if any(answer.get("tool_calls") for answer in answers) and not self._form.writes_calls:
            kinds.append("calls of tools")
        if any(self._form.leaves_out_thought(answer) for answer in answers) and not self._opens_thoughts:
            kinds.append("thoughts")
        return kinds

    @cached_property
    def _left_out(self) -> dict[str, str]:
        return {
            role: kind
            for role, (kind, place, others) in _MAYBE_LEFT_OUT.items()
            if self._leaves_out(role.split()[-1], place, others)
        }

    def _leaves_out(self, role: str, place: int, others: Messages) -> bool:
        text = "burnlike"
        messages = [*others[:place], {**_RESULT, "role": role, "content": text}, *others[place:]]
        try:
            question = self._render(messages[:-1], None, begins_answer=True)
            return text not in question and text not in self._render(messages, None)
        except WrongConversation:  # of which a person is told where a row has such a message
            return False

    def encode(
        self, conversations: Sequence[Conversation], loss: str, reader: "ImageReader | None" = None
    ) -> list[list[Encoded] | WrongConversation]:
        """The tokens of each, in several rows where the template writes answers otherwise when more follows.

        For `loss` see the config. What is wrong with a conversation stands in its place, as images do without `reader`.
        """
        written = [self._written(conversation, loss, reader) for conversation in conversations]
        rows = [row for rendered in written if not isinstance(rendered, WrongConversation) for row in rendered]
        # transformers' tokenizers refuse an empty list.
        texts = [row.text for row in rows] or [""]
        encoding = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
        encoded: list[Encoded] = []
        for row, ids, offsets in zip(rows, encoding["input_ids"], encoding["offset_mapping"], strict=bool(rows)):
            first = None if row.first is None else bisect_right([end for _, end in offsets], row.first)
            ended = self._ended(ids, _counted(offsets, row.spans), first)
            of_images = [place for place, is_one in enumerate(_counted(offsets, row.pictured.spans)) if is_one]
            for place in of_images:
                ended.counts[place] = False
            encoded.append(ended._replace(pictured=row.pictured, image_end=max(of_images, default=-1) + 1))
        left = iter(encoded)
        return [
            rendered if isinstance(rendered, WrongConversation) else [*islice(left, len(rendered))]
            for rendered in written
        ]

    def prompt(self, conversation: Conversation) -> list[int]:
        """The tokens up to where an answer begins."""
        try:
            _expect_no_images(conversation)
            text = self._render(self._with_system(conversation.messages), conversation.tools, begins_answer=True)
        except WrongConversation as error:
            raise DataError(str(error)) from error
        return self.tokenizer(text, add_special_tokens=False)["input_ids"]

    def opened_thought(self, prompt: Sequence[int]) -> str:
        """The `<think>` at the end of the tokens of a prompt, which an answer goes on from; '' if there is none."""
        opened = _OPENED.search(self.tokenizer.decode([*prompt][-_MOST_OF_OPENED:]))
        return "" if opened is None else opened[0]

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
        of_processor = directory / _OLD_TEMPLATE
        if of_processor.is_file():
            try:
                return json.loads(read_regular(of_processor, _MOST_BYTES))["chat_template"], f"in {of_processor}"
            except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
                raise DataError(f"{of_processor} can't be read as a chat template: {error}") from error
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

    def _written(
        self, conversation: Conversation, loss: str, reader: "ImageReader | None"
    ) -> list[Row] | WrongConversation:
        """The rows of a conversation, with the tokens of its images."""
        try:
            if reader is not None:
                return reader.pictured(self._rows(conversation, loss), conversation)
            _expect_no_images(conversation)
            return self._rows(conversation, loss)
        except WrongConversation as error:
            return error

    def _rows(self, conversation: Conversation, loss: str) -> list[Row]:
        messages, tools = self._with_system(conversation.messages), conversation.tools
        if self._behind:
            raise WrongConversation(
                f"the chat template {self.name} writes {self._behind!r:.60} behind every conversation, so that it"
                " can't be said where an answer ends: write that part only {% if add_generation_prompt %}, in a"
                " template that data.chat_template names"
            )
        if loss == "all":
            text = self._render(messages, tools)
            return [Row(text, [(0, len(text))], 0 if messages[-1]["role"] == "assistant" else None)]
        if self.marks_answers:
            return [self._marked(messages, tools, only_last=loss == "last_answer")]
        return self._by_prefixes(messages, tools, only_last=loss == "last_answer")

    def _by_prefixes(self, messages: Messages, tools: Any, *, only_last: bool) -> list[Row]:
        """The rows: the whole conversation, and one for each answer that the template writes otherwise in it."""
        answers = self._answers(messages)
        whole, parts = self._parts(answers[-1:] if only_last else answers, messages, tools)
        rows = [Row(whole, [], None)]
        # From the end: a longer text has the answers of those that are its beginning.
        for place, before, after in reversed(parts):
            begin, text = self._begun(messages[: place + 1], tools, before, after)
            kept = text.removesuffix(self._closing)
            self._expect_whole(messages[place], place, kept[begin:])
            if not rows[-1].text.startswith(kept):
                rows.append(Row(text, [], None))
            ends = (
                rows[-1].first is None and not rows[-1].spans and (text == rows[-1].text or place == len(messages) - 1)
            )
            rows[-1] = Row(rows[-1].text, [(begin, len(kept)), *rows[-1].spans], begin if ends else rows[-1].first)
        return [row for row in reversed(rows) if row.spans] or rows

    def _answers(self, messages: Messages) -> list[int]:
        """The places of the answers that there is a loss on: not of calls alone, where the template writes none."""
        return [
            place
            for place, message in enumerate(messages)
            if message["role"] == "assistant"
            and message.get("weight", 1)
            and (message["content"] or not message.get("tool_calls") or self._form.writes_calls)
        ]

    def _begun(self, messages: Messages, tools: Any, before: str, after: str) -> tuple[int, str]:
        """The place at which the last answer begins, and its text: in doubt, the answer behind what asks for it.

        For a template may ask for an answer otherwise than it writes one: by `<think>` (then the thought is put there),
        by an empty thought, or behind a system message or an earlier thought that it leaves out with one.
        """
        for asked in (before, before.rstrip()):
            if after.startswith(asked):
                return len(asked), after
        alone, other = (self._render(it, tools) for it in (messages[:-1], [*messages[:-1], ANSWER]))
        # The longest first, as one may stand within another.
        marks = sorted({*self._special_texts, "<think>", "</think>"}, key=len, reverse=True)
        marks = [mark for mark in marks if any(mark in text for text in (before, after, other))]
        alone, other, asked, answered = (_folded(it, marks) for it in (alone, other, before, after))
        asking = asked.removeprefix(alone) or asked[max((asked.rfind(it) for it in asked if _is_mark(it)), default=0) :]
        shared = _shared(other, answered)
        question = messages[-2]["content"] if len(messages) > 1 else ""
        question = "" if isinstance(question, list) else question.strip()
        start = shared.rfind(question) + len(question) if question in shared else len(shared)
        header = next((asking[:index] for index in range(len(asking), 0, -1) if asking[:index] in shared[start:]), "")
        opening, answer = asking[len(header) :], answered[shared.rfind(header) + len(header) :]
        opens, closes = _OPENED.search(before) is not None, answer[:1] == _folded("</think>", marks)
        fits = not opening or (answer[:1] != opening[0] and (opens or (not closes and sum(map(_is_mark, opening)) > 1)))
        if not (header and fits):
            raise WrongConversation(
                f"messages[{len(messages) - 1}]: the chat template {self.name} begins this answer otherwise than it"
                " asks for one, so that it can't be said which tokens are this answer. If it has a thought, set"
                " data.thoughts: leave_out; or give a template that marks answers by {% generation %} in"
                f" data.chat_template, or one of {', '.join(TEMPLATES)}; or set data.loss: all"
            )
        answer = after[len(_unfolded(answered[: len(answered) - len(answer)], marks)) :]
        if closes or not opens:
            return len(before), before + answer
        thought = split_thought(messages[-1])[0] if self._thoughts == "train" else ""
        return len(before), f"{before.rstrip()}\n{thought}\n</think>\n\n{answer.lstrip()}"

    def _expect_whole(self, answer: Mapping[str, Any], place: int, text: str) -> None:
        """Refuse an answer of which the template leaves out something that it writes of others."""
        thought, content = split_thought(answer)
        calls = answer.get("tool_calls", ()) if self._form.writes_calls else ()
        wanted = [content.strip(), *(call["function"]["name"] for call in calls)]
        if self._thoughts == "train" and self._form.thought_key is not None:
            wanted.append(thought.strip())
        if missing := [it for it in wanted if it not in text]:
            raise WrongConversation(
                f"messages[{place}]: the chat template {self.name} leaves out {missing[0]!r:.60} of this answer;"
                " take it out of the data (thoughts by data.thoughts: leave_out), set the answer's weight to 0, or name"
                " another template by data.chat_template"
            )

    def _marked(self, messages: Messages, tools: Any, *, only_last: bool) -> Row:
        """The row with the places that the template marks by `{% generation %}`: of all answers, or of some."""
        ((whole, marks),) = self._filled([(messages, {"return_assistant_tokens_mask": True})], tools)
        answers = self._answers(messages)
        wanted = answers[-1:] if only_last else answers
        spans = [(begin, end) for begin, end in marks]
        if wanted != [place for place, message in enumerate(messages) if message["role"] == "assistant"]:
            places = self._places_of(wanted, messages, tools)
            spans = [(begin, end) for begin, end in spans if any(it[0] <= begin and end <= it[1] for it in places)]
        ends = bool(spans) and wanted[-1:] == [len(messages) - 1]
        if ends and whole[spans[-1][1] :].strip():  # the last answer may have no mark
            with suppress(WrongConversation):
                ends = self._places_of(wanted[-1:], messages, tools)[0][0] <= spans[-1][0]
        return Row(whole, spans, spans[-1][0] if ends else None)

    def _places_of(self, places: Sequence[int], messages: Messages, tools: Any) -> Spans:
        """Places of messages in the text of marks: between the text up to each and the text with it."""
        whole, parts = self._parts(places, messages, tools)
        for place, before, after in parts:
            if not (whole.startswith(before) and whole.startswith(after) and len(before) <= len(after)):
                raise WrongConversation(
                    f"messages[{place}]: the chat template {self.name} writes the beginning of a conversation otherwise"
                    " when more follows, so that it can't be said which marks are of this answer. Set data.loss: all,"
                    " or answers, without a weight of 0"
                )
        return [(len(before), len(after)) for _, before, after in parts]

    def _parts(self, places: Sequence[int], messages: Messages, tools: Any) -> tuple[str, list[tuple[int, str, str]]]:
        """The text of all, and of the messages before each place, and with it."""
        asked = {"add_generation_prompt": not self.marks_answers}
        pairs = [[(messages[:place], asked), (messages[: place + 1], {})] for place in places]
        (whole, _), *parts = self._filled([(messages, {}), *chain.from_iterable(pairs)], tools)
        texts = [text for text, _ in parts]
        return whole, [*zip(places, texts[::2], texts[1::2], strict=True)]

    @cached_property
    def _closing(self) -> str:
        """The token that the template writes behind the end of a last answer, at the end of a conversation only."""
        try:
            alone, more = self._render([USER, ANSWER], None), self._render([USER, ANSWER, USER], None)
        except WrongConversation:
            return ""
        ends = [text for text in self._special_texts if alone.rstrip().endswith(text)]
        ended = alone[: len(alone.rstrip()) - max(map(len, ends))] if ends else ""
        is_more = any(ended.rstrip().endswith(text) for text in self._special_texts)
        return alone[len(ended) :] if is_more and more.startswith(ended) and not more.startswith(alone) else ""

    @cached_property
    def _opens_thoughts(self) -> bool:
        """True if the template begins an answer by `<think>`, but writes none."""
        try:
            asked, answered = self._render([USER], None, begins_answer=True), self._render([USER, ANSWER], None)
        except WrongConversation:
            return False
        opened = _OPENED.search(asked)
        return opened is not None and not answered.startswith(asked[: opened.start()] + "<think>")

    @cached_property
    def _behind(self) -> str:
        """Text that the template writes behind every conversation, beside a token that ends one."""
        texts = [self._tried(self._form.of(it)) or "" for it in ([USER, ANSWER], [USER, ANSWER, USER])]
        try:
            asked = self._render([USER], None, begins_answer=True)
        except WrongConversation:
            asked = ""
        marks = [text for text in self._special_texts if text in texts[1] or text in texts[0]]
        ends = [_folded(text.rpartition(ANSWER["content"])[2], marks) for text in texts]
        behind = ends[0][len(_shared(*ends)) :] if all(ANSWER["content"] in text for text in texts) else ""
        is_text = any(not _is_mark(it) for it in behind.strip())
        behind = _unfolded(behind, marks)
        return behind if is_text or (behind and asked.endswith(behind)) else ""

    def _render(self, messages: Messages, tools: Any, *, begins_answer: bool = False) -> str:
        return self._filled([(messages, {"add_generation_prompt": begins_answer})], tools)[0][0]

    def _filled(self, requests: Sequence[tuple[Messages, Mapping[str, bool]]], tools: Any) -> list[tuple[str, Any]]:
        """The texts that the template makes in transformers' sandbox, and what it marks."""
        return self._filled_as_is([(self._form.of(it), more) for it, more in requests], tools)

    def _tried(self, messages: Messages) -> str | None:
        """The text of messages as they are; None if the template refuses them, also with tools and a system message."""
        for first, tools in product(([], [_SYSTEM]), (None, [])):
            with suppress(WrongConversation):
                return self._filled_as_is([([*first, *messages], {})], tools)[0][0]
        return None

    def _filled_as_is(
        self, requests: Sequence[tuple[Messages, Mapping[str, bool]]], tools: Any
    ) -> list[tuple[str, Any]]:
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


def _expect_no_images(conversation: Conversation) -> None:
    if image_parts(conversation.messages):
        raise WrongConversation(
            "images are read in trainings on `data: {type: Chat}` alone; leave out their parts, or these rows"
        )


def _shared(text: str, other: str) -> str:
    """The beginning that both have."""
    return text[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(text, other, strict=False)))]


def _folded(text: str, marks: Sequence[str]) -> str:
    """The text with one character for each mark: a surrogate, which no text has."""
    for place, mark in enumerate(marks):
        text = text.replace(mark, chr(_SURROGATES + place))
    return text


def _unfolded(text: str, marks: Sequence[str]) -> str:
    return "".join(marks[ord(it) - _SURROGATES] if _is_mark(it) else it for it in text)


def _is_mark(character: str) -> bool:
    return ord(character) in range(_SURROGATES, 0xE000)


def _counted(offsets: Sequence[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> list[bool]:
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
