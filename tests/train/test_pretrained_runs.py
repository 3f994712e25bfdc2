"""Trainings of a model by its directory: what they leave, where they begin, and what they do with its blocks."""

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file

from burnlike.cli.main import main
from burnlike.errors import RecordIOError
from burnlike.train import Job, RunDir, TrainConfig, load_run

from ..models.by_path.directories import bert, llama, vit
from ..processes import assert_succeed, launched

DIGITS = """
data: {type: Digits}
model: {type: Pretrained, path: DIR}
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, steps_per_epoch: 3, validation_steps: 1, batch_size: 8}
output: {precision: float32}
device: cpu
threads: 1
"""
TEXT = """
data: {type: Text, path: TEXT, context_length: 12}
model: {type: Pretrained, path: DIR, fuse: true}
task: {type: LanguageModel, sample_length: 3}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, steps_per_epoch: 3, validation_steps: 1, batch_size: 4, log_every_steps: 1}
output: {precision: float32}
device: cpu
threads: 1
"""


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return vit(tmp_path_factory.mktemp("vit"))


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llama(tmp_path_factory.mktemp("llama"), vocab_size=256)


def started(text: str, directory: Path, *overrides: str) -> Job:
    found = text.replace("DIR", str(directory)).replace("TEXT", str(Path(__file__).parent.parent / "processes.py"))
    return Job(TrainConfig.from_yaml(found, "f.yaml", overrides))


def trained(job: Job, place: Path) -> Path:
    with closing(RunDir.create(place)) as run:
        job.run(run)
    return place


def test_a_run_is_a_directory_of_transformers_and_needs_no_other(images: Path, tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(images, source)
    job = started(DIGITS, source)
    run = trained(job, tmp_path / "run")
    shutil.rmtree(source)
    loaded = load_run(run)
    theirs = transformers.AutoModelForImageClassification.from_pretrained(run)
    assert loaded.classes == [str(number) for number in range(10)]
    assert theirs.config.id2label[3] == "3"
    inputs = torch.randn(4, 1, 8, 8)
    with torch.no_grad():
        expected = job.model.eval()(inputs).logits
        assert torch.equal(loaded.model(inputs).logits, expected)
        assert torch.equal(theirs(inputs).logits, expected)
    again = started(DIGITS, run)
    assert again.notes[0] == f"weights   40 of 40 tensors of {run}/model.safetensors"
    assert torch.equal(again.model.classifier.weight, job.model.classifier.weight)


def test_a_run_begins_by_saying_what_was_read(images: Path, tmp_path: Path) -> None:
    job = started(DIGITS, images, "model.fuse=true")
    with closing(RunDir.create(tmp_path / "run")) as run:
        lines = job.describe(run)
    assert (
        f"weights   38 of 40 tensors of {images}/model.safetensors; drawn: classifier.bias, classifier.weight" in lines
    )
    assert any(line.startswith("fused     ") for line in lines)


def test_init_from_takes_a_run_a_checkpoint_and_a_directory(images: Path, tmp_path: Path) -> None:
    first = started(DIGITS, images)
    run = trained(first, tmp_path / "run")
    (checkpoint,) = (run / "checkpoints").iterdir()
    wanted = first.model.classifier.weight
    for source in (run, checkpoint, run / "model.safetensors"):
        for option in (f"init_from={source}", f"init_from={{path: {source}}}"):
            found = started(DIGITS, images, option)
            assert torch.equal(found.model.classifier.weight, wanted)
    backbone = started(DIGITS, images, f"init_from={{path: {run}, skip: [classifier]}}")
    assert torch.equal(backbone.model.vit.layernorm.weight, first.model.vit.layernorm.weight)
    assert not torch.equal(backbone.model.classifier.weight, wanted)
    assert backbone.notes[-1].endswith("drawn: classifier.weight, classifier.bias")
    (tmp_path / "begun" / "checkpoints").mkdir(parents=True)
    (tmp_path / "begun" / "run.lock").touch()
    with pytest.raises(RecordIOError, match=r"this run has no model\.safetensors yet"):
        started(DIGITS, images, f"init_from={tmp_path / 'begun'}")


def test_a_run_of_burnlikes_own_model_is_a_directory_too(tmp_path: Path) -> None:
    own = "{type: DecoderLm, vocab_size: 256, max_sequence_length: 16, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 8}"
    text = TEXT.replace("{type: Pretrained, path: DIR, fuse: true}", own)
    first = started(text, tmp_path)
    run = trained(first, tmp_path / "run")
    second = started(TEXT.replace(", fuse: true", ""), run)
    assert type(second.model) is type(first.model)
    for one, other in zip(first.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(one, other)
    trained(second, tmp_path / "again")
    assert type(load_run(tmp_path / "again").model) is type(first.model)


def test_a_language_model_learns_and_writes_a_sample(language: Path, tmp_path: Path) -> None:
    result_dir = trained(started(TEXT, language), tmp_path / "run")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(result_dir)
    inputs = torch.randint(256, (2, 5))
    with torch.no_grad():
        torch.testing.assert_close(theirs(inputs).logits, load_run(result_dir).model(inputs).logits)


def losses(job: Job, place: Path) -> list[float]:
    trained(job, place)
    lines = map(json.loads, (place / "metrics.jsonl").read_text().splitlines())
    return [line["loss"] for line in lines]


@pytest.mark.slow
def test_checkpointed_blocks_and_an_average_change_no_loss(language: Path, tmp_path: Path) -> None:
    double = "model.dtype=float64"
    expected = losses(started(TEXT, language, double), tmp_path / "a")
    again = losses(started(TEXT, language, double, "training.activation_checkpointing=true"), tmp_path / "b")
    assert again == pytest.approx(expected, rel=1e-12)
    averaged = losses(started(TEXT, language, double, "training.ema={decay: 0.5}"), tmp_path / "c")
    assert averaged[:3] == expected[:3]
    assert averaged[3] != expected[3]


@pytest.mark.slow
def test_compiled_it_learns_the_same(language: Path, tmp_path: Path) -> None:
    expected = losses(started(TEXT, language), tmp_path / "a")
    found = losses(started(TEXT, language, "training.compile=true"), tmp_path / "b")
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.slow
def test_it_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    bert(Path("bert"), vocab_size=256)
    text = (
        TEXT.replace("DIR", "bert")
        .replace("TEXT", __file__)
        .replace("LanguageModel, sample_length: 3", "LanguageModel, sample_length: 0")
    )
    Path("f.yaml").write_text(text)
    options = ["--set", "model.head=CausalLM", "--set", "model.options.is_decoder=true"]
    assert main(["verify-resume", "f.yaml", *options]) == 0, capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_two_processes_train_it_as_one(strategy: str, language: Path, tmp_path: Path) -> None:
    text = TEXT.replace("DIR", str(language)).replace("TEXT", str(Path(__file__).parent.parent / "processes.py"))
    (tmp_path / "f.yaml").write_text(text)
    logs = [tmp_path / f"log-{rank}" for rank in range(2)]
    options = [f"distributed.strategy={strategy}", "training.batch_size=2", "training.activation_checkpointing=true"]
    command = ["-m", "burnlike", "train", str(tmp_path / "f.yaml"), "--run-dir", str(tmp_path / "two")]
    assert_succeed(launched([*command, *(part for it in options for part in ("--set", it))], logs), logs)
    trained(started(text, language), tmp_path / "one")
    one, two = (load_file(tmp_path / name / "model.safetensors") for name in ("one", "two"))
    assert one.keys() == two.keys()
    for name, value in one.items():
        torch.testing.assert_close(two[name], value, rtol=1e-4, atol=5e-6)


def test_the_directory_of_a_run_names_the_token_of_the_padding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A classifier that reads the last token finds it by the padding, also where the source named another token."""
    monkeypatch.chdir(tmp_path)
    words = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "good", "bad", "film", "a"])}
    tokenizer = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]")
    sizes: Any = {"vocab_size": 6, "n_embd": 8, "n_layer": 1, "n_head": 2, "n_positions": 8, "pad_token_id": 5}
    torch.manual_seed(0)
    transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes)).save_pretrained("gpt2")
    fast.save_pretrained("gpt2")
    texts = ["a good film", "bad", "good", "a bad film"] * 4
    Path("rows.csv").write_text("\n".join(["text,label", *(f"{it},{'good' in it}" for it in texts), ""]))
    data = "data: {type: TextClassification, path: rows.csv, text: text, target: label, tokenizer: gpt2}"
    run = trained(started(DIGITS.replace("data: {type: Digits}", data), Path("gpt2")), tmp_path / "run")
    theirs: Any = transformers.AutoModelForSequenceClassification.from_pretrained(run)
    assert theirs.config.pad_token_id == 0
    batch = fast(["a good film", "bad"], padding=True, return_tensors="pt")
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        torch.testing.assert_close(theirs(**inputs).logits, load_run(run).model(**inputs).logits)
