"""Where a training begins and what it trains: init_from, freeze, groups, models by their directories."""

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
from burnlike.config import ModuleConfig
from burnlike.errors import ConfigError, RecordIOError, RecordMismatchError
from burnlike.module import params
from burnlike.record import save
from burnlike.train import Job, RunDir, TrainConfig, load_run
from burnlike.train.job.loaded_run import evaluate_run, predictions

from ..marks import slow, weekly
from ..models.by_path.directories import bert, llama, vit
from ..processes import assert_succeed, launched
from .samples import metrics_of

BACKBONE = "{type: Linear, d_input: 64, d_output: 8}"
YAML = """
data: {type: Digits, flat: true}
model:
  type: Sequential
  layers:
    backbone: {type: Linear, d_input: 64, d_output: 8}
    head: {type: Linear, d_input: 8, d_output: 10}
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, steps_per_epoch: 3, validation_steps: 1, batch_size: 8}
device: cpu
threads: 1
"""
OLD = """
type: Sequential
layers:
  body: {type: Linear, d_input: 64, d_output: 8}
  head: {type: Linear, d_input: 8, d_output: 3}
"""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A record of a model whose layers have other names and whose head has other classes."""
    torch.manual_seed(7)
    save(ModuleConfig.from_yaml(OLD).init("cpu"), tmp_path / "old.safetensors")
    return tmp_path / "old.safetensors"


def job(*overrides: str) -> Job:
    return Job(TrainConfig.from_yaml(YAML, "f.yaml", overrides))


def weights(model: Any) -> dict[str, torch.Tensor]:
    return {param.path: param.tensor.detach().clone() for param in params(model)}


def test_a_new_head_on_a_trained_backbone(old: Path, tmp_path: Path) -> None:
    torch.manual_seed(7)
    expected = weights(ModuleConfig.from_yaml(OLD).init("cpu"))
    source = f"init_from={{path: {old}, rename: {{'^body': backbone}}, skip: ['^head']}}"
    started = job(source, "freeze=['^backbone']")
    before = weights(started.model)
    assert torch.equal(before["backbone.weight"], expected["body.weight"])
    assert torch.equal(before["head.weight"], weights(job().model)["head.weight"])  # drawn as without a record
    with closing(RunDir.create(tmp_path / "run")) as run:
        started.run(run)
    after = weights(started.model)
    assert torch.equal(after["backbone.weight"], before["backbone.weight"])
    assert not torch.equal(after["head.weight"], before["head.weight"])


def test_what_does_not_fit_is_an_error(old: Path) -> None:
    with pytest.raises(RecordMismatchError, match="0 of the 4 tensors"):
        job(f"init_from={old}")
    with pytest.raises(RecordMismatchError, match="head"):
        job(f"init_from={{path: {old}, rename: {{body: backbone}}, strict: false}}")
    with pytest.raises(ConfigError, match=r"init_from\.skip\.1: matches nothing .*'tail'"):
        job(f"init_from={{path: {old}, rename: {{body: backbone}}, skip: [head, tail]}}")


def test_without_strict_a_record_may_lack_parameters_and_the_run_says_which(old: Path, tmp_path: Path) -> None:
    drawn = weights(job().model)
    found = job(f"init_from={{path: {old}, rename: {{'^body.w': backbone.w}}, skip: [head], strict: false}}")
    changed = {path for path, it in weights(found.model).items() if not torch.equal(it, drawn[path])}
    assert changed == {"backbone.weight"}
    with closing(RunDir.create(tmp_path / "run")) as run:
        (line,) = (it for it in found.describe(run) if it.startswith("weights"))
    assert line == f"weights   1 of 4 tensors of {old}; drawn: backbone.bias, head.weight, head.bias"


def test_a_record_of_which_nothing_is_taken_is_an_error(old: Path, tmp_path: Path, capsys: Any) -> None:
    option = f"init_from={{path: {old}, skip: [head], strict: false}}"
    with pytest.raises(ConfigError, match=r"init_from: nothing of .* the model has backbone\.weight.* body\.weight"):
        job(option)
    (tmp_path / "f.yaml").write_text(YAML)
    assert main(["check", str(tmp_path / "f.yaml"), "--set", option]) == 2
    assert "init_from: nothing of" in capsys.readouterr().out


def test_check_knows_a_record_that_does_not_fit(old: Path, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "f.yaml").write_text(YAML)
    source = f"{{path: {old}, rename: {{'^body': backbone}}}}"
    assert main(["check", str(tmp_path / "f.yaml"), "--set", f"init_from={source}"]) == 2
    assert "head.weight: expected float32 [8, 10], got float32 [8, 3]" in capsys.readouterr().out
    fitting = source.replace("}}", "}, skip: [head]}")
    assert main(["check", str(tmp_path / "f.yaml"), "--set", f"init_from={fitting}"]) == 0


@pytest.mark.parametrize(
    ("options", "trained"),
    [
        (["freeze=['^backbone']"], ["head.weight", "head.bias"]),
        (["trainable=['^head']"], ["head.weight", "head.bias"]),
        (["trainable=[bias]"], ["backbone.bias", "head.bias"]),
        (["optimizer={type: Muon}", "trainable=[weight]"], ["backbone.weight", "head.weight"]),
        (["freeze=[backbone]", "trainable=['backbone.bias']"], ["backbone.bias", "head.weight", "head.bias"]),
        (
            [
                "task={type: LoraFineTuning, task: {type: Classification}, lora: {rank: 2, alpha: 2}}",
                "trainable=[lora, '^head.b']",
            ],
            5,
        ),
    ],
)
def test_what_is_trained(options: list[str], trained: list[str] | int) -> None:
    found = [param.path for param in params(job(*options).model, "weight") if param.trainable]
    assert found == trained or len(found) == trained


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("freeze=['^bakcbone']", r"freeze\.0: matches no parameter of the model.*backbone"),
        ("trainable=[head, tail]", r"trainable\.1: matches no parameter"),
        ("freeze=['.']", "freeze: leaves no parameter to train"),
        ("freeze=['(']", r"freeze\.0: expected a regular expression"),
        ("freeze=['(([a-z._])+)+!']", r"freeze\.0: matches no parameter"),
        ("optimizer={type: Muon}", "optimizer: Muon can't update 'backbone.bias'"),
        ("init_from={path: x, rename: {a: '\\1'}}", r"init_from\.rename\.a: .*can't stand for a match of 'a'"),
        ("init_from={path: x, skip: ['[']}", r"init_from\.skip\.0: expected a regular expression"),
    ],
)
def test_a_wrong_pattern_is_told(option: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ConfigError, match=message):
        job(option)
    (tmp_path / "f.yaml").write_text(YAML)
    if "init_from" not in option:
        assert main(["check", str(tmp_path / "f.yaml"), "--set", option]) == 2
        assert f"--set {option}" in capsys.readouterr().out


ROOT = Path(__file__).parents[2]
GROUPS = """\
optimizer:
  type: AdamW
  weight_decay: 0.1
  grad_clipping: {type: ClipByGlobalNorm, threshold: 1.0}
  groups:
    - params: {match: [{type: AnyPredicates, predicates: [norm, bias]}]}
      weight_decay: 0.0
    - params: {match: [{type: Regexes, regexes: ['^embedding']}]}
      optimizer: {type: Lion}
      lr_factor: 0.1

lr_scheduler:
  type: ModuleLrScheduler
  base: {type: WarmupLr, warmup_steps: 3, scheduler: {type: CosineAnnealing, initial_lr: 1e-2}}
  groups:
    - params: {match: [{type: Regexes, regexes: ['^embedding']}]}
      scheduler: {type: ConstantLr, lr: 1e-3}

training:
  epochs: 2
  steps_per_epoch: 4
  batch_size: 4
  accumulation_steps: 2
  validation_steps: 1
  log_every_steps: 1

task: {type: LanguageModel, sample_length: 0}
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """char_gpt_tiny.yaml with groups."""
    text = (ROOT / "burnlike/configs/char_gpt_tiny.yaml").read_text()
    data_and_model = text[: text.index("task:")]
    written = tmp_path / "groups.yaml"
    written.write_text(data_and_model + GROUPS)
    return written


def test_check_looks_for_the_parameters_of_groups(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(path)]) == 0
    text = path.read_text().replace("[norm, bias]", "[nrom]").replace("'^embedding'", "'^embeding'")
    path.write_text(text)
    capsys.readouterr()
    assert main(["check", str(path)]) == 2
    lines = capsys.readouterr().out.splitlines()
    at = [number for number, line in enumerate(text.splitlines(), 1) if "- params:" in line]
    names = ["optimizer.groups.0.params", "optimizer.groups.1.params", "lr_scheduler.groups.0.params"]
    for line, number, name in zip(lines, at, names, strict=False):
        assert line.startswith(f"{path}:{number}:15: {name}: matches no parameter of the model (embedding.weight, ")
    assert lines[3:] == ["3 mistakes in 1 file of 1"]


def test_check_does_not_look_for_parameters_by_id(path: Path) -> None:
    group = "{type: Ids, ids: [aaaaaaaaaaaaa]}"
    override = f"optimizer.groups=[{{params: {{match: [{group}]}}, lr_factor: 0.5}}]"
    assert main(["check", str(path), "--set", override, "--set", "lr_scheduler.groups=[]"]) == 0


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("weight_decay: 0.0", "weight_decay: -1.0", "optimizer.groups.0.weight_decay: expected a"),
        ("lr_factor: 0.1", "lr_facter: 0.1", "lr_factor"),
        ("['^embedding']", "['^embedding(']", "expected a regular expression"),
        ("type: Lion", "type: Loin", "Lion"),
        ("threshold: 1.0", "threshold: 0.0", "optimizer.grad_clipping.threshold: expected a"),
        ("warmup_steps: 3", "warmup_steps: 8", "lr_scheduler.base.warmup_steps: expected less than the 8 steps"),
        ("accumulation_steps: 2", "accumulation_steps: 0", "training.accumulation_steps: expected an int >= 1, got 0"),
    ],
)
def test_check_names_the_place_of_a_mistake(
    path: Path, capsys: pytest.CaptureFixture[str], right: str, wrong: str, message: str
) -> None:
    text = path.read_text()
    assert right in text
    path.write_text(text.replace(right, wrong, 1))
    line = text[: text.index(right)].count("\n") + 1
    assert main(["check", str(path)]) == 2
    found = capsys.readouterr().out
    assert message in found
    assert f"{path}:{line}:" in found or "warmup_steps" in wrong


def test_a_run_trains_with_groups(path: Path, tmp_path: Path) -> None:
    job = Job(TrainConfig.load(path))
    embedding = next(param for param in params(job.model) if param.path.startswith("embedding"))
    assert (
        job.learner.optimizer.rules.rule_of(embedding.id, embedding.path)
        is job.learner.optimizer.rules.groups[1].optimizer
    )
    with closing(RunDir.create(tmp_path / "run")) as run:
        job.run(run)
    lines = [line for line in metrics_of(tmp_path / "run") if line["split"] == "train"]
    assert len(lines) == 8
    assert [line["lr"] for line in lines[:4]] == pytest.approx([1e-2 / 3, 2e-2 / 3, 1e-2, 1e-2])
    assert lines[-1]["loss"] < lines[0]["loss"]


def test_a_group_that_matches_nothing_ends_a_run_before_it_begins(path: Path) -> None:
    config = TrainConfig.load(path, ["optimizer.groups.1.params.match.0.regexes=['^embeding']"])
    with pytest.raises(ConfigError, match=r"groups\[1\] of the optimizer matches no parameter"):
        Job(config)


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


@pytest.mark.weekly
def test_compiled_it_learns_the_same(language: Path, tmp_path: Path) -> None:
    expected = losses(started(TEXT, language), tmp_path / "a")
    found = losses(started(TEXT, language, "training.compile=true"), tmp_path / "b")
    assert found == pytest.approx(expected, rel=1e-4)


@pytest.mark.weekly
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


@pytest.mark.parametrize("strategy", [*slow("ddp"), *weekly("fsdp2")])
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


def sentiment_job() -> tuple[Any, Job]:
    """A tokenizer, and a job in the current folder: a GPT-2 of 8 positions that tells good films from bad ones."""
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
    return fast, started(DIGITS.replace("data: {type: Digits}", data), Path("gpt2"))


def test_the_directory_of_a_run_names_the_token_of_the_padding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A classifier that reads the last token finds it by the padding, also where the source named another token."""
    monkeypatch.chdir(tmp_path)
    fast, job = sentiment_job()
    run = trained(job, tmp_path / "run")
    theirs: Any = transformers.AutoModelForSequenceClassification.from_pretrained(run)
    assert theirs.config.pad_token_id == 0
    batch = fast(["a good film", "bad"], padding=True, return_tensors="pt")
    inputs = {name: batch[name] for name in ("input_ids", "attention_mask")}
    with torch.no_grad():
        torch.testing.assert_close(theirs(**inputs).logits, load_run(run).model(**inputs).logits)


def test_texts_end_where_the_positions_of_the_model_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    fast, job = sentiment_job()
    loaded = load_run(trained(job, tmp_path / "run"))
    Path("new.txt").write_text("a good film " * 5 + "\n")
    (row,) = predictions(loaded, [Path("new.txt")])
    with torch.no_grad():
        logits = loaded.model(**fast("a good film a good film a good", return_tensors="pt")).logits
    assert row["probabilities.True"] == pytest.approx(logits[0].softmax(0)[1].item(), rel=1e-5)
    Path("rows.csv").write_text(Path("rows.csv").read_text() + f"{'a bad film ' * 5},False\n")
    assert evaluate_run(loaded, "train", notes={}).items + evaluate_run(loaded, "valid", notes={}).items == 17
    Path("job.yaml").write_text(job.config.to_yaml())
    assert main(["check", "job.yaml"]) == 2
    expected = "data.max_length: expected texts of at most 8 tokens, which GPT2ForSequenceClassification reads, got 15"
    assert f"{expected}; cut them by data.max_length: 8" in capsys.readouterr().out
    assert main(["check", "job.yaml", "--set", "data.max_length=8"]) == 0
