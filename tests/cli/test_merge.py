"""`burnlike merge`: runs and peft's files become plain models, or there is one error and nothing written."""

import shlex
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import peft
import pytest
import torch
import transformers

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.record import load
from burnlike.train import Job, RunDir, TrainConfig, load_run

from ..models.by_path.directories import bert, llama, saved, tokens

pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")  # by peft
OWN = """
data: {type: Digits}
model:
  type: LoRA
  of: {type: Sequential, layers: [{type: Flatten}, {type: Linear, d_input: 64, d_output: 10}]}
  rank: 2
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, steps_per_epoch: 2, validation_steps: 1, batch_size: 8}
device: cpu
threads: 1
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of an own model with adapters, a directory of a Llama, and peft's files for it."""
    folder = tmp_path_factory.mktemp("merge")
    job = Job(TrainConfig.from_yaml(OWN))
    with closing(RunDir.create(folder / "own")) as run:
        job.run(run)
    llama(folder / "llama")
    _adapter(folder / "llama", folder / "adapter", "CausalLM", targets=["q_proj", "down_proj"])
    return folder


def _adapter(base: Path, out: Path, head: str, *, targets: list[str], **options: Any) -> Any:
    """Let peft write adapters that matter; gives peft's model."""
    auto = getattr(transformers, f"AutoModelFor{head}")
    torch.manual_seed(1)
    model: Any = peft.get_peft_model(auto.from_pretrained(base), peft.LoraConfig(target_modules=targets, **options))
    for name, tensor in model.named_parameters():
        if ".lora_" in name:
            torch.nn.init.normal_(tensor.data, std=0.3)
    model.save_pretrained(out)
    return model.eval()


def _run(command: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    capsys.readouterr()
    status = main(shlex.split(command))
    said, error = capsys.readouterr()
    return status, said, error


@pytest.mark.parametrize(
    ("head", "model_class", "targets", "options"),
    [
        (
            "CausalLM",
            transformers.LlamaForCausalLM,
            ["q_proj", "down_proj"],
            {"task_type": "CAUSAL_LM", "use_dora": True},
        ),
        ("CausalLM", transformers.GPT2LMHeadModel, ["c_attn"], {"fan_in_fan_out": True}),
        (
            "SequenceClassification",
            transformers.BertForSequenceClassification,
            ["query"],
            {"task_type": "SEQ_CLS", "modules_to_save": ["classifier"]},
        ),
    ],
    ids=["llama", "gpt2", "bert"],
)
def test_adapters_of_peft_become_a_directory(
    head: str, model_class: Any, targets: list[str], options: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path / "base", model_class)
    model = _adapter(tmp_path / "base", tmp_path / "adapter", head, targets=targets, **options)
    status, said, error = _run(f"merge {tmp_path}/adapter --out {tmp_path}/out", capsys)
    assert status == 0, error
    assert "adapters of" in said
    merged = getattr(transformers, f"AutoModelFor{head}").from_pretrained(tmp_path / "out")
    with torch.no_grad():
        torch.testing.assert_close(merged(tokens()).logits, model(tokens()).logits)


@pytest.mark.slow
def test_a_run_of_an_own_model_becomes_a_record_and_its_config(
    place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(f"merge {place}/own --out {tmp_path}/out", capsys)[0] == 0
    model = ModuleConfig.load(tmp_path / "out/model.yaml").init()
    load(model, tmp_path / "out/model.safetensors")
    x = torch.randn(3, 1, 8, 8)
    torch.testing.assert_close(model(x), load_run(place / "own").model(x))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("merge {place}/none --out {out}", "there is no run at"),
        ("merge {place}/own --base {place}/llama --out {out}", "--base is for adapters of peft"),
        ("merge {place}/adapter --best --out {out}", "--best is for runs"),
        ("merge {place}/adapter --base {place}/gone --out {out}", "gone, which is none; name it by --base"),
        ("merge {place}/adapter --base {place}/other --out {out}", "are not for the model in"),
        ("merge {place}/own --out {place}/llama", "is there already"),
        ("merge {place}/damaged --out {out}", "adapter_model.safetensors"),
    ],
)
def test_what_can_not_be_merged_is_one_error(
    command: str, message: str, place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if "other" in command:
        bert(place / "other")
    if "damaged" in command:
        shutil.copytree(place / "adapter", place / "damaged")
        (place / "damaged/adapter_model.safetensors").write_bytes(b"no")
    status, _, error = _run(command.format(place=place, out=tmp_path / "out"), capsys)
    assert status == 2
    assert message in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()
