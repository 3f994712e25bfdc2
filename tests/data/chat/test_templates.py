"""Which tokens of a conversation are there, and on which there is a loss: beside transformers' own."""

import os
from typing import Any

import pytest

from burnlike.data.chat.formats import Conversation
from burnlike.data.chat.templates import ChatTemplate, WrongConversation
from burnlike.errors import DataError

from .samples import CHATML, MARKED, tokenizer, tokenizer_in, turns

TALK = turns("what is it", "it is fine 👍", "sure?", "yes\n")


def encoded(directory: Any, template: str | None, messages: Any, loss: str = "answers", **options: Any) -> Any:
    made = ChatTemplate(tokenizer_in(directory, template), options.pop("chat_template", None), **options)
    (found,) = made.encode([Conversation(messages)], loss)
    return found if isinstance(found, WrongConversation) else found[0]


def texts(found: Any) -> list[str]:
    """What there is a loss on, piece by piece."""
    pieces, last = [], False
    for token, counted in zip(found.tokens, found.counts, strict=True):
        if counted and not last:
            pieces.append([])
        if counted:
            pieces[-1].append(token)
        last = counted
    return [tokenizer().decode(it) for it in pieces]


def test_marked_answers_are_those_of_transformers(tmp_path):
    found = encoded(tmp_path, MARKED, TALK)
    wanted = tokenizer(MARKED).apply_chat_template(
        TALK, tokenize=True, return_dict=True, return_assistant_tokens_mask=True
    )
    assert found.tokens == wanted["input_ids"]
    assert found.counts == [bool(it) for it in wanted["assistant_masks"]]


def test_answers_found_by_prefixes_are_the_marked_ones(tmp_path):
    assert encoded(tmp_path / "a", CHATML, TALK) == encoded(tmp_path / "b", MARKED, TALK)


def test_answers_end_in_the_token_that_ends_them_and_not_in_what_follows(tmp_path):
    assert texts(encoded(tmp_path, CHATML, TALK)) == ["it is fine 👍<|im_end|>", "yes\n<|im_end|>"]


def test_an_end_that_the_template_leaves_unmarked_is_learned(tmp_path):
    outside = MARKED.replace("<|im_end|>{% endgeneration %}", "{% endgeneration %}<|im_end|>")
    assert texts(encoded(tmp_path, outside, TALK)) == ["it is fine 👍<|im_end|>", "yes\n<|im_end|>"]


ROLES = "{% for m in messages %}\n### {{ m.role }}:\n{{ m.content }}{% endfor %}"
ASKS = "{% if add_generation_prompt %}\n### assistant:\n{% endif %}"
PARTS = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n{% if m.role == 'assistant' %}{% for part in m.parts %}"
    "PART{% generation %}{{ part }}{% endgeneration %}{% endfor %}{% else %}{{ m.content }}{% endif %}<|im_end|>\n"
    "{% endfor %}"
)
GLM = (
    "{% for m in messages %}{{ '<|im_start|>' if m.role == 'user' else '<|im_end|>' }}{{ m.role }}\n{{ m.content }}"
    "{% endfor %}{% if add_generation_prompt %}<|im_end|>assistant\n{% endif %}"
)
"""No token ends an answer, but that of the user's next turn."""


@pytest.mark.parametrize(
    ("template", "first", "last"),
    [
        (CHATML, "it is fine 👍<|im_end|>", "yes\n<|im_end|>"),
        (MARKED, "it is fine 👍<|im_end|>", "yes\n<|im_end|>"),
        (ROLES + ASKS, "it is fine 👍", "yes\n</s>"),
        ("{% for m in messages %}{{ m.content }}{% endfor %}", "it is fine 👍", "yes\n</s>"),
        (GLM, "it is fine 👍<|im_start|>", "yes\n</s>"),
    ],
)
def test_an_answer_of_weight_0_has_no_loss(tmp_path, template, first, last):
    assert texts(encoded(tmp_path, template, [*TALK[:3], {**TALK[3], "weight": 0}])) == [first]
    assert texts(encoded(tmp_path, template, [*TALK[:1], {**TALK[1], "weight": 0}, *TALK[2:]])) == [last]
    assert texts(encoded(tmp_path, template, TALK, "last_answer")) == [last]
    assert texts(encoded(tmp_path, template, TALK)) == [first, last]


@pytest.mark.parametrize(
    "template",
    [
        "{% for m in messages %}{{ m.content }}{% endfor %}",
        ROLES + ASKS,
        PARTS.replace("<|im_end|>", "").replace("<|im_start|>", "@"),
    ],
)
def test_an_empty_last_answer_leaves_what_the_user_said_without_loss(tmp_path, template):
    talk = [*TALK[:3], {"role": "assistant", "content": "", "parts": [""]}]
    talk[1] = {**talk[1], "parts": [talk[1]["content"]]}
    assert [it.strip() for it in texts(encoded(tmp_path, template, talk))] == ["it is fine 👍", "</s>"]


@pytest.mark.parametrize(
    ("parts", "weights", "loss", "wanted"),
    [
        (["a", "b"], (1, 1), "last_answer", ["a", "b<|im_end|>"]),
        (["a", "b"], (1, 1), "answers", ["f<|im_end|>", "a", "b<|im_end|>"]),
        (["a", "b"], (0, 1), "answers", ["a", "b<|im_end|>"]),
        (["a", "b"], (1, 0), "answers", ["f<|im_end|>"]),
        ([], (1, 0), "answers", ["f<|im_end|>"]),
        ([], (0, 1), "answers", []),
    ],
)
def test_marked_parts_belong_to_the_answer_that_they_stand_in(tmp_path, parts, weights, loss, wanted):
    talk = [TALK[0], {**TALK[1], "parts": ["f"]}, TALK[2], {**TALK[3], "parts": parts}]
    for message, weight in zip(talk[1::2], weights, strict=True):
        message["weight"] = weight
    assert texts(encoded(tmp_path, PARTS, talk, loss)) == wanted


def test_marks_that_can_not_be_told_apart_are_refused(tmp_path):
    counted = "{{ messages | length }}" + PARTS
    talk = [TALK[0], {**TALK[1], "parts": ["f"], "weight": 0}, TALK[2], {**TALK[3], "parts": ["a"]}]
    assert "messages[3]: the chat template of" in str(encoded(tmp_path, counted, talk))
    assert texts(encoded(tmp_path, counted, [talk[0], {**talk[1], "weight": 1}, *talk[2:]])) == [
        "f<|im_end|>",
        "a<|im_end|>",
    ]


@pytest.mark.parametrize("loss", ["answers", "all", "last_answer"])
def test_a_template_that_begins_an_answer_unasked_is_refused(tmp_path, loss):
    always = CHATML.replace("{% if add_generation_prompt %}", "").replace("assistant\n{% endif %}", "assistant\n")
    assert "writes 'assistant' behind every conversation" in str(encoded(tmp_path, always, TALK[:2], loss))
    never = CHATML[: CHATML.index("{% if add_generation_prompt %}")]
    header = "" if loss == "all" else "<|im_start|>assistant\nit is fine 👍<|im_end|>"
    assert header in texts(encoded(tmp_path, never, TALK[:2], loss))[0]


@pytest.mark.parametrize(
    ("name", "messages", "wanted"),
    [
        ("alpaca", ["system", "user", "assistant"], []),
        ("alpaca", ["developer", "user", "tool", "system", "assistant"],
         ["a developer message", "a later system message", "a result of a tool"]),
        ("chatml", ["developer", "user", "tool", "system", "assistant"], []),
        ("plain", ["user", "developer", "assistant"], []),
    ],
)  # fmt: skip
def test_messages_that_a_template_leaves_out_are_known(tmp_path, name, messages, wanted):
    talk = Conversation([{"role": it, "content": "it"} for it in messages])
    assert ChatTemplate(tokenizer_in(tmp_path), name).left_out(talk) == wanted


def test_the_last_answer_alone_and_all_tokens(tmp_path):
    assert texts(encoded(tmp_path, CHATML, TALK, "last_answer")) == ["yes\n<|im_end|>"]
    assert texts(encoded(tmp_path, MARKED, TALK, "last_answer")) == ["yes\n<|im_end|>"]
    assert all(encoded(tmp_path, CHATML, TALK, "all").counts[:-1])


def test_a_template_without_an_end_gets_the_token_that_ends_texts(tmp_path):
    found = encoded(tmp_path, None, turns("what is", " it"), chat_template="plain")
    assert tokenizer().decode(found.tokens) == "what is it</s>"
    assert texts(found) == [" it</s>"]


@pytest.mark.parametrize("name", ["chatml", "alpaca"])
def test_templates_of_burnlike_end_each_answer(tmp_path, name):
    ends = [it.rsplit("<", 1)[1] for it in texts(encoded(tmp_path, None, TALK, chat_template=name))]
    assert ends == [{"chatml": "|im_end|>", "alpaca": "/s>"}[name]] * 2


def test_the_token_that_begins_texts_is_there_once(tmp_path):
    made = tokenizer()
    made.add_bos_token = True
    made.save_pretrained(tmp_path)
    ((found,),) = ChatTemplate(tmp_path, None).encode([Conversation(TALK)], "answers")
    assert [it for it in found.tokens if it == made.bos_token_id] == [made.bos_token_id]


def test_a_system_message_of_the_config_comes_first_where_there_is_none(tmp_path):
    found = encoded(tmp_path, CHATML, TALK, system="be brief")
    assert tokenizer().decode(found.tokens).startswith("<s><|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user")
    own = [{"role": "system", "content": "other"}, *TALK]
    assert "be brief" not in tokenizer().decode(encoded(tmp_path, CHATML, own, system="be brief").tokens)


def test_a_template_that_writes_the_beginning_otherwise_makes_a_row_of_each_answer(tmp_path):
    counted = "{{ messages | length }} messages\n" + CHATML
    (rows,) = ChatTemplate(tokenizer_in(tmp_path, counted), None).encode([Conversation(TALK)], "answers")
    assert not isinstance(rows, WrongConversation)
    for row, part in zip(rows, (TALK[:2], TALK), strict=True):
        prompt = tokenizer(counted).apply_chat_template(part[:-1], add_generation_prompt=True)["input_ids"]
        answer = tokenizer()(part[-1]["content"] + "<|im_end|>")["input_ids"]
        assert row.tokens[: len(prompt)] == prompt
        assert [token for token, counts in zip(row.tokens, row.counts, strict=True) if counts] == answer
    assert texts(encoded(tmp_path, counted, TALK, "last_answer")) == ["yes\n<|im_end|>"]


def test_an_answer_that_is_asked_for_otherwise_than_it_is_written_is_refused(tmp_path):
    otherwise = CHATML.replace("<|im_start|>assistant\n{% endif", "reply: {% endif")
    found = encoded(tmp_path, otherwise, TALK)
    assert "messages[3]: the chat template of the tokenizer" in str(found)
    assert "begins this answer otherwise than it asks for one" in str(found)
    assert "data.thoughts: leave_out" in str(found)
    assert "data.loss: all" in str(found)
    assert texts(encoded(tmp_path, otherwise, TALK, "all"))


def test_a_conversation_that_is_nested_too_deeply_is_refused(tmp_path):
    deep: Any = {}
    for _ in range(3000):
        deep = {"a": deep}
    found = encoded(tmp_path, CHATML, [*TALK[:3], {**TALK[3], "more": deep}])
    assert "refuses the conversation: maximum recursion depth exceeded" in str(found)
    assert texts(encoded(tmp_path / "next", CHATML, TALK)) == ["it is fine 👍<|im_end|>", "yes\n<|im_end|>"]


def test_a_process_that_is_forked_fills_templates_of_its_own(tmp_path):
    made = ChatTemplate(tokenizer_in(tmp_path), None)
    wanted = made.prompt(Conversation(TALK[:1]))
    if (child := os.fork()) == 0:
        status = 1
        try:
            status = int(made.prompt(Conversation(TALK[:1])) != wanted)
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert made.prompt(Conversation(TALK[:1])) == wanted


def test_what_a_template_says_of_a_conversation_is_told(tmp_path):
    strict = "{% if messages[0].role != 'system' %}{{ raise_exception('a system message first') }}{% endif %}" + CHATML
    assert "refuses the conversation: a system message first" in str(encoded(tmp_path, strict, TALK))


def test_tools_reach_the_template(tmp_path):
    shows = "{% for tool in tools %}{{ tool.function.name }}({{ tool.function.description }})\n{% endfor %}" + CHATML
    made = ChatTemplate(tokenizer_in(tmp_path, shows), None)
    tool = {"type": "function", "function": {"name": "add", "description": "the sum"}}
    ((found,),) = made.encode([Conversation(TALK, [tool])], "answers")
    assert tokenizer().decode(found.tokens).startswith("add(the sum)\n<s>")


def test_what_ends_an_answer_is_known(tmp_path):
    ids = tokenizer().convert_tokens_to_ids(["</s>", "<|im_end|>"])
    assert ChatTemplate(tokenizer_in(tmp_path), None).end_tokens == {*ids}
    assert ChatTemplate(tokenizer_in(tmp_path), "plain").end_tokens == {ids[0]}
    user = tokenizer().convert_tokens_to_ids("<|im_start|>")
    assert ChatTemplate(tokenizer_in(tmp_path, GLM), None).end_tokens == {ids[0], user, ids[1]}


def test_a_tokenizer_without_a_template_asks_for_one(tmp_path):
    with pytest.raises(DataError, match=r"no chat template; name one by data\.chat_template: .*chatml, alpaca, plain"):
        ChatTemplate(tokenizer_in(tmp_path, None), None)


def test_a_template_from_a_file(tmp_path):
    path = tmp_path / "mine.jinja"
    path.write_text("{% for message in messages %}{{ message.role }}: {{ message.content }}\n{% endfor %}")
    found = encoded(tmp_path / "tokenizer", None, turns("how are you", "fine"), chat_template=str(path))
    assert tokenizer().decode(found.tokens) == "user: how are you\nassistant: fine\n</s>"
    assert texts(found) == ["assistant: fine\n</s>"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{{ 'a' * 10**10 }}", "takes more than 1024 MiB of memory"),
        ("{% for i in range(1000) %}{{ 'a' * 10**5 }}{% endfor %}", "writes more than 67,108,864 characters"),
        pytest.param("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
                     "takes more than 5 s", marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_template_has_limits_of_time_and_memory(tmp_path, text, message):
    made = ChatTemplate(tokenizer_in(tmp_path, text), None)
    with pytest.raises(DataError, match=rf"data\.chat_template: the chat template of .* {message} for one conv"):
        made.encode([Conversation(TALK)], "answers")
    assert texts(encoded(tmp_path / "next", CHATML, TALK)) == ["it is fine 👍<|im_end|>", "yes\n<|im_end|>"]


@pytest.mark.parametrize("files", [{}, {"tokenizer.json": "{"}])
def test_directories_without_a_tokenizer(tmp_path, files):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=r"data\.tokenizer: .* has no tokenizer that transformers reads"):
        ChatTemplate(tmp_path, None)
    with pytest.raises(DataError, match="expected a directory"):
        ChatTemplate(tmp_path / "none", None)


@pytest.mark.parametrize("name", ["tokenizer.json", "extra.txt", "additional_chat_templates"])
def test_a_link_out_of_the_directory_of_a_tokenizer_is_refused(tmp_path, name):
    (outside := tmp_path / "outside").mkdir()
    (outside / "secret.jinja").write_text("secret")
    directory = tokenizer_in(tmp_path / "tokenizer", CHATML)
    (directory / name).unlink(missing_ok=True)
    (directory / name).symlink_to(outside if name.startswith("add") else outside / "secret.jinja")
    with pytest.raises(DataError, match=rf"{name}.*: it is a link to outside of .*; put a copy of the file there"):
        ChatTemplate(directory, None)


def test_links_of_the_hubs_cache_and_of_users_are_followed(tmp_path):
    cached = tokenizer_in(tmp_path / "models--a--b" / "snapshots" / "c0ffee", CHATML)
    (blobs := cached.parent.parent / "blobs").mkdir()
    for number, file in enumerate(sorted(cached.iterdir())):
        file.rename(blobs / str(number))
        file.symlink_to(f"../../blobs/{number}")
    (linked := tmp_path / "linked").symlink_to(cached)
    for directory in (cached, linked):
        assert ChatTemplate(directory, None).files["tokenizer/tokenizer.json"].read_bytes()
