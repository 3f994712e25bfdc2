"""Messages in the form in which a template reads them, found by trying it.

Templates differ in what they take: a text or a list of parts, a call's arguments as a mapping or as JSON, no content or
an empty one beside a call, and thoughts by one of several keys. One that gets another form writes less, or Python's
notation of a mapping, without an error.
"""

import json
import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from .formats import Messages

THOUGHT_KEYS = ("reasoning_content", "thinking", "reasoning")
_INLINE = re.compile(r"\s*<think>(.*?)</think>", re.DOTALL)
USER, ANSWER = {"role": "user", "content": "a"}, {"role": "assistant", "content": "burn_b"}
CALL = {"type": "function", "function": {"name": "burn_c", "arguments": {"burn_k": "burn_v"}}, "id": "abcdefghi"}
CALLS = {**ANSWER, "content": "", "tool_calls": [CALL]}
_TEXT = "burnlike"


def split_thought(message: Mapping[str, Any]) -> tuple[str, str]:
    """The thought of an answer, '' for none, and the text behind it: by a key, or from `<think>` in the content."""
    content = message["content"]
    by_key = next((text for key in THOUGHT_KEYS if isinstance(text := message.get(key), str) and text.strip()), "")
    inline = _INLINE.match(content)
    if by_key or inline is None:
        return by_key.strip("\n"), content
    return inline[1].strip("\n"), content[inline.end() :].lstrip("\n")


class MessageForm:
    """The form of messages that one template reads."""

    def __init__(self, render: Callable[[Messages], str | None], *, with_thoughts: bool) -> None:
        """Take what writes messages as they are, None where the template refuses them; `with_thoughts`: or without."""
        self._render, self._with_thoughts = render, with_thoughts

    def of(self, messages: Messages) -> Messages:
        """The messages in this form."""
        return [self._with_content(self._answer(it) if it["role"] == "assistant" else it) for it in messages]

    @cached_property
    def thought_key(self) -> str | None:
        """The key by which the template reads thoughts; None: by no key."""
        return next((key for key in THOUGHT_KEYS if self._writes(_TEXT, {**ANSWER, key: _TEXT})), None)

    def leaves_out_thought(self, answer: Mapping[str, Any]) -> bool:
        """True if an answer has a thought that the template does not write."""
        has_thought = self.thought_key is None and split_thought(answer)[0] != ""
        return has_thought and not (self._writes_inline and _INLINE.match(answer["content"]))

    @cached_property
    def _writes_inline(self) -> bool:
        return self._writes(_TEXT, {**ANSWER, "content": f"<think>\n{_TEXT}\n</think>\n\nb"})

    @cached_property
    def writes_calls(self) -> bool:
        """True if the template writes calls of tools."""
        return self._call_form is not None

    @cached_property
    def _in_parts(self) -> bool:
        plain, parts = {**USER, "content": _TEXT}, {**USER, "content": [{"type": "text", "text": _TEXT}]}
        return _TEXT not in (self._render([plain]) or "") and _TEXT in (self._render([parts]) or "")

    @cached_property
    def _call_form(self) -> tuple[bool, bool] | None:
        """The form of calls: True for arguments in JSON, True for no empty content; None: the template writes none."""
        forms: dict[tuple[bool, bool], str] = {}
        for form in ((False, False), (False, True), (True, False), (True, True)):
            text = self._render([self._with_content(USER), self._with_calls(CALLS, *form)]) or ""
            is_wrong = any(it in text for it in ("'burn_k': 'burn_v'", '\\"burn', "None"))
            if "burn_c" in text and "burn_v" in text and not is_wrong:
                forms[form] = text
        return min(forms, key=lambda it: (it[0], len(forms[it])), default=None)  # a longer one has an empty answer

    def _writes(self, text: str, answer: Mapping[str, Any]) -> bool:
        return text in (self._render([self._with_content(it) for it in (USER, answer)]) or "")

    def _answer(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if message.get("tool_calls") and self._call_form is not None:
            message = self._with_calls(message, *self._call_form)
        if message["content"] is None:
            thought, content = split_thought({**message, "content": ""})[0], None
        else:
            thought, content = split_thought(message)
        if not thought or (self._with_thoughts and self.thought_key is None and self._writes_inline):
            return message
        rest = {name: value for name, value in message.items() if name not in THOUGHT_KEYS}
        by_key = {self.thought_key: thought} if self._with_thoughts and self.thought_key is not None else {}
        return {**rest, "content": content, **by_key}

    def _with_content(self, message: Mapping[str, Any]) -> dict[str, Any]:
        content = message["content"]
        if self._in_parts and isinstance(content, str):
            return {**message, "content": [{"type": "text", "text": content}]}
        return {**message}

    @staticmethod
    def _with_calls(message: Mapping[str, Any], as_json: bool, no_content: bool) -> dict[str, Any]:
        calls = message["tool_calls"]
        if as_json:
            calls = [
                {**call, "function": {**call["function"], "arguments": _as_json(call["function"]["arguments"])}}
                for call in calls
            ]
        return {**message, "content": (message["content"] or None) if no_content else message["content"],
                "tool_calls": calls}  # fmt: skip


def _as_json(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
