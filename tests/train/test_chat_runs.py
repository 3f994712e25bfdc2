"""Runs on chat data: trained from YAML, resumed exactly, and used without the files that they were started with."""

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from burnlike.cli.main import main
from burnlike.train import Interrupted, Interrupter, Job, RunDir, TrainConfig, load_run

from ..data.chat.samples import conversations, tokenizer_in, turns, write_lines
from .samples import files_of, metrics_of

YAML = """\
data: {type: Chat, path: chat.jsonl, tokenizer: tokenizer, max_length: 80, packing: true}
model: {type: DecoderLm, vocab_size: 300, max_sequence_length: 80, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 24}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.01}
training: {epochs: 1, batch_size: 2, accumulation_steps: 2}
task: {type: LanguageModel, sample_length: 5}
device: cpu
threads: 1
"""


@pytest.fixture
def directory(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    tokenizer_in(tmp_path / "tokenizer")
    write_lines(tmp_path / "chat.jsonl", [{"messages": it} for it in conversations(60)])
    (tmp_path / "chat.yaml").write_text(YAML)
    return tmp_path


class StopsAt(Interrupter):
    """Stops a run after some steps."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._left = steps

    def check(self) -> None:
        self._left -= 1
        if self._left == 0:
            raise Interrupted(2)


def run(path: str, *options: str, stop: int | None = None) -> Path:
    config = TrainConfig.load("chat.yaml", options)
    place = Path(path)
    with closing(RunDir.open(place) if place.exists() else RunDir.create(place)) as directory:
        try:
            Job(config).run(directory, interrupter=None if stop is None else StopsAt(stop))
        except Interrupted:
            assert stop is not None
    return place


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_packed_run_resumes_in_the_same_bits(directory, workers, capsys):
    often = ("training.checkpoint_every_steps=3", "training.epochs=2")
    whole = run("whole", *often)
    run("stopped", *often, stop=5)
    stopped = run("stopped", *often, f"training.num_workers={workers}")
    assert metrics_of(stopped) == metrics_of(whole)
    mine, theirs = files_of(stopped), files_of(whole)
    del mine["config.yaml"], theirs["config.yaml"]
    assert mine == theirs


def test_what_a_run_says_and_keeps_and_what_becomes_of_it(directory, capsys):
    assert main(["train", "chat.yaml", "--run-dir", "run"]) == 0
    said = capsys.readouterr().out
    assert "format    messages; chat template of the tokenizer" in said
    assert "packing   " in said
    assert "sample, drawn with the written model:" in said
    shutil.rmtree(directory / "tokenizer")
    (directory / "chat.jsonl").unlink()
    assert main(["generate", "run", "--chat", "--prompt", "what is 3 and 3", "--max-tokens", "4"]) == 0
    (directory / "new.jsonl").write_text(json.dumps({"messages": turns("what is 2 and 2")}) + "\n")
    assert main(["predict", "run", "new.jsonl", "--out", "answers.jsonl"]) == 0
    (answer,) = [json.loads(it) for it in (directory / "answers.jsonl").read_text().splitlines()]
    assert {*answer} == {"name", "answer"}
    assert answer["name"] == "new.jsonl:1"
    (directory / "other.yaml").write_text(
        "{type: Chat, path: new2.jsonl, tokenizer: gone, max_length: 80, packing: true}\n"
    )
    write_lines(directory / "new2.jsonl", [{"messages": it} for it in conversations(8)])
    capsys.readouterr()
    assert main(["evaluate", "run", "--data", "other.yaml"]) == 0
    assert "loss" in capsys.readouterr().out


def test_a_model_that_leaks_is_refused_before_anything_is_written(directory, capsys):
    model = "model={type: LstmLm, vocab_size: 300, d_model: 8, d_hidden: 8}"
    assert main(["train", "chat.yaml", "--run-dir", "run", "--set", model]) == 2
    assert "LstmLm can't be trained on packed documents: it takes no positions" in capsys.readouterr().err
    assert not (directory / "run").exists()
    assert main(["check", "chat.yaml", "--set", model]) == 2


@pytest.mark.slow
def test_a_run_answers_as_it_was_taught(directory):
    rows = [{"prompt": it, "completion": answer} for it, answer in (("how are you", "fine"), ("hello", "it is"))] * 20
    write_lines(directory / "chat.jsonl", rows)
    place = run("run", "training.epochs=12", "training.accumulation_steps=1", "model.d_model=32")
    loaded = load_run(place)
    codec = loaded.config.data.codec(loaded.facts, loaded.directory)
    prompts: Any = {"codec": codec, "input_ids": [codec.chat(turns(it)) for it in ("how are you", "hello")]}
    assert [it["answer"] for it in loaded.task.predict(loaded.model, prompts, {})] == ["fine", "it is"]
