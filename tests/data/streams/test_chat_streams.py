"""Conversations in a stream are those of `type: Chat`; text with a tokenizer of transformers."""

from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.cli.main import main
from burnlike.data import ChatConfig, DataLoader, StreamConfig
from burnlike.errors import DataError

from ..chat.samples import conversations, tokenizer, tokenizer_in, write_lines


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def options(folder: Path, **more: Any) -> dict[str, Any]:
    (folder / "data").mkdir()
    for shard in range(2):
        rows = [{"messages": it} for it in conversations(40)[shard * 20 : shard * 20 + 20]]
        write_lines(folder / "data" / f"{shard}.jsonl", rows)
    sources = [{"path": str(folder / "data")}]
    common = {"sources": sources, "tokenizer": str(tokenizer_in(folder / "tokenizer")), "validation_items": 1}
    return {**common, "context_length": 64, "chat": {}, **more}


def expected(folder: Path) -> list[tuple[list[int], list[int]]]:
    """The conversations as `type: Chat` has them."""
    config = {"path": str(folder / "data"), "tokenizer": str(folder / "tokenizer"), "max_length": 64}
    data = ChatConfig.from_dict(config).init()
    items = [data.train[it] for it in range(len(data.train))] + [data.valid[it] for it in range(len(data.valid))]
    return sorted((it["input_ids"].tolist(), it["labels"].tolist()) for it in items)


def test_conversations_are_those_of_chat(tmp_path: Path) -> None:
    data = StreamConfig.from_dict(options(tmp_path)).init()
    items = [data.train[it] for it in range(len(data.train))] + [data.valid[0]]
    assert sorted((it["input_ids"].tolist(), it["labels"].tolist()) for it in items) == expected(tmp_path)
    batch = next(iter(DataLoader(data.train, data.batcher, batch_size=3, seed=1)))
    assert batch["attention_mask"].sum(1).max() == batch["input_ids"].shape[1]


def test_packed_conversations_are_whole_and_each_comes_once(tmp_path: Path) -> None:
    data = StreamConfig.from_dict(options(tmp_path, packing=True)).init()
    found = []
    for item in (*(data.train[it] for it in range(len(data.train))), data.valid[0]):
        begins = (item["position_ids"] == 0).nonzero().flatten().tolist()
        for begin, end in zip(begins, [*begins[1:], len(item["input_ids"])], strict=True):
            found.append((item["input_ids"][begin:end].tolist(), item["labels"][begin:end].tolist()))
    assert sorted(found) == expected(tmp_path)
    batch = next(iter(DataLoader(data.train, data.batcher, batch_size=3, seed=1)))
    assert sorted(batch) == ["input_ids", "labels", "position_ids"]
    assert {it.shape for it in batch.values()} == {(3, 64)}


def test_text_has_the_tokens_of_a_directory_and_its_end_after_each(tmp_path: Path) -> None:
    config = options(tmp_path, chat=None, context_length=8)
    write_lines(tmp_path / "data" / "0.jsonl", [{"text": "hello how are you"}, {"text": "fine thanks and how is it"}])
    (tmp_path / "data" / "1.jsonl").unlink()
    data = StreamConfig.from_dict(config).init()
    known = tokenizer()
    tokens = [
        it
        for text in ("hello how are you", "fine thanks and how is it")
        for it in [*known(text)["input_ids"], known.eos_token_id]
    ]
    assert torch.equal(data.valid[0], torch.tensor(tokens[:9]))
    assert data.vocab_size == len(known)


def test_rows_that_are_no_conversations_are_named(tmp_path: Path) -> None:
    config = options(tmp_path)
    path = tmp_path / "data" / "1.jsonl"
    path.write_text(path.read_text() + '{"messages": [{"role": "user"}]}\n')
    data = StreamConfig.from_dict(config).init()
    with pytest.raises(DataError, match=rf"{path}:21: messages\[0\]"):
        DataLoader(data.train, data.batcher, batch_size=3)
    assert DataLoader(data.train, data.batcher, batch_size=3, on_bad_item="skip").skipped == 1


def test_the_command_shows_what_has_no_loss(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = StreamConfig.from_dict(options(tmp_path, packing=True)).to_yaml()
    (tmp_path / "a.yaml").write_text(RUN.format(data="\n".join(f"  {it}" for it in config.splitlines())))
    assert main(["data", str(tmp_path / "a.yaml"), "--first", "1"]) == 0
    said = capsys.readouterr().out
    assert "windows of 64 tokens to train on" in said
    assert "]]it is" in said


RUN = """\
data:
{data}
model: {{type: DecoderLm, vocab_size: 300, max_sequence_length: 64, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 24}}
optimizer: {{type: AdamW}}
lr_scheduler: {{type: ConstantLr, lr: 1e-3}}
training: {{epochs: 1, batch_size: 4}}
"""
