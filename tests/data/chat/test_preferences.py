"""Pairs of answers in the columns of TRL, axolotl and LLaMA-Factory, and what is no pair."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.data import PreferencesConfig
from burnlike.errors import DataError

from .samples import tokenizer, tokenizer_in, turns, write_lines

pytest.importorskip("transformers", exc_type=ImportError)

QUESTION, GOOD, BAD = "what is it", "it is fine", "hello"


def written(answer: str, *, system: str | None = None) -> str:
    """The conversation as the template writes it."""
    messages = [*([{"role": "system", "content": system}] if system else []), *turns(QUESTION, answer)]
    text: Any = tokenizer().apply_chat_template(messages, tokenize=False)
    return text


ROWS: dict[str, dict[str, Any]] = {
    "TRL, texts": {"prompt": QUESTION, "chosen": GOOD, "rejected": BAD},
    "TRL, messages": {
        "prompt": turns(QUESTION),
        "chosen": turns(QUESTION, GOOD)[1:],
        "rejected": turns(QUESTION, BAD)[1:],
    },
    "TRL, without a prompt": {"chosen": turns(QUESTION, GOOD), "rejected": turns(QUESTION, BAD)},
    "UltraFeedback": {"prompt": QUESTION, "chosen": turns(QUESTION, GOOD), "rejected": turns(QUESTION, BAD)},
    "axolotl": {
        "messages": turns(QUESTION),
        "chosen": {"role": "assistant", "content": GOOD},
        "rejected": {"role": "assistant", "content": BAD},
    },
    "axolotl, ultra": {"question": QUESTION, "chosen": GOOD, "rejected": BAD},
    "LLaMA-Factory, alpaca": {"instruction": QUESTION, "input": "", "chosen": GOOD, "rejected": BAD},
    "LLaMA-Factory, sharegpt": {
        "conversations": [{"from": "human", "value": QUESTION}],
        "chosen": {"from": "gpt", "value": GOOD},
        "rejected": {"from": "gpt", "value": BAD},
    },
}


def data_of(folder: Path, rows: list[dict[str, Any]], **options: Any) -> Any:
    write_lines(folder / "pairs.jsonl", rows)
    return PreferencesConfig(
        path=str(folder / "pairs.jsonl"), tokenizer=str(tokenizer_in(folder / "base")), **options
    ).init()


@pytest.mark.parametrize("case", ROWS)
def test_rows_of_the_usual_columns(case: str, tmp_path: Path) -> None:
    data = data_of(tmp_path, [ROWS[case]] * 4)
    item = data.train[0]
    decode = data.template.tokenizer.decode
    for name, answer in (("chosen", GOOD), ("rejected", BAD)):
        tokens, labels = item[name]["input_ids"], item[name]["labels"]
        assert decode(tokens.tolist()) == written(answer)
        assert decode(tokens[labels != -100].tolist()) == f"{answer}<|im_end|>"
    batch = data.batcher.batch([data.train[0], data.train[1]], torch.device("cpu"))
    length = max(len(item[name]["input_ids"]) for name in ("chosen", "rejected"))
    assert {name: [*it.shape] for name, it in batch.items()} == {
        "input_ids": [2, 2, length],
        "labels": [2, 2, length],
        "attention_mask": [2, 2, length],
        "margin": [2],
    }
    size = len(item["rejected"]["input_ids"])
    assert torch.equal(batch["input_ids"][1, 1, :size], item["rejected"]["input_ids"])
    assert batch["attention_mask"][1, 1].tolist() == [1] * size + [0] * (length - size)


LABELED: dict[str, dict[str, Any]] = {
    "TRL, texts": {"prompt": QUESTION, "completion": GOOD, "label": True},
    "TRL, messages": {"prompt": turns(QUESTION), "completion": turns(QUESTION, GOOD)[1:], "label": True},
    "TRL, with the prompt again": {"prompt": QUESTION, "completion": turns(QUESTION, GOOD), "label": True},
    "axolotl, argilla": {"instruction": QUESTION, "completion": GOOD, "label": True},
    "axolotl, intel": {"question": QUESTION, "completion": GOOD, "label": True},
    "axolotl, argilla_chat": {"completion": turns(QUESTION, GOOD), "label": True},
    "LLaMA-Factory, alpaca": {"instruction": QUESTION, "input": "", "output": GOOD, "kto_tag": True},
    "LLaMA-Factory, sharegpt": {
        "conversations": [{"from": "human", "value": QUESTION}, {"from": "gpt", "value": GOOD}],
        "kto_tag": True,
    },
    "LLaMA-Factory, openai": {"messages": turns(QUESTION, GOOD), "kto_tag": True},
    "CSV": {"prompt": QUESTION, "completion": GOOD, "label": "True"},
    "CSV, numbers": {"prompt": QUESTION, "completion": GOOD, "label": "1"},
}


@pytest.mark.parametrize("case", LABELED)
@pytest.mark.parametrize("system", [None, "hello you"])
def test_answers_with_a_label(case: str, system: str | None, tmp_path: Path) -> None:
    row = LABELED[case] | ({} if system is None else {"system": system})
    label = "kto_tag" if "kto_tag" in row else "label"
    data = data_of(tmp_path, [row, row | {label: False}, row, row], validation_fraction=0.25)
    items = [part[place] for part in (data.train, data.valid) for place in range(len(part))]
    assert sorted(it["desirable"] for it in items) == [0.0, 1.0, 1.0, 1.0]
    decode = data.template.tokenizer.decode
    for item in items:
        tokens, labels = item["input_ids"], item["labels"]
        assert decode(tokens.tolist()) == written(GOOD, system=system)
        assert decode(tokens[labels != -100].tolist()) == f"{GOOD}<|im_end|>"
    batch = data.batcher.batch(items[:2], torch.device("cpu"))
    assert batch["desirable"].tolist() == [it["desirable"] for it in items[:2]]
    assert batch["input_ids"].shape == batch["labels"].shape == (2, len(items[0]["input_ids"]))
    assert data.examples(3)[0].startswith(("desirable:\n", "undesirable:\n"))
    with pytest.raises(DataError, match=r"data\.packing: expected false for answers with a label"):
        data_of(tmp_path, [row] * 3, packing=True)


@pytest.mark.parametrize("case", ROWS)
def test_systems_and_tools_of_pairs_are_not_left_out(case: str, tmp_path: Path) -> None:
    row = {**ROWS[case], "system": "hello you", "tools": [{"type": "function", "function": {"name": "sum"}}]}
    data = data_of(tmp_path, [row] * 3)
    assert data.template.tokenizer.decode(data.train[0]["chosen"]["input_ids"].tolist()) == written(
        GOOD, system="hello you"
    )
    assert "6 with tools, which the template leaves out" in "\n".join(data.describe())


def test_systems_margins_and_examples(tmp_path: Path) -> None:
    row = {**ROWS["TRL, texts"], "system": "hello you", "margin": 0.5}
    of_csv = [{**row, "margin": "0.5"}, {**ROWS["TRL, texts"], "margin": ""}]
    data = data_of(tmp_path, [row, *of_csv], validation_fraction=0.3, split_seed=0)
    margins = sorted(part[place]["margin"] for part in (data.train, data.valid) for place in range(len(part)))
    assert margins == [0.0, 0.5, 0.5]
    texts = [data.template.tokenizer.decode(data.train[it]["chosen"]["input_ids"].tolist()) for it in range(2)]
    assert written(GOOD, system="hello you") in texts
    (example,) = data.examples(1)
    assert example.startswith("chosen:\n")
    assert "\nrejected:\n" in example
    assert data.describe()[0].startswith("format    prompt, chosen, rejected; chat template")


def test_long_pairs_are_cut_or_left_out_together(tmp_path: Path) -> None:
    long = {**ROWS["TRL, texts"], "rejected": "hello " * 40}
    rows = [long, *[ROWS["TRL, texts"]] * 5]
    dropped = data_of(tmp_path, rows, max_length=48, on_long="drop")
    assert len(dropped.train) + len(dropped.valid) == 5
    cut = data_of(tmp_path, rows, max_length=48)
    assert max(*cut.train.lengths.tolist(), *cut.valid.lengths.tolist()) == 48
    with pytest.raises(DataError, match=r"pairs.jsonl:1: expected at most 48 tokens \(data.max_length\)"):
        data_of(tmp_path, rows, max_length=48, on_long="error")


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompt": "a", "label": True}, "with an answer .* and a `label` or `kto_tag`, for Kto; there is no chosen"),
    ({"prompt": "a", "completion": "b"}, "there is no chosen and no rejected among prompt, completion"),
    ({"prompt": "a", "chosen": "b"}, "there is no rejected among prompt, chosen"),
]


@pytest.mark.parametrize(("row", "message"), WRONG, ids=str)
def test_files_that_have_no_pairs_are_refused(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        data_of(tmp_path, [row] * 3)


@pytest.mark.parametrize("label", [None, "good", 2, "2"])
def test_labels_that_are_none_are_told_by_line(label: Any, tmp_path: Path) -> None:
    row = LABELED["TRL, texts"]
    data = data_of(tmp_path, [row, row, row, {**row, "label": label}])
    (line,) = [it for it in data.describe() if it.startswith("unread")]
    assert line.endswith(f"pairs.jsonl:4: label: expected true or false, got {label!r}")


UNREAD: list[tuple[dict[str, Any], str]] = [
    ({"chosen": None}, "expected the columns chosen and rejected, got no chosen"),
    ({"chosen": 3}, "chosen: expected a list of messages, got int '3'"),
    ({"margin": "large"}, "margin: expected a finite number, got 'large'"),
    ({"margin": math.nan}, "margin: expected a finite number, got nan"),
    ({"margin": True}, "margin: expected a finite number, got True"),
    (
        {"chosen": turns("another", GOOD)},
        "chosen[0]: expected the answer, or the messages of the prompt before it, got another message of the user",
    ),
    ({"rejected": turns(QUESTION)}, "rejected: expected an answer of the assistant at its end"),
]


@pytest.mark.parametrize(("change", "message"), UNREAD, ids=str)
def test_rows_that_are_no_pairs_are_told_by_line(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = data_of(tmp_path, [*[ROWS["TRL, texts"]] * 4, {**ROWS["TRL, texts"], **change}])
    (line,) = [it for it in data.describe() if it.startswith("unread")]
    assert line.endswith(f"pairs.jsonl:5: {message}")
    assert len(data.train) + len(data.valid) == 4
