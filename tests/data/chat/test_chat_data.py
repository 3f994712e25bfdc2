"""Chat data and its formats: rows, masks of what is learned, and what is refused."""

import json
from io import StringIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.cli.main import main
from burnlike.data import ChatConfig, ChatData, ChatFormatConfig, DataLoader
from burnlike.data.chat.codec import prompt_tokens
from burnlike.data.chat.formats import WrongRow, format_named, format_of
from burnlike.data.codec import TextCodec
from burnlike.data.sources.splits import MASKED, UNMASKED
from burnlike.errors import ConfigError, DataError

from .samples import CHATML, conversations, tokenizer, tokenizer_in, turns, write_lines

ROWS = [{"messages": it} for it in conversations(30)]


def data_of(path: Path, **options: Any) -> ChatData:
    directory = path if path.is_dir() else path.parent
    options.setdefault("tokenizer", str(tokenizer_in(directory / ".tokenizer")))
    return ChatConfig(path=str(path), **options).init()


def texts_of(data: Any, part: str = "train") -> list[str]:
    return sorted(tokenizer().decode(it["input_ids"]) for it in getattr(data, part))


@pytest.fixture
def lines(tmp_path):
    return write_lines(tmp_path / "chat.jsonl", ROWS)


def written(directory: Path, kind: str) -> Path:
    directory.mkdir()
    path = directory / f"chat.{kind}"
    if kind == "json":
        path.write_text(json.dumps(ROWS, indent=1))
    elif kind == "csv":
        quoted = [json.dumps(row["messages"]).replace('"', '""') for row in ROWS]
        path.write_text("messages\n" + "".join(f'"{it}"\n' for it in quoted))
    else:
        import datasets

        found = datasets.Dataset.from_list(ROWS)
        path = directory / kind
        found.to_parquet(path / "data" / "train-00000-of-00001.parquet") if kind == "hub" else found.save_to_disk(path)
    return path


@pytest.mark.parametrize("kind", ["json", "csv", "saved", pytest.param("hub", marks=pytest.mark.slow)])
def test_every_kind_of_file_has_the_same_conversations(lines, tmp_path, kind):
    wanted, found = data_of(lines), data_of(written(tmp_path / "other", kind))
    assert texts_of(found) == texts_of(wanted)
    assert texts_of(found, "valid") == texts_of(wanted, "valid")
    assert len(found.train) == 27


@pytest.mark.parametrize("kind", ["parquet", "saved"])
def test_nulls_that_arrow_adds_are_no_arguments_and_those_of_json_are(tmp_path, kind):
    import datasets

    def row(arguments: Any) -> Any:
        call = {"type": "function", "function": {"name": "add", "arguments": arguments}}
        return {"messages": [*turns("what is it"), {"role": "assistant", "content": "", "tool_calls": [call]}]}

    path = tmp_path / f"rows.{kind}"
    rows = datasets.Dataset.from_list([row({"a": 1}), row({"b": 2})])
    rows.to_parquet(path) if kind == "parquet" else rows.save_to_disk(path)
    shows = CHATML.replace(
        "{{ message.content }}", "{{ message.content }}{{ message.tool_calls | default([]) | tojson }}"
    )
    text = write_lines(tmp_path / "rows.jsonl", [row({"a": None}), row('{"b": null}')])
    kept = str(tokenizer_in(tmp_path / "tokenizer", shows))
    for place, nulls in ((path, [0, 0]), (text, [1, 1])):
        found = data_of(place, tokenizer=kept, validation_path=str(place))
        answers = [it.partition("assistant\n")[2] for it in texts_of(found)]
        assert [it.count("null") for it in answers] == nulls


def test_parts_of_a_directory(tmp_path):
    for name, rows in (("train-0.jsonl", ROWS[:9]), ("train-1.jsonl", ROWS[9:20]), ("test.jsonl", ROWS[20:])):
        write_lines(tmp_path / name, rows)
    (tmp_path / "README.md").write_text("no rows")
    (packed := tmp_path / "train-2.jsonl.gz").touch()
    with pytest.raises(DataError, match=r"train-2\.jsonl\.gz: expected files that are not compressed"):
        data_of(tmp_path)
    packed.unlink()
    data = data_of(tmp_path)
    assert (len(data.train), len(data.valid), len(data.splits["test"])) == (18, 2, 10)
    write_lines(tmp_path / "validation.jsonl", ROWS[:3])
    data = data_of(tmp_path)
    assert (len(data.train), len(data.valid)) == (20, 3)
    assert len(data_of(tmp_path, validation_path=str(tmp_path / "test.jsonl")).valid) == 10


def test_labels_are_the_tokens_that_have_a_loss(lines):
    item = data_of(lines).train[0]
    counted = item["labels"] != -100
    assert item["labels"][counted].equal(item["input_ids"][counted])
    assert tokenizer().decode(item["labels"][counted]) == "it is 0<|im_end|>yes, 0<|im_end|>"


def test_longer_conversations_are_cut_left_out_or_an_error(lines):
    lengths = data_of(lines).train.lengths
    most = 40
    cut, left_out = data_of(lines, max_length=most), data_of(lines, max_length=most, on_long="drop")
    n_long = cut.counts["truncated"]
    assert n_long == left_out.counts["too long"] > 3
    assert max(cut.train.lengths) == most < max(lengths)
    assert len(left_out.train) + len(left_out.valid) == 30 - n_long
    with pytest.raises(DataError, match=r"chat\.jsonl:1: expected at most 40 tokens \(data\.max_length\), got \d+"):
        data_of(lines, max_length=most, on_long="error")


def test_conversations_of_which_no_answer_is_left_are_left_out(tmp_path):
    rows = [{"messages": turns("hello " * 30, "fine")}, *ROWS[1:9], {"messages": turns("how")}]
    data = data_of(write_lines(tmp_path / "a.jsonl", rows), max_length=60)
    assert data.counts["without an answer"] == 2
    assert len(data.train) + len(data.valid) == 8
    with pytest.raises(DataError, match="nothing is left to train on"):
        data_of(write_lines(tmp_path / "b.jsonl", [{"messages": turns("how")}] * 3))


def test_messages_that_a_template_leaves_out_are_counted(tmp_path):
    talk = [{"role": it, "content": it} for it in ("developer", "user", "tool", "system", "assistant")]
    path = write_lines(tmp_path / "rows.jsonl", [{"messages": talk}, {"messages": turns("a", "b")}])
    found = data_of(path, validation_path=str(path), chat_template="alpaca")
    kinds = ("a developer message", "a later system message", "a result of a tool")
    assert [found.counts[f"with {it}, which the template leaves out"] for it in kinds] == [2, 2, 2]  # of both parts
    assert "2 with a later system message, which the template leaves out" in "\n".join(found.describe())


def test_rows_that_are_not_of_the_format_are_errors_of_the_loader_or_counted(tmp_path):
    rows = [*ROWS[:5], {"messages": [{"role": "usr", "content": "x"}]}, *ROWS[5:9], {"messages": []}]
    rows += [{"messages": turns("half a pair \ud800", "fine")}]
    data = data_of(write_lines(tmp_path / "a.jsonl", rows))
    assert "a.jsonl:12: expected text, got half of a UTF-16 pair" in "\n".join(data.describe())
    with pytest.raises(DataError, match=r"a\.jsonl:6: messages\[0\]\.role: expected a role, got str 'usr'.*2 more"):
        DataLoader(data.train, data.batcher, batch_size=2)
    loader = DataLoader(data.train, data.batcher, batch_size=2, on_bad_item="skip")
    assert loader.skipped == data.counts["unreadable"] == 3
    assert len(data.train) + len(data.valid) == 9
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "\ud800"}]}) + "\n")
    with pytest.raises(DataError, match=r"prompts\.jsonl:1: expected text, got half of a UTF-16 pair"):
        data_config(tmp_path / "a.jsonl").unlabeled([tmp_path / "prompts.jsonl"], {}, tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "a.jsonl has no rows"),
        ("{]\n", r"a\.jsonl:1:2: expected one JSON object a line"),
        ('{"messages": [\n', r"a\.jsonl:1:15: expected one JSON object a line: Expecting value$"),
        ('{"messages": []}\n{]\n', r"a\.jsonl:2:2: expected one JSON object a line"),
    ],
)
def test_damaged_files(tmp_path, text, message):
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        data_of(path)


def test_batches_are_padded_and_of_like_lengths(lines):
    data = data_of(lines)
    loader = DataLoader(data.train, data.batcher, batch_size=4, seed=1)
    batches = [*loader]
    for batch in batches:
        mask = batch["attention_mask"]
        assert mask.shape == batch["input_ids"].shape == batch["labels"].shape
        assert mask.sum(1).max() == mask.shape[1]
        assert (batch["labels"][mask == 0] == -100).all()
    padding = sum(int((it["attention_mask"] == 0).sum()) for it in batches)
    assert padding < 0.12 * sum(it["input_ids"].numel() for it in batches)
    again = [*DataLoader(data.train, data.batcher, batch_size=4, seed=1)]
    assert all(torch.equal(a["input_ids"], b["input_ids"]) for a, b in zip(batches, again, strict=True))
    texts = sorted(tokenizer().decode(row[: int(n)]) for b in batches for row, n in
                   zip(b["input_ids"], b["attention_mask"].sum(1), strict=True))  # fmt: skip
    assert texts == texts_of(data)


def test_packed_rows_hold_every_conversation_once(lines):
    plain, data = data_of(lines), data_of(lines, packing=True, max_length=130)
    found = []
    for item in data.train:
        starts = [*(item["position_ids"] == 0).nonzero().flatten().tolist(), len(item["input_ids"])]
        assert len(item["input_ids"]) <= 130
        for begin, end in pairwise(starts):
            assert item["position_ids"][begin:end].equal(torch.arange(end - begin))
            assert item["labels"][begin] == -100
            found.append(tokenizer().decode(item["input_ids"][begin:end]))
    assert sorted(found) == texts_of(plain)
    assert data.train.fill > 0.85
    batch = next(iter(DataLoader(data.train, data.batcher, batch_size=2)))
    assert batch["input_ids"].shape == (2, data.batcher.length)
    assert {*batch} == {"input_ids", "labels", "position_ids"}


def test_packing_depends_on_the_seed_alone(lines):
    rows = [[it["input_ids"].tolist() for it in data_of(lines, packing=True, split_seed=seed).train] for seed in
            (1, 1, 2)]  # fmt: skip
    assert rows[0] == rows[1] != rows[2]


def test_the_fingerprint_is_of_the_content(lines, tmp_path):
    first = data_of(lines).fingerprint
    moved = tmp_path / "moved"
    moved.mkdir()
    assert data_of(write_lines(moved / "other.jsonl", ROWS)).fingerprint == first
    changed = [
        data_of(write_lines(moved / "a.jsonl", ROWS[:-1])).fingerprint,
        data_of(lines, loss="all").fingerprint,
        data_of(lines, chat_template="chatml").fingerprint,
    ]
    assert len({first, *changed}) == 4


def test_what_is_said_of_the_data(lines):
    data = data_of(lines, packing=True, max_length=100)
    text = "\n".join(data.describe())
    for part in ("messages; chat template of the tokenizer", "30 read", "27 train, 3 valid", "% with loss", "median"):
        assert part in text
    begin = "<s><|im_start|>user\nwhat is 0 and 0<|im_end|>\n<|im_start|>assistant\n"
    assert data.examples(1)[0].startswith(
        f"{MASKED}{begin}{UNMASKED}it is 0<|im_end|>{MASKED}\n<|im_start|>user\nsure?"
    )


def test_rows_of_a_conversation_are_in_one_part(tmp_path):
    counted = tokenizer_in(tmp_path / "tokenizer", "{{ messages | length }} messages\n" + CHATML)
    talks = [turns(*[f"{number} is {place}" for place in range(6)]) for number in range(20)]
    data = data_of(write_lines(tmp_path / "a.jsonl", [{"messages": it} for it in talks]), tokenizer=str(counted))
    said = "20 read; 20 in several rows, as the template writes answers otherwise when more follows"
    assert f"examples  {said}" in data.describe()
    parts = [[int(it.split("user\n")[1].split()[0]) for it in texts_of(data, part)] for part in ("train", "valid")]
    assert [len(it) for it in parts] == [54, 6]
    assert not {*parts[0]} & {*parts[1]}


CONFIG = """\
data: {{type: Chat, path: {path}, tokenizer: {tokenizer}, max_length: 64}}
model: {{type: DecoderLm, vocab_size: 400, max_sequence_length: 64, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 8}}
optimizer: {{type: AdamW}}
lr_scheduler: {{type: ConstantLr, lr: 0.01}}
training: {{epochs: 1, batch_size: 4}}
"""


def test_the_command_marks_what_has_no_loss(lines, tmp_path, capsys):
    config = tmp_path / "chat.yaml"
    config.write_text(CONFIG.format(path=lines, tokenizer=tokenizer_in(tmp_path / "tokenizer")))
    assert main(["data", str(config), "--first", "1"]) == 0
    out = capsys.readouterr().out
    assert "format    messages" in out
    assert "[[<s><|im_start|>user\nwhat is 0 and 0<|im_end|>\n<|im_start|>assistant\n]]it is 0<|im_end|>[[\n" in out
    assert "example 2" not in out
    assert main(["data", str(config), "--first", "-1"]) == 2
    assert main(["data", str(config), "--set", "data.chat_template=none.jinja"]) == 2
    assert "chatml, alpaca, plain" in capsys.readouterr().err


def test_the_codec_writes_prompts(lines, tmp_path):
    data = data_of(lines)
    config = data_config(lines)
    codec = config.codec({}, tmp_path)
    prompt = codec.chat(turns("how are you"))
    assert tokenizer().decode(prompt) == "<s><|im_start|>user\nhow are you<|im_end|>\n<|im_start|>assistant\n"
    assert codec.decode(codec.encode("how are you")) == "how are you"
    assert codec.stop_tokens == data.codec.stop_tokens
    with pytest.raises(DataError, match=r"messages\[0\]\.role"):
        codec.chat([{"role": "me", "content": "x"}])


def data_config(path: Path) -> ChatConfig:
    return ChatConfig(path=str(path), tokenizer=str(tokenizer_in(path.parent / ".tokenizer")))


def test_new_prompts_are_rows_without_answers_and_lines_of_text(lines, tmp_path):
    path = tmp_path / "new.txt"
    path.write_text('how are\u2028you\x0c\x85?\n\n{"prompt": "fi\u2028ne"}\r\n')
    more = write_lines(tmp_path / "new.jsonl", [{"messages": turns("sure?", "no")}, {"instruction": "a", "input": "b"}])
    found = data_config(lines).unlabeled([path, more], {}, tmp_path)
    prompts = [tokenizer().decode(it["input_ids"]).split("user\n")[1].split("<|")[0] for it in found.dataset]
    assert prompts == ["how are\u2028you\x0c\x85?", "fi\u2028ne", "sure?", "a\n\nb"]
    assert found.names == [f"{path}:1", f"{path}:3", f"{more}:1", f"{more}:2"]
    streamed = data_config(lines).unlabeled([StringIO(path.read_text())], {}, tmp_path)
    assert [it["input_ids"].tolist() for it in streamed.dataset] == [
        it["input_ids"].tolist() for it in [*found.dataset][:2]
    ]
    assert streamed.names == ["standard input:1", "standard input:3"]
    with pytest.raises(DataError, match=r"new\.jsonl:1: expected one of the columns messages, prompt"):
        data_config(lines).unlabeled([write_lines(more, [{"x": 1}])], {}, tmp_path)


def test_a_prompt_may_be_gone_on_with_and_gets_the_system_message_that_it_lacks(lines, tmp_path):
    codec = data_config(lines).codec({}, tmp_path)

    def text_of(row, **options):
        return tokenizer().decode(prompt_tokens(codec, row, **options))

    asked = "<s><|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"
    for row in ("hello", {"prompt": "hello"}, {"messages": turns("hello", "fine")}, {"instruction": "hello"}):
        assert text_of(row) == asked
        assert text_of(row, system="be fine") == asked.replace("<s>", "<s><|im_start|>system\nbe fine<|im_end|>\n")
    own = {"messages": [{"role": "system", "content": "of the row"}, *turns("hello")]}
    assert text_of(own, system="be fine") == text_of(own)
    for row in ("hello", {"prompt": "hello"}):
        assert text_of(row, continues=True) == "hello"
    assert text_of({"messages": turns("hello")}, continues=True) == asked
    with pytest.raises(DataError, match="at least one character"):
        prompt_tokens(codec, {"prompt": ""}, continues=True)
    plain = TextCodec()
    assert bytes(prompt_tokens(plain, {"prompt": "hello"}, continues=True).tolist()) == b"hello"
    with pytest.raises(DataError, match=r"a row with a text as `prompt`, got messages"):
        prompt_tokens(plain, {"messages": turns("hello")}, continues=True)
    with pytest.raises(DataError, match="plain text has no chat template"):
        prompt_tokens(plain, "hello")


def test_a_run_keeps_the_tokenizer_and_no_weights(lines, tmp_path):
    directory = tokenizer_in(tmp_path / "model")
    for name in ("model.safetensors", "model.safetensors.index.json", "config.json"):
        (directory / name).write_text("{}")
    kept = {*data_of(lines, tokenizer=str(directory)).files}
    assert {"tokenizer/tokenizer.json", "tokenizer/tokenizer_config.json", "tokenizer/config.json"} <= kept
    assert not [it for it in kept if "safetensors" in it]


TALK = turns("how are you", "fine")
SYSTEM = [{"role": "system", "content": "be brief"}, *TALK]
SAID = [{"from": "human", "value": "how are you"}, {"from": "gpt", "value": "fine"}]
CALL = {"type": "function", "function": {"name": "add", "arguments": {"a": 1}}}
FORMAT_ROWS: list[tuple[str, dict[str, Any], Any]] = [
    ("messages", {"messages": SYSTEM}, SYSTEM),
    ("messages", {"messages": json.dumps(TALK)}, TALK),
    ("messages", {"messages": [{**it, "name": None, "tool_calls": None} for it in TALK]}, TALK),
    ("messages", {"conversations": TALK}, TALK),
    ("messages", {"messages": TALK, "system": "be brief"}, SYSTEM),
    ("messages", {"messages": SYSTEM, "system": "another"}, SYSTEM),
    ("prompt_completion", {"prompt": "how are you", "completion": "fine"}, TALK),
    ("prompt_completion", {"prompt": SYSTEM[:2], "completion": SYSTEM[2:]}, SYSTEM),
    ("prompt_completion", {"prompt": "how are you", "completion": "fine", "system": "be brief"}, SYSTEM),
    ("prompt_completion", {"prompt": "how are you", "completion": TALK}, TALK),
    ("prompt_completion", {"prompt": "[2, 1]", "completion": '{"a": [1]}'}, turns("[2, 1]", '{"a": [1]}')),
    ("prompt_completion", {"prompt": "as list", "completion": "[1]"}, turns("as list", "[1]")),
    ("prompt_completion", {"prompt": json.dumps(TALK[:1]), "completion": json.dumps(TALK[1:])}, TALK),
    ("alpaca", {"instruction": "how are you", "input": "", "output": "fine"}, TALK),
    ("alpaca", {"instruction": "add", "input": "1, 2", "output": "3"}, turns("add\n\n1, 2", "3")),
    ("alpaca", {"instruction": "c", "output": "d", "history": [["a", "b"]]}, turns("a", "b", "c", "d")),
    ("sharegpt", {"conversations": SAID}, TALK),
    ("sharegpt", {"system": "be brief", "conversations": SAID}, SYSTEM),
]


@pytest.mark.parametrize(("name", "row", "wanted"), FORMAT_ROWS)
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
        (
            "messages",
            {"messages": [{"role": "assistant", "content": [{"type": "image", "url": "a.png"}]}]},
            r"messages\[0\]\.content: expected parts of type text, or image in a message of the user, got image",
        ),
        (
            "messages",
            {"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "video", "video": "a.mp4"}]}]},
            r"messages\[0\]\.content\[1\]: expected parts of type text, or image .*, got video",
        ),
        ("messages", {"messages": TALK, "tools": "x"}, "tools: expected a list of JSON objects"),
        ("sharegpt", {"conversations": [{"from": "me", "value": ""}]}, r"conversations\[0\]\.from: expected a role"),
        ("alpaca", {"instruction": "a", "output": None}, "output: expected text, got none"),
        ("alpaca", {"instruction": "a", "output": "b", "history": [["a"]]}, r"history\[0\]: expected a pair"),
        ("prompt_completion", {"prompt": "a", "completion": 1}, "completion: expected a list of messages"),
        ("prompt_completion", {"prompt": "a", "completion": TALK}, r"completion\[0\]: expected the answer, or .* user"),
    ],
)
def test_rows_that_are_not_of_the_format(name, row, message):
    with pytest.raises(WrongRow, match=message):
        format_named(name).read(row)


def test_the_config_is_read_from_plain_data():
    texts = {"user": "{q}", "assistant": "{a}"}
    found = ChatConfig.from_dict({"path": "a", "tokenizer": "b", "format": texts})
    assert isinstance(found.format, ChatFormatConfig)
