"""The chat template of a tokenizer: conversations as tokens, and which of them are answers.

Text is tokenized as a whole, so that tokens are those of transformers' `apply_chat_template`; answers are places in the
text first, and become tokens by the offsets of these.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..._regular_file import read_regular
from ...errors import DataError
from .configs import TEMPLATES
from .formats import Conversation, Messages
from .tokenizers import built_in, read_tokenizer, tokenizer_files

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


class ChatTemplate:
    """Makes tokens of conversations.

    Attributes:
        tokenizer: of transformers.
        name: of the template, for a person.
        files: it is read from, by the names that a run keeps them by.
        end_tokens: those that end an answer.
        pad_token: what rows are filled up with.
    """

    def __init__(self, directory: Path, template: str | None, system: str | None = None) -> None:
        """Read a tokenizer and its template.

        Args:
            directory: with the tokenizer's files.
            template: the name of one of burnlike's, or the path of a Jinja file; None: the tokenizer's own.
            system: what conversations begin with that have no system message.

        Raises:
            DataError: a file is missing or damaged, or there is no template.
        """
        self.tokenizer = read_tokenizer(directory)
        self.files = {f"{TOKENIZER_FOLDER}/{name}": file for name, file in tokenizer_files(directory).items()}
        if template is not None and template not in TEMPLATES:
            self.files[TEMPLATE_NAME] = Path(template).expanduser()
        self.eos_token: int | None = self.tokenizer.eos_token_id
        added = self.tokenizer.added_tokens_decoder.items()
        self.special = {*self.tokenizer.all_special_ids, *(number for number, it in added if it.special)}
        self.text, self.name = self._template(directory, template)
        self.system = system
        self.marks_answers = bool(_GENERATION.search(self.text))
        pads = (self.tokenizer.pad_token_id, self.eos_token, 0)
        self.pad_token: int = next(it for it in pads if it is not None)
        self.end_tokens = self._end_tokens()

    def encode(self, conversations: Sequence[Conversation], loss: str) -> list[Encoded | WrongConversation]:
        """The tokens of each, or what is wrong with it; for `loss` see the config."""
        written = [self._written(it, loss) for it in conversations]
        good = [it for it in written if not isinstance(it, WrongConversation)]
        texts = [text for text, _ in good] or [""]
        made = self.tokenizer(texts, add_special_tokens=False, return_offsets_mapping=True)
        tokens = iter(zip(good, made["input_ids"], made["offset_mapping"], strict=bool(good)))
        found: list[Encoded | WrongConversation] = []
        for it, conversation in zip(written, conversations, strict=True):
            if isinstance(it, WrongConversation):
                found.append(it)
                continue
            (_, spans), ids, offsets = next(tokens)
            ends_in_answer = conversation.messages[-1]["role"] == "assistant"
            encoded = self._ended(ids, _counted(offsets, spans), ends_in_answer=ends_in_answer)
            found.append(_with_loss(encoded, loss))
        return found

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
                known = f"there are also {', '.join(TEMPLATES)}"
                raise DataError(f"data.chat_template: {path} can't be read ({error}); {known}") from error
        try:
            own = self.tokenizer.get_chat_template()
        except ValueError as error:
            raise DataError(
                f"the tokenizer in {directory} has no chat template; name one by data.chat_template: the path of a"
                f" Jinja file, or one of {', '.join(TEMPLATES)} (`plain`: the messages, one after the other)"
            ) from error
        return own, f"of the tokenizer {directory}"

    def _with_system(self, messages: Messages) -> Messages:
        if self.system is None or (messages and messages[0]["role"] == "system"):
            return messages
        return [{"role": "system", "content": self.system}, *messages]

    def _written(
        self, conversation: Conversation, loss: str
    ) -> "tuple[str, list[tuple[int, int]]] | WrongConversation":
        """The text of a conversation, and where in it answers are, from and to."""
        messages, tools = self._with_system(conversation.messages), conversation.tools
        try:
            if loss == "all":
                text = self._render(messages, tools)
                return text, [(0, len(text))]
            if self.marks_answers:
                return self._marked(messages, tools)
            return self._by_prefixes(messages, tools, only_last=loss == "last_answer")
        except WrongConversation as error:
            return error

    def _by_prefixes(self, messages: Messages, tools: Any, *, only_last: bool) -> tuple[str, Spans]:
        """Each answer lies between what is written up to it and what is written with it, if these are prefixes."""
        whole, spans = self._render(messages, tools), []
        answers = [place for place, it in enumerate(messages) if it["role"] == "assistant" and it.get("weight", 1)]
        for place in answers[-1:] if only_last else answers:
            before = self._render(messages[:place], tools, begins_answer=True)
            is_last = place == len(messages) - 1
            after = whole if is_last else self._render(messages[: place + 1], tools)
            if not (whole.startswith(before) and whole.startswith(after) and len(before) <= len(after)):
                raise WrongConversation(
                    f"messages[{place}]: the chat template {self.name} writes the beginning of a conversation otherwise"
                    " when more follows, so that it can't be said which tokens are this answer. Set data.loss:"
                    " last_answer or all, or give a template that marks answers by {% generation %} in"
                    " data.chat_template"
                )
            spans.append((len(before), len(after)))
        return whole, spans

    def _marked(self, messages: Messages, tools: Any) -> tuple[str, Spans]:
        """The text, and the places that the template marks by `{% generation %}`."""
        text, spans = self._filled(messages, tools, return_assistant_tokens_mask=True)
        weights = [it.get("weight", 1) for it in messages if it["role"] == "assistant"]
        if 0 not in weights:
            return text, [(begin, end) for begin, end in spans]
        if len(weights) != len(spans):
            raise WrongConversation(
                f"messages: {weights.count(0)} with weight 0, but the chat template {self.name} marks {len(spans)}"
                f" parts of {len(weights)} answers, so that it can't be said which have no loss"
            )
        return text, [(begin, end) for (begin, end), weight in zip(spans, weights, strict=True) if weight]

    def _render(self, messages: Messages, tools: Any, *, begins_answer: bool = False) -> str:
        return self._filled(messages, tools, add_generation_prompt=begins_answer)[0]

    def _filled(self, messages: Messages, tools: Any, **options: Any) -> tuple[str, Any]:
        """The text that the template makes in transformers' sandbox, and what it marks."""
        from transformers.utils.chat_template_utils import render_jinja_template

        named = {**self.tokenizer.special_tokens_map, **options, "tools": tools, "chat_template": self.text}
        try:
            texts, marks = render_jinja_template(conversations=[messages], **named)
        except Exception as error:  # a template of any kind raises errors of any kind
            text = " ".join(str(error).split()) or type(error).__name__
            raise WrongConversation(f"the chat template {self.name} refuses the conversation: {text}") from error
        return texts[0], marks[0] if marks else []

    def _ended(self, tokens: list[int], counts: list[bool], *, ends_in_answer: bool) -> Encoded:
        """Let each answer end in the token that ends it, which is learned; what is only space behind it is not."""
        for begin, end in [*_runs(counts)]:
            last = next((place for place in range(end - 1, begin - 1, -1) if not self._is_space(tokens[place])), begin)
            if tokens[last] in self.special:
                counts[last + 1 : end] = [False] * (end - last - 1)
            elif end < len(tokens) and tokens[end] in self.special:
                counts[end] = True
        last_run = [*_runs(counts)][-1:]
        if ends_in_answer and last_run and not self.special.intersection(tokens[last_run[0][1] - 1 :]):
            if self.eos_token is None:
                raise DataError(
                    f"the chat template {self.name} does not end answers, and the tokenizer has no eos_token for it"
                )
            counts[last_run[0][1] :] = [True] * (len(tokens) - last_run[0][1])
            tokens, counts = [*tokens, self.eos_token], [*counts, True]
        return Encoded(tokens, counts)

    def _is_space(self, token: int) -> bool:
        return token not in self.special and not self.tokenizer.decode([token]).strip()

    def _end_tokens(self) -> frozenset[int]:
        """The token that ends a text, and the one that ends an answer, if the template has one of its own."""
        probe = Conversation([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}])
        (found,) = self.encode([probe], "answers")
        last = [] if isinstance(found, WrongConversation) else [t for t, it in zip(*found, strict=True) if it][-1:]
        own = [] if self.eos_token is None else [self.eos_token]
        return frozenset([*own, *(it for it in last if it in self.special)])


def _counted(offsets: Sequence[tuple[int, int]], spans: Spans) -> list[bool]:
    """Whether each token has a character of a span; one of space only may have no characters, but their end."""
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


def _with_loss(encoded: Encoded, loss: str) -> Encoded:
    runs = [*_runs(encoded.counts)]
    if loss != "last_answer" or len(runs) < 2:
        return encoded
    begin = runs[-1][0]
    return encoded._replace(counts=[it and place >= begin for place, it in enumerate(encoded.counts)])
