"""Runs of models with adapters: what they leave, what their checkpoints hold, and how they are read again."""

import io
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers

from burnlike.cli.main import main
from burnlike.errors import RecordMismatchError
from burnlike.interop import load_adapter
from burnlike.models import DecoderLmConfig, PretrainedConfig, save_pretrained
from burnlike.record import open_record
from burnlike.train import Job, PlainRenderer, RunDir, TrainConfig, load_run

from ..models.by_path.directories import llama

YAML = """
data: {type: Tokens, path: DIR/tokens.bin, context_length: 8}
model: {type: LoRA, of: {type: Pretrained, path: DIR/base, library: burnlike}, rank: 2, targets: [query, linear_outer]}
task: {type: LanguageModel, sample_length: 0}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.03}
training:
  {epochs: 2, steps_per_epoch: 3, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 2, keep_checkpoints: 9}
device: cpu
threads: 1
"""
TOKENS = torch.arange(8)[None]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("adapters")
    torch.manual_seed(0)
    base = DecoderLmConfig(vocab_size=32, max_sequence_length=16, d_model=16, n_layers=2, n_heads=2, d_ff=32)
    save_pretrained(base.init("cpu"), place / "base", config=base)
    torch.randint(0, 32, (900,), dtype=torch.int32).to(torch.uint16).numpy().tofile(place / "tokens.bin")
    train(place, "run")
    return place


def config(place: Path, *overrides: str) -> TrainConfig:
    return TrainConfig.from_yaml(YAML.replace("DIR", str(place)), "f.yaml", [*overrides])


def train(place: Path, name: str, *overrides: str) -> Any:
    with closing(RunDir.create(place / name)) as run:
        return Job(config(place, *overrides)).run(run, PlainRenderer(io.StringIO()))


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found = model(TOKENS)
    return getattr(found, "logits", found)


def test_a_run_leaves_adapters_and_no_base(folder: Path) -> None:
    run = folder / "run"
    assert sorted(it.name for it in (run / "adapter").iterdir()) == [
        "adapter_config.json", "adapter_model.safetensors", "base.json",
    ]  # fmt: skip
    assert not (run / "model.safetensors").exists()
    loaded = load_run(run)
    base = PretrainedConfig(path=str(folder / "base"), library="burnlike").init("cpu").eval()
    before = logits(base)
    load_adapter(base, run / "adapter")
    assert torch.equal(logits(base), logits(loaded.model))
    assert not torch.equal(logits(base), before)
    checkpoint = open_record(run / "checkpoints" / "step-00000006" / "model.safetensors")
    assert len(checkpoint.tensors) == 8 == sum(it.requires_grad for it in base.parameters())
    assert all(".lora." in it for it in checkpoint.tensors)
    assert logits(load_run(run, step=2).model).shape == (1, 8, 32)


def test_a_resumed_run_ends_in_the_same_bits(folder: Path) -> None:
    shutil.copytree(folder / "run", folder / "again")
    for step in (4, 6):
        shutil.rmtree(folder / "again" / "checkpoints" / f"step-{step:08}")
    shutil.rmtree(folder / "again" / "adapter")
    with closing(RunDir.open(folder / "again")) as run:
        Job(config(folder)).run(run, PlainRenderer(io.StringIO()))
    files = [folder / name / "adapter" / "adapter_model.safetensors" for name in ("run", "again")]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_another_base_is_refused(folder: Path) -> None:
    kept = (folder / "base" / "model.safetensors").read_bytes()
    torch.manual_seed(1)
    other = DecoderLmConfig(vocab_size=32, max_sequence_length=16, d_model=16, n_layers=2, n_heads=2, d_ff=32)
    try:
        save_pretrained(other.init("cpu"), folder / "base", config=other)
        for step in (None, 4):
            with pytest.raises(RecordMismatchError, match="beside other frozen weights"):
                load_run(folder / "run", step=step)
    finally:
        (folder / "base" / "model.safetensors").write_bytes(kept)
    assert load_run(folder / "run").step == 6


@pytest.mark.parametrize("name", ["ema", "dora"])
def test_averages_and_magnitudes_are_trained_and_read(folder: Path, name: str) -> None:
    options = {"ema": ["training.ema={decay: 0.5}"], "dora": ["model.dora=true", "model.dropout=0.1"]}[name]
    train(folder, name, *options, "training.epochs=1")
    final, last = load_run(folder / name), load_run(folder / name, best=False)
    shutil.rmtree(folder / name / "checkpoints")
    assert torch.equal(logits(load_run(folder / name).model), logits(final.model))
    assert last.step == 3


def test_a_base_that_is_drawn_is_kept_whole(folder: Path) -> None:
    of = "{type: DecoderLm, vocab_size: 32, max_sequence_length: 16, d_model: 16, n_layers: 1, n_heads: 2, d_ff: 32}"
    train(folder, "own", "~model.of", f"model.of={of}", "training.epochs=1", "output.precision=float32")
    found = load_run(folder / "own")
    assert (folder / "own" / "model.safetensors").exists()
    shutil.rmtree(folder / "own" / "checkpoints")
    assert torch.equal(logits(load_run(folder / "own").model), logits(found.model))


def test_adapters_are_trained_on(folder: Path) -> None:
    train(folder, "more", f"model.adapter={folder / 'run'}", "training.epochs=1", "lr_scheduler.lr=1e-30")
    assert torch.allclose(logits(load_run(folder / "more").model), logits(load_run(folder / "run").model), atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of peft
@pytest.mark.parametrize("saved", ["[]", "[lm_head]"])
def test_adapters_of_a_model_with_more_tokens_are_trained_on(folder: Path, tmp_path: Path, saved: str) -> None:
    transformers.logging.disable_progress_bar()
    llama(tmp_path / "llama", vocab_size=32, tie_word_embeddings=True)
    base = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "llama")
    base.resize_token_embeddings(37)
    whole = ["lm_head"] if "lm_head" in saved else None
    theirs: Any = peft.get_peft_model(base, peft.LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=whole))
    theirs.save_pretrained(tmp_path / "peft")
    of = f"{{type: Pretrained, path: {tmp_path / 'llama'}, head: CausalLM}}"
    model = f"{{type: LoRA, of: {of}, rank: 2, alpha: 8, targets: [q_proj], modules_to_save: {saved}}}"
    options_of_run = [f"data.path={folder / 'tokens.bin'}", "~model", f"model={model}"]
    train(tmp_path, "run", *options_of_run, f"model.adapter={tmp_path / 'peft'}")
    expected = logits(load_run(tmp_path / "run").model)
    assert expected.shape == (1, 8, 37)
    assert torch.equal(logits(load_run(tmp_path / "run", step=6).model), expected)
    shutil.rmtree(tmp_path / "peft")
    assert torch.equal(logits(load_run(tmp_path / "run", step=6).model), expected)
    shutil.rmtree(tmp_path / "run" / "checkpoints")
    assert torch.equal(logits(load_run(tmp_path / "run").model), expected)
    again = transformers.LlamaForCausalLM.from_pretrained(tmp_path / "llama")
    again.resize_token_embeddings(37)
    theirs = peft.PeftModel.from_pretrained(again, str(tmp_path / "run" / "adapter")).eval()
    torch.testing.assert_close(logits(theirs), expected)
    assert main(["merge", str(tmp_path / "run"), "--out", str(tmp_path / "merged")]) == 0
    torch.testing.assert_close(logits(transformers.LlamaForCausalLM.from_pretrained(tmp_path / "merged")), expected)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("model.targets=[qery]", "targets: no layer 'qery'; did you mean 'query'?"),
        ("model.targets=[]", "model.targets: expected layers"),
        ("model.targets='(up'", "model.targets: expected a regular expression"),
        ("model.dropout=1", "model.dropout: expected a number >= 0 and < 1"),
        ("model.modules_to_save=[headd]", "modules_to_save: no module 'headd'"),
        ("model.adapter=DIR/base", "expected a directory with peft's adapter_config.json, or a run with adapters"),
        ("model.of={type: LoRA, of: {type: Relu}}", "model.of: expected a model without adapters"),
    ],
)
def test_check_says_what_is_wrong(folder: Path, capsys: Any, option: str, message: str) -> None:
    (folder / "f.yaml").write_text(YAML.replace("DIR", str(folder)))
    assert main(["check", str(folder / "f.yaml"), "--set", option.replace("DIR", str(folder))]) == 2
    shown = capsys.readouterr()
    assert message in shown.out + shown.err


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of torchao
@pytest.mark.parametrize("scheme", ["int8", "nf4"])
def test_a_quantized_base_is_trained_and_resumed(folder: Path, scheme: str) -> None:
    options = [f"model.quantize={scheme}", "model.dora=true"]
    train(folder, scheme, *options)
    shutil.copytree(folder / scheme, folder / f"{scheme}-again")
    shutil.rmtree(folder / f"{scheme}-again" / "checkpoints" / "step-00000006")
    with closing(RunDir.open(folder / f"{scheme}-again")) as run:
        Job(config(folder, *options)).run(run, PlainRenderer(io.StringIO()))
    first, second = (load_run(folder / name).model for name in (scheme, f"{scheme}-again"))
    assert torch.equal(logits(first), logits(second))
    assert json.loads((folder / scheme / "adapter" / "adapter_config.json").read_text())["use_dora"]
