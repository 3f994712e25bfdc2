"""The chat templates of today's models, as TRL keeps them, and short ones of our own: beside transformers' own filling.

The answers that are learned are written out by hand, from the page of each family.
"""
# ruff: noqa: RUF001 (some families write their tokens with wide bars)

import re
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from transformers.utils import chat_template_utils

from burnlike.data.chat.formats import Conversation, format_named
from burnlike.data.chat.templates import ChatTemplate, WrongConversation

from .samples import tokenizer

SPECIAL = re.compile(
    r"<\|[^|<>'\" ]+\|>|<｜[^｜<>]+｜>|<(?:start|end)_of_turn>|<end_of_utterance>|<turn\|>|<channel\|>|<\|turn>"
    r"|<\|channel>|\[/?INST\]|\[/?AVAILABLE_TOOLS\]|\[TOOL_CALLS\]|<s>"
)
NO_THOUGHTS = ("<think>\n\n</think>\n\n", "<think>\n{thought}\n</think>\n\n")


class Family(NamedTuple):
    """How a family writes answers.

    Attributes:
        end: the token that ends an answer.
        plain: what stands before an answer without a thought.
        thought: what stands before one with a thought; None: the template leaves thoughts out.
        has_system: whether it takes a system message.
        rows: how many rows five answers make, without and with thoughts.
        as_written: whether a row is what transformers writes of its messages, not the question with the answer behind.
        text: the template, in place of that which TRL has.
        eos: the token that ends a text, if it is another one.
    """

    end: str
    plain: str = ""
    thought: str | None = None
    has_system: bool = True
    rows: tuple[int, int] = (1, 1)
    as_written: bool = True
    text: str = ""
    eos: str = ""


OPEN = "\n</think>\n\n", "{thought}\n</think>\n\n"
JOINED = (
    "{{ bos_token }}{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% for m in messages if m.role != 'system' %}{% if m.role == 'user' %}[INST] "
    "{% if loop.last and system %}{{ system }}\n\n{% endif %}{{ m.content }}[/INST]"
    "{% else %} {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}"
)
"""A system message goes into the last message of the user, and is lost where an answer follows: early Mistral."""
FIRST = JOINED.replace("loop.last", "loop.first")
"""A system message goes into the first message of the user: Llama 2."""
CLOSED = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n</think>\n{% endif %}"
)
"""It asks by an empty thought, which it does not write."""
SHUT = (
    "{% for m in messages %}{% if m.role == 'assistant' %}<|im_start|></think>{{ m.content }}<|im_end|>{% else %}"
    "<|user|>{{ m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<|im_start|></think>{% endif %}"
)
"""Thoughts are shut in the question, as DeepSeek V3.1 does."""
DATED = "<|system|>{{ strftime_now('%d %B %Y') }}" + CLOSED.replace("<think>\n</think>\n", "")

FAMILIES = {
    "cohere": Family("<|END_OF_TURN_TOKEN|>"),
    "cohere2": Family("<|END_RESPONSE|><|END_OF_TURN_TOKEN|>"),
    "deepseek_r1_distill": Family("<｜end▁of▁sentence｜>", *OPEN, rows=(5, 5), as_written=False),
    "deepseekv3": Family("<｜end▁of▁sentence｜>", *OPEN, rows=(5, 5), as_written=False),
    "gemma": Family("<end_of_turn>", has_system=False, eos="<eos>"),
    "gemma3": Family("<end_of_turn>", eos="<eos>"),
    "gemma4_v5": Family("<turn|>", "", "<|channel>thought\n{thought}\n<channel|>", rows=(1, 5), eos="<eos>"),
    "glm4moe": Family("", "\n<think></think>\n", "\n<think>{thought}</think>\n", rows=(1, 5), eos="<|endoftext|>"),
    "gptoss": Family(
        "<|return|>",
        "<|channel|>final<|message|>",
        "<|channel|>analysis<|message|>{thought}<|end|><|start|>assistant<|channel|>final<|message|>",
        rows=(5, 5),
    ),
    "idefics3": Family("<end_of_utterance>", " "),
    "lfm2": Family("<|im_end|>"),
    "llama3": Family("<|eot_id|>"),
    "llama3_1": Family("<|eot_id|>"),
    "llama3_2": Family("<|eot_id|>"),
    "nemotron_3_nano": Family("<|im_end|>", "</think>", "{thought}\n</think>\n", rows=(1, 5)),
    "phi3": Family("<|end|>", eos="<|endoftext|>"),
    "phi3_5": Family("<|end|>", eos="<|endoftext|>"),
    "qwen2_5": Family("<|im_end|>"),
    "qwen3": Family("<|im_end|>", *NO_THOUGHTS, rows=(5, 5)),
    "qwen3_5_think": Family("<|im_end|>", *OPEN, rows=(5, 5)),
    "qwen3_6": Family("<|im_end|>", *OPEN, rows=(5, 5)),
    "qwen3_instruct_2507": Family("<|im_end|>"),
    "qwen3_vl": Family("<|im_end|>"),
    "smolvlm": Family("<end_of_utterance>", " "),
    "joined": Family("</s>", " ", text=JOINED, as_written=False),
    "first": Family("</s>", " ", text=FIRST),
    "closed": Family("<|im_end|>", rows=(5, 5), text=CLOSED, as_written=False),
    "shut": Family("<|im_end|>", text=SHUT),
    "dated": Family("<|im_end|>", text=DATED),
}


def text_of(name: str) -> str:
    if FAMILIES[name].text:
        return FAMILIES[name].text
    trl = pytest.importorskip("trl")
    return (Path(trl.__file__).parent / "chat_templates" / f"{name}.jinja").read_text(encoding="utf-8")


def tokenizer_of(name: str) -> Any:
    text, family = text_of(name), FAMILIES[name]
    made = tokenizer(text)
    made.eos_token = family.eos or SPECIAL.findall(family.end or "</s>")[-1] if family.end != "</s>" else "</s>"
    names = sorted({*SPECIAL.findall(text), *SPECIAL.findall(family.end), made.eos_token})
    made.add_special_tokens({"additional_special_tokens": names})
    return made


def made_in(directory: Path, name: str, **options: Any) -> tuple[ChatTemplate, Any]:
    chosen = tokenizer_of(name)
    chosen.save_pretrained(directory)
    return ChatTemplate(directory, None, **options), chosen


def rows_of(template: ChatTemplate, messages: Any, tools: Any = None, loss: str = "answers") -> Any:
    read = format_named("messages").read({"messages": messages, "tools": tools})
    (rows,) = template.encode([read], loss)
    assert not isinstance(rows, WrongConversation), rows
    return rows


def learned(chosen: Any, row: Any) -> list[str]:
    """The texts that there is a loss on."""
    pieces: list[list[int]] = [[]]
    for token, counts in zip(row.tokens, row.counts, strict=True):
        if counts:
            pieces[-1].append(token)
        elif pieces[-1]:
            pieces.append([])
    return [chosen.decode(it) for it in pieces if it]


def talk(count: int, *, system: bool, thoughts: bool) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "be brief"}] * system
    for number in range(count):
        messages.append({"role": "user", "content": f"what is {number}?"})
        thought = {"reasoning_content": f"it may be {number}"} if thoughts else {}
        messages.append({"role": "assistant", "content": f"it is\n{number} 👍", **thought})
    return messages


def in_parts(name: str, messages: Any) -> Any:
    if name not in ("idefics3", "smolvlm"):
        return messages
    return [{**it, "content": [{"type": "text", "text": it["content"]}]} for it in messages]


class _Clock:
    @staticmethod
    def now() -> datetime:
        return datetime(2024, 7, 26)


@pytest.mark.parametrize("thoughts", [False, True])
@pytest.mark.parametrize("name", [*FAMILIES])
def test_the_answers_of_a_family_are_learned_behind_what_asks_for_them(tmp_path, monkeypatch, name, thoughts):
    monkeypatch.setattr(chat_template_utils, "datetime", _Clock)
    template, chosen = made_in(tmp_path, name)
    family = FAMILIES[name]
    form = family.thought if thoughts and family.thought is not None else family.plain
    for count in (1, 2, 3, 5):
        for system in (False, True)[: 1 + family.has_system]:
            messages = talk(count, system=system, thoughts=thoughts)
            rows = rows_of(template, messages)
            pieces = [learned(chosen, row) for row in rows]
            answers = [it for it in messages if it["role"] == "assistant"]
            wanted = [form.format(thought=it.get("reasoning_content")) + it["content"] + family.end for it in answers]
            assert [
                piece.removesuffix("<|user|>").removesuffix("<|endoftext|>") for it in pieces for piece in it
            ] == wanted
            if count == 5 and not (name == "joined" and system):
                assert len(rows) == family.rows[thoughts]
            done = 0
            for row, ours in zip(rows, pieces, strict=True):
                done += len(ours)
                place = messages.index(answers[done - 1])
                question = chosen.apply_chat_template(
                    in_parts(name, messages[:place]), tokenize=False, add_generation_prompt=True
                )
                assert chosen.decode(row.tokens).startswith(question.rstrip())
                if family.as_written:
                    whole = chosen.apply_chat_template(in_parts(name, messages[: place + 1]))["input_ids"]
                    assert row.tokens in (whole, [*whole, chosen.eos_token_id])
                elif len(ours) == 1:
                    wanted_tokens = chosen(question + ours[0], add_special_tokens=False)["input_ids"]
                    assert row.tokens[: len(wanted_tokens)] == wanted_tokens


@pytest.mark.parametrize("name", ["qwen3", "gptoss", "deepseek_r1_distill", "glm4moe"])
def test_thoughts_in_the_text_are_those_of_a_key_and_may_be_left_out(tmp_path, name):
    template, chosen = made_in(tmp_path / "a", name)
    by_key = talk(3, system=True, thoughts=True)
    inline = [
        {"role": it["role"], "content": f"<think>\n{it['reasoning_content']}\n</think>\n\n{it['content']}"}
        if "reasoning_content" in it
        else it
        for it in by_key
    ]
    renamed = [{("thinking" if key == "reasoning_content" else key): it for key, it in m.items()} for m in by_key]
    wanted = rows_of(template, by_key)
    assert rows_of(template, inline) == wanted
    assert rows_of(template, renamed) == wanted
    without, _ = made_in(tmp_path / "b", name, thoughts="leave_out")
    plain = rows_of(template, talk(3, system=True, thoughts=False))
    assert rows_of(without, by_key) == rows_of(without, inline) == plain
    assert "it may be" not in "".join(piece for row in plain for piece in learned(chosen, row))


CALL = {"type": "function", "id": "abcdefghi", "function": {"name": "add", "arguments": {"a": "two", "b": [1]}}}
TOOL = {
    "type": "function",
    "function": {
        "name": "add",
        "description": "the sum",
        "parameters": {"type": "object", "properties": {"a": {"type": "string", "description": "one"}}},
    },
}
USED = [
    {"role": "user", "content": "add two"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "name": "add", "tool_call_id": "abcdefghi", "content": "3"},
    {"role": "assistant", "content": "it is 3"},
]
JSON = '{"a": "two", "b": [1]}'
CALLS = {
    "deepseekv3": "\n</think>\n\n<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>add\n```json\n" + JSON
    + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
    "gemma4_v5": '<|tool_call>call:add{a:<|"|>two<|"|>,b:[1]}<tool_call|><|tool_response>',
    "glm4moe": "\n<think></think>\n<tool_call>add\n<arg_key>a</arg_key>\n<arg_value>two</arg_value>\n"
    "<arg_key>b</arg_key>\n<arg_value>[1]</arg_value>\n</tool_call><|observation|>",
    "gptoss": " to=functions.add<|channel|>commentary json<|message|>" + JSON + "<|call|>",
    "llama3_1": '{"name": "add", "parameters": ' + JSON + "}<|eot_id|>",
    "qwen2_5": '<tool_call>\n{"name": "add", "arguments": ' + JSON + "}\n</tool_call><|im_end|>",
    "qwen3": '<think>\n\n</think>\n\n<tool_call>\n{"name": "add", "arguments": ' + JSON + "}\n</tool_call><|im_end|>",
    "qwen3_instruct_2507": '<tool_call>\n{"name": "add", "arguments": ' + JSON + "}\n</tool_call><|im_end|>",
}  # fmt: skip


CALLS_TWICE = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.content is none %}{% for c in m.tool_calls %}"
    "{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>\n{% else %}{% for c in"
    " m.tool_calls or [] %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}<|im_end|>\n"
    "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""An answer with an empty text is a call and an empty answer, as early DeepSeek writes it."""
FAMILIES["twice"] = Family("<|im_end|>", text=CALLS_TWICE)
CALLS["twice"] = "add" + JSON + "<|im_end|>"


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize("name", [*CALLS])
def test_calls_of_tools_are_learned_from_mappings_and_from_json(tmp_path, name, as_json):
    template, chosen = made_in(tmp_path, name)
    messages: Any = USED
    if as_json:
        messages = [it if "tool_calls" not in it else {**it, "tool_calls": [
            {**CALL, "function": {"name": "add", "arguments": JSON}}]} for it in USED]  # fmt: skip
    rows = rows_of(template, messages, [TOOL])
    pieces = [piece for row in rows for piece in learned(chosen, row)]
    assert pieces[0] == CALLS[name]
    assert "it is 3" in pieces[-1]
    assert len(pieces) == 2
    assert "add" in chosen.decode(rows[0].tokens)


def test_a_thought_before_a_call_stays_in_the_question_of_the_next_answer(tmp_path):
    template, chosen = made_in(tmp_path, "gptoss")
    messages = [USED[0], {**USED[1], "thinking": "let me add"}, USED[2], {**USED[3], "thinking": "now I know"}]
    first, last = rows_of(template, messages, [TOOL])[0], rows_of(template, messages, [TOOL])[-1]
    assert learned(chosen, first)[0].startswith("<|channel|>analysis<|message|>let me add<|end|>")
    assert "let me add" in chosen.decode(last.tokens)
    assert learned(chosen, last)[-1] == (
        "<|channel|>analysis<|message|>now I know<|end|><|start|>assistant<|channel|>final<|message|>it is 3<|return|>"
    )


@pytest.mark.parametrize(
    ("name", "messages", "kinds"),
    [
        ("llama3", [*USED[:1], {**USED[1], "content": ""}, *USED[2:]], ["tools", "calls of tools"]),
        ("llama3_1", talk(1, system=False, thoughts=True), ["thoughts"]),
        ("qwen3", talk(1, system=False, thoughts=True), []),
        ("joined", talk(1, system=True, thoughts=False), []),
        ("deepseek_r1_distill", talk(1, system=False, thoughts=True), []),
    ],
)
def test_what_a_family_leaves_out_is_counted(tmp_path, name, messages, kinds):
    template, chosen = made_in(tmp_path, name)
    tools = [TOOL] if "tool_calls" in str(messages) else None
    assert template.left_out(Conversation(messages, tools)) == kinds
    answers = [it for it in messages if it["role"] == "assistant" and it["content"]]
    assert len([piece for row in rows_of(template, messages, tools) for piece in learned(chosen, row)]) == len(answers)


def test_text_that_a_template_leaves_out_of_an_answer_is_refused(tmp_path):
    template, _ = made_in(tmp_path, "deepseek_r1_distill")
    (found,) = template.encode(
        [Conversation([USED[0], {"role": "assistant", "content": "so </think> is it"}])], "answers"
    )
    assert "messages[1]: the chat template of the tokenizer" in str(found)
    assert "leaves out 'so </think> is it' of this answer" in str(found)
