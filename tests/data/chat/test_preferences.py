"""Pairs of answers in the columns of TRL, axolotl and LLaMA-Factory, and what is no pair."""

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


def test_systems_margins_and_examples(tmp_path: Path) -> None:
    row = {**ROWS["TRL, texts"], "system": "hello you", "margin": 0.5}
    data = data_of(tmp_path, [row, row, ROWS["TRL, texts"]], validation_fraction=0.3, split_seed=0)
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
    ({"prompt": "a", "completion": "b"}, "there is no chosen and no rejected among prompt, completion"),
    ({"prompt": "a", "chosen": "b"}, "there is no rejected among prompt, chosen"),
]


@pytest.mark.parametrize(("row", "message"), WRONG, ids=str)
def test_files_that_have_no_pairs_are_refused(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        data_of(tmp_path, [row] * 3)


UNREAD: list[tuple[dict[str, Any], str]] = [
    ({"chosen": None}, "expected the columns chosen and rejected, got no chosen"),
    ({"chosen": 3}, "chosen: expected a list of messages, got int '3'"),
    ({"margin": "large"}, "margin: expected a number, got 'large'"),
    ({"rejected": turns(QUESTION)}, "rejected: expected an answer of the assistant at its end"),
]


@pytest.mark.parametrize(("change", "message"), UNREAD, ids=str)
def test_rows_that_are_no_pairs_are_told_by_line(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    data = data_of(tmp_path, [*[ROWS["TRL, texts"]] * 4, {**ROWS["TRL, texts"], **change}])
    (line,) = [it for it in data.describe() if it.startswith("unread")]
    assert line.endswith(f"pairs.jsonl:5: {message}")
    assert len(data.train) + len(data.valid) == 4
