"""Rows of each format become the same conversation; what is wrong with one is told with its place."""

import json
from typing import Any

import pytest

from burnlike.data import ChatConfig, ChatFormatConfig
from burnlike.data.chat.formats import WrongRow, format_named, format_of
from burnlike.errors import ConfigError, DataError

from .samples import turns

TALK = turns("how are you", "fine")
SYSTEM = [{"role": "system", "content": "be brief"}, *TALK]
SAID = [{"from": "human", "value": "how are you"}, {"from": "gpt", "value": "fine"}]
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
ROWS: list[tuple[str, dict[str, Any], Any]] = [
    ("messages", {"messages": SYSTEM}, SYSTEM),
    ("messages", {"messages": json.dumps(TALK)}, TALK),
    ("messages", {"messages": [{**it, "name": None, "tool_calls": None} for it in TALK]}, TALK),
    ("messages", {"conversations": TALK}, TALK),
    ("prompt_completion", {"prompt": "how are you", "completion": "fine"}, TALK),
    ("prompt_completion", {"prompt": SYSTEM[:2], "completion": SYSTEM[2:]}, SYSTEM),
    ("prompt_completion", {"prompt": "[2, 1]", "completion": '{"a": [1]}'}, turns("[2, 1]", '{"a": [1]}')),
    ("prompt_completion", {"prompt": "as list", "completion": "[1]"}, turns("as list", "[1]")),
    ("prompt_completion", {"prompt": json.dumps(TALK[:1]), "completion": json.dumps(TALK[1:])}, TALK),
    ("alpaca", {"instruction": "how are you", "input": "", "output": "fine"}, TALK),
    ("alpaca", {"instruction": "add", "input": "1, 2", "output": "3"}, turns("add\n\n1, 2", "3")),
    ("alpaca", {"instruction": "c", "output": "d", "history": [["a", "b"]]}, turns("a", "b", "c", "d")),
    ("sharegpt", {"conversations": SAID}, TALK),
    ("sharegpt", {"system": "be brief", "conversations": SAID}, SYSTEM),
]


@pytest.mark.parametrize(("name", "row", "wanted"), ROWS)
def test_formats_are_found_by_their_columns(name, row, wanted):
    found = format_of(None, [*row], row)
    assert found.name == name
    assert found.read(row).messages == wanted


def test_parts_of_text_and_calls_of_tools():
    said = [{"type": "text", "text": "add "}, {"type": "text", "text": "them"}]
    stored = {"id": "1", "function": {"name": "add", "arguments": '{"a": 1, "b": null}'}, "more": None}
    row = {
        "messages": [
            {"role": "user", "content": said},
            {"role": "assistant", "content": None, "tool_calls": [stored]},
            {"role": "tool", "content": "3", "tool_call_id": "1"},
        ],
        "tools": json.dumps([{"type": "function", "function": {"name": "add", "more": None}}]),
    }
    found = format_named("messages").read(row)
    called = {"type": "function", "function": {"name": "add", "arguments": {"a": 1, "b": None}}}
    stored_call = {"id": "1", "more": None, **called}
    assert found.messages == [
        {"role": "user", "content": "add them"},
        {"role": "assistant", "content": "", "tool_calls": [stored_call]},
        {"role": "tool", "content": "3", "tool_call_id": "1"},
    ]
    assert found.tools == [{"type": "function", "function": {"name": "add", "more": None}}]


def test_formats_of_the_config():
    row = {"question": "how are", "more": "you", "reply": "fine", "n": 3}
    texts = ChatFormatConfig(user="{question} {more}", assistant="{reply}", system="{{n}} is {n}")
    assert format_of(texts, [*row], row).read(row).messages == [{"role": "system", "content": "{n} is 3"}, *TALK]
    row = {"talk": [{"who": "me", "says": "how are you"}, {"who": "bot", "says": "fine"}]}
    roles: Any = {"me": "user", "bot": "assistant"}
    listed = ChatFormatConfig(messages="talk", role="who", content="says", roles=roles)
    assert format_of(listed, [*row], row).read(row).messages == TALK


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"user": "{a}"}, "`user` and `assistant`"),
        ({"user": "{a", "assistant": "{b}"}, "pairs of braces"),
        ({"user": "{a!r}", "assistant": "{b}"}, "nothing but the name of a column"),
        ({"user": "{a:>9}", "assistant": "{b}"}, "nothing but the name of a column"),
        ({"user": "{a}", "assistant": "b"}, "the name of a column in braces"),
        ({"messages": "m", "user": "{a}"}, "got both"),
        ({"roles": {"bot": "assistant"}, "user": "{a}", "assistant": "{b}"}, "expected none without `messages`"),
    ],
)
def test_wrong_formats_of_a_config(fields, message):
    with pytest.raises(ConfigError, match=message):
        ChatFormatConfig(**fields)


@pytest.mark.parametrize(
    ("wanted", "columns", "message"),
    [
        (None, ["question", "answer"], "question, answer fit no format .*sharegpt: conversations.*format: {user:"),
        (None, ["messages", "conversations"], "fit several formats: messages, sharegpt"),
        ("alpaca", ["instruction", "outputs"], "alpaca needs the column 'output'; did you mean 'outputs'"),
        (ChatFormatConfig(user="{a}", assistant="{b}"), ["a", "c"], r"data\.format\.assistant: .* column 'b'"),
    ],
)
def test_columns_that_do_not_fit(wanted, columns, message):
    with pytest.raises(DataError, match=message):
        format_of(wanted, columns, {})


@pytest.mark.parametrize(
    ("name", "row", "message"),
    [
        ("messages", {"messages": 3}, "messages: expected a list of messages, got int '3'"),
        ("messages", {"messages": ["hi"]}, r"messages\[0\]: expected an object"),
        ("messages", {"messages": [{"role": "usr", "content": ""}]}, r"messages\[0\]\.role: .* did you mean 'user'"),
        ("messages", {"messages": [{"role": "user"}]}, r"messages\[0\]\.content: expected text, got none"),
        ("messages", {"messages": TALK, "tools": "x"}, "tools: expected a list of JSON objects"),
        ("sharegpt", {"conversations": [{"from": "me", "value": ""}]}, r"conversations\[0\]\.from: expected a role"),
        ("alpaca", {"instruction": "a", "output": None}, "output: expected text, got none"),
        ("alpaca", {"instruction": "a", "output": "b", "history": [["a"]]}, r"history\[0\]: expected a pair"),
        ("prompt_completion", {"prompt": "a", "completion": 1}, "completion: expected a list of messages"),
    ],
)
def test_rows_that_are_not_of_the_format(name, row, message):
    with pytest.raises(WrongRow, match=message):
        format_named(name).read(row)


def test_the_config_is_read_from_plain_data():
    texts = {"user": "{q}", "assistant": "{a}"}
    found = ChatConfig.from_dict({"path": "a", "tokenizer": "b", "format": texts})
    assert isinstance(found.format, ChatFormatConfig)
