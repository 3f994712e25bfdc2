"""Forms of rows that become conversations: usual ones, found by their columns, and those that a config describes."""

import json
from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any, NamedTuple

from ...errors import DataError, nearest
from ..sources.rows import NO_TEXT, lone_surrogate
from .configs import ChatFormatConfig, columns_of

Messages = list[dict[str, Any]]

_ROLES = {name: name for name in ("system", "developer", "user", "assistant", "tool")}
_SHAREGPT_ROLES = {
    **_ROLES,
    "human": "user",
    "gpt": "assistant",
    "chatgpt": "assistant",
    "model": "assistant",
    "function_call": "assistant",
    "observation": "tool",
}
_IMAGE_KEYS = ("image", "path", "url")
_LISTED = 30
OWN = "the format of the config"
COLUMNS = {
    "messages": ("messages",),
    "prompt_completion": ("prompt", "completion"),
    "alpaca": ("instruction", "output"),
    "sharegpt": ("conversations",),
}
"""By which columns each format is known."""


class Conversation(NamedTuple):
    """Messages of `role` and `content`, and whatever else the template takes of them; `tools` if there are some.

    A content is a text, or a list of parts if the user shows images.
    """

    messages: Messages
    tools: Sequence[Any] | None = None


class WrongRow(ValueError):
    """A problem with a row, and its place in it."""


class Format(NamedTuple):
    """A way to read rows.

    Attributes:
        name: for a person.
        columns: that it needs, by the field of the config that names them, such as `.user`; '' for none.
        read: makes a conversation of a row, or raises a WrongRow.
        prompt: the same of a row without its answer.
    """

    name: str
    columns: Mapping[str, Sequence[str]]
    read: Callable[[Mapping[str, Any]], Conversation]
    prompt: Callable[[Mapping[str, Any]], Conversation]


def format_of(wanted: str | ChatFormatConfig | None, columns: Sequence[str], first: Mapping[str, Any]) -> Format:
    """The format that a config names, or that the columns of the first row show.

    Raises:
        DataError: no format has these columns, or several have; the message lists them.
    """
    chat_format = format_named(wanted or _found(columns, first))
    for field, needed in chat_format.columns.items():
        for name in needed:
            if name not in columns:
                hint = nearest(name, [*columns]) or f"; there are {', '.join(columns[:_LISTED])}"
                raise DataError(f"data.format{field}: {chat_format.name} needs the column '{name}'{hint}")
    return chat_format


def format_named(wanted: str | ChatFormatConfig) -> Format:
    return _own(wanted) if isinstance(wanted, ChatFormatConfig) else _FORMATS[wanted]()


def expect_texts(conversation: Conversation) -> None:
    """Raise a WrongRow for a text that no tokenizer can read."""
    if (text := lone_surrogate([conversation.messages, conversation.tools])) is not None:
        raise WrongRow(f"{NO_TEXT} {_shown(text)}")


def _found(columns: Sequence[str], first: Mapping[str, Any]) -> str:
    fitting = [name for name, needed in COLUMNS.items() if all(it in columns for it in needed)]
    if len(fitting) != 1:
        what = f"fit several formats: {', '.join(fitting)}" if fitting else "fit no format"
        formats = "; ".join(f"{name}: {', '.join(needed)}" for name, needed in COLUMNS.items())
        raise DataError(
            f"data.format: the columns {', '.join(columns[:_LISTED])} {what} ({formats}). Name one, or write how they"
            ' become messages: format: {user: "{question}", assistant: "{answer}"}'
        )
    if fitting == ["sharegpt"]:
        value = _parsed(first["conversations"])
        message = value[0] if isinstance(value, list) and value else {}
        if isinstance(message, Mapping) and "role" in message and "from" not in message:
            return "conversations"  # of messages, in the column that ShareGPT has
    return fitting[0]


def _of_messages(name: str = "messages", column: str = "messages", role: str = "role", content: str = "content",
                 roles: Mapping[str, str] | None = None) -> Format:  # fmt: skip
    role_of = {**_ROLES, **(roles or {})}

    def read(row: Mapping[str, Any]) -> Conversation:
        messages = _messages(column, _list_of(row, column), role, content, role_of)
        return Conversation(messages if name == OWN else with_system(row, messages), tools_of(row))

    def prompt(row: Mapping[str, Any]) -> Conversation:
        messages = read(row)
        while messages.messages and messages.messages[-1]["role"] == "assistant":
            messages.messages.pop()
        return messages

    return Format(name, {".messages" if name == OWN else "": (column,)}, read, prompt)


def _prompt_completion() -> Format:
    def read(row: Mapping[str, Any]) -> Conversation:
        messages = answered(turn("prompt", row, "user"), "completion", turn("completion", row, "assistant"))
        return Conversation(with_system(row, messages), tools_of(row))

    def prompt(row: Mapping[str, Any]) -> Conversation:
        return Conversation(with_system(row, turn("prompt", row, "user")), tools_of(row))

    return Format("prompt_completion", {"": COLUMNS["prompt_completion"]}, read, prompt)


def turn(column: str, row: Mapping[str, Any], role: str) -> Messages:
    """The messages of a column that has a text, or a list of messages."""
    value, parsed = row.get(column), _parsed(row.get(column))
    are_messages = isinstance(parsed, list) and any(isinstance(it, Mapping) and "role" in it for it in parsed)
    if isinstance(value, str) and not are_messages:  # an answer may be JSON
        return [{"role": role, "content": value}]
    return _messages(column, _list_of(row, column), "role", "content", _ROLES)


def with_system(row: Mapping[str, Any], messages: Messages) -> Messages:
    """Messages behind that of the column `system`, where the row has one and they don't begin with one."""
    if not (system := row.get("system")) or any(message["role"] == "system" for message in messages[:1]):
        return messages
    return [{"role": "system", "content": _text("system", system)}, *messages]


def answered(prompt: Messages, column: str, answer: Messages) -> Messages:
    """A prompt and its answer, which may begin with the prompt again, as UltraFeedback has it."""
    if answer[: len(prompt)] == prompt:
        return answer
    if prompt[-1]["role"] == "user" and answer[0]["role"] in ("system", "user"):
        raise WrongRow(
            f"{column}[0]: expected the answer, or the messages of the prompt before it, got another message of the"
            f" {answer[0]['role']}"
        )
    return [*prompt, *answer]


def messages_in(column: str, row: Mapping[str, Any]) -> Messages:
    """The messages of a column that has a list of them, of role and content or of from and value."""
    listed = _list_of(row, column)
    is_sharegpt = isinstance(listed[0], Mapping) and "from" in listed[0]
    names = ("from", "value", _SHAREGPT_ROLES) if is_sharegpt else ("role", "content", _ROLES)
    return _messages(column, listed, *names)


def answer_of(column: str, value: Any) -> Messages:
    """The messages of an answer: a text, one message, or several."""
    parsed = _parsed(value)
    if isinstance(parsed, Mapping) and {"content", "value"} & {*parsed}:
        return messages_in(column, {column: [{"from": "gpt", **parsed} if "value" in parsed else parsed]})
    return (
        turn(column, {column: value}, "assistant") if isinstance(value, str) else messages_in(column, {column: value})
    )


def _alpaca() -> Format:
    def read(row: Mapping[str, Any]) -> Conversation:
        answer = {"role": "assistant", "content": _text("output", row.get("output"))}
        return Conversation([*prompt(row).messages, answer])

    def prompt(row: Mapping[str, Any]) -> Conversation:
        messages: Messages = []
        if system := row.get("system"):
            messages.append({"role": "system", "content": _text("system", system)})
        for place, pair in enumerate(_parsed(row.get("history")) or ()):
            if not (isinstance(pair, list | tuple) and len(pair) == 2):
                raise WrongRow(f"history[{place}]: expected a pair of instruction and answer, got {_shown(pair)}")
            for role, text in zip(("user", "assistant"), pair, strict=True):
                messages.append({"role": role, "content": _text(f"history[{place}]", text)})
        texts = [_text("instruction", row.get("instruction"))]
        if more := row.get("input"):
            texts.append(_text("input", more))
        return Conversation([*messages, {"role": "user", "content": "\n\n".join(texts)}])

    return Format("alpaca", {"": COLUMNS["alpaca"]}, read, prompt)


def _own(config: ChatFormatConfig) -> Format:
    if config.messages is not None:
        return _of_messages(OWN, config.messages, config.role, config.content, config.roles)

    def messages_of(row: Mapping[str, Any], roles: Sequence[str]) -> Conversation:
        return Conversation([{"role": it, "content": _filled(config.texts[it], row)} for it in roles], tools_of(row))

    roles = [*config.texts]
    columns = {f".{name}": columns_of(text) for name, text in config.texts.items()}
    return Format(OWN, columns, lambda row: messages_of(row, roles), lambda row: messages_of(row, roles[:-1]))


def _filled(text: str, row: Mapping[str, Any]) -> str:
    pieces = ((before, name) for before, name, _, _ in Formatter().parse(text))
    return "".join(
        before if name is None else before + _text(name, row.get(name), may_be_number=True) for before, name in pieces
    )


_FORMATS: dict[str, Callable[[], Format]] = {
    "messages": _of_messages,
    "conversations": lambda: _of_messages("messages", "conversations"),
    "prompt_completion": _prompt_completion,
    "alpaca": _alpaca,
    "sharegpt": lambda: _of_messages("sharegpt", "conversations", "from", "value", _SHAREGPT_ROLES),
}


def _list_of(row: Mapping[str, Any], column: str) -> list[Any]:
    value = _parsed(row.get(column))
    if not isinstance(value, list) or not value:
        raise WrongRow(f"{column}: expected a list of messages, got {_shown(value)}")
    return value


def _messages(column: str, listed: list[Any], role: str, content: str, roles: Mapping[str, str]) -> Messages:
    return [_message(f"{column}[{place}]", it, role, content, roles) for place, it in enumerate(listed)]


def _message(place: str, value: Any, role: str, content: str, roles: Mapping[str, str]) -> dict[str, Any]:
    """A message as templates take it: without what is none, its text as one string, arguments of tools as mappings."""
    if not isinstance(value, Mapping):
        raise WrongRow(f"{place}: expected an object with '{role}' and '{content}', got {_shown(value)}")
    part = value.get(role)
    if not isinstance(part, str) or part not in roles:
        hint = nearest(str(part), [*roles]) or f"; there are {', '.join(roles)}"
        raise WrongRow(f"{place}.{role}: expected a role, got {_shown(part)}{hint}")
    calls = _parsed(value.get("tool_calls"))
    rest = {name: it for name, it in value.items() if name not in (role, content, "tool_calls") and it is not None}
    if calls:
        rest["tool_calls"] = [_call(f"{place}.tool_calls[{number}]", call) for number, call in enumerate(calls)]
    if "weight" in rest and rest["weight"] not in (0, 1):
        raise WrongRow(f"{place}.weight: expected 0 (no loss on this answer) or 1, got {_shown(rest['weight'])}")
    text = value.get(content)
    if text is None and calls:
        text = ""
    return {"role": roles[part], "content": _content(f"{place}.{content}", text, roles[part]), **rest}


def _content(place: str, value: Any, role: str) -> Any:
    """A text; or parts with text and images, each with the text that says where it is, or None."""
    parts = [it for it in value if isinstance(it, Mapping)] if role == "user" and isinstance(value, list) else []
    if not any(part.get("type") == "image" for part in parts):
        return _text(place, value)
    return [
        {"type": "image", "image": next((it[key] for key in _IMAGE_KEYS if it.get(key) is not None), None)}
        if isinstance(it, Mapping) and it.get("type") == "image"
        else {"type": "text", "text": _text(f"{place}[{number}]", [it])}
        for number, it in enumerate(value)
    ]


def image_parts(messages: Messages) -> list[dict[str, Any]]:
    """The parts of messages that are images, in their order."""
    contents = (message["content"] for message in messages if isinstance(message["content"], list))
    return [part for parts in contents for part in parts if part["type"] == "image"]


def _call(place: str, value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise WrongRow(f"{place}: expected an object with a function, got {_shown(value)}")
    inner = value.get("function", value)
    if not isinstance(inner, Mapping) or not isinstance(inner.get("name"), str):
        raise WrongRow(f"{place}: expected the name of a function, got {_shown(value)}")
    call_arguments = inner.get("arguments")
    arguments = _parsed(call_arguments) if call_arguments is not None else {}
    return {**value, "type": "function", "function": {"name": inner["name"], "arguments": arguments}}


def tools_of(row: Mapping[str, Any]) -> list[Any] | None:
    """The tools of a row, each an object; None for none."""
    tools = _parsed(row.get("tools"))
    if not tools:
        return None
    if not isinstance(tools, list) or not all(isinstance(tool, Mapping) for tool in tools):
        raise WrongRow(f"tools: expected a list of JSON objects, got {_shown(tools)}")
    return tools


def _text(place: str, value: Any, *, may_be_number: bool = False) -> str:
    """A text; of a list of parts with text, these together."""
    if isinstance(value, str):
        return value
    if may_be_number and isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and all(isinstance(it, Mapping) and isinstance(it.get("text"), str) for it in value):
        return "".join(it["text"] for it in value)
    kinds = {str(it.get("type")) for it in value if isinstance(it, Mapping)} if isinstance(value, list) else set()
    if others := sorted(kinds - {"text", "None"}):
        raise WrongRow(
            f"{place}: expected parts of type text, or image in a message of the user, got {', '.join(others)}; take"
            " such parts, or these rows, out of the data"
        )
    raise WrongRow(f"{place}: expected text, got {_shown(value)}")


def _parsed(value: Any) -> Any:
    """Parse a text of JSON, as CSV has lists; any other value stays as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("[", "{"):
        try:
            return json.loads(value)
        except (ValueError, RecursionError):
            return value
    return value


def _shown(value: Any) -> str:
    return "none" if value is None else f"{type(value).__name__} {str(value)[:60]!r}"
