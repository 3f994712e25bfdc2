"""The shipped configs: each builds, prints its shapes and takes a step of training; models alone in a small form."""

import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from burnlike.cli.commands import check, train
from burnlike.config import ModuleConfig
from burnlike.config.shipped import shipped_configs, shipped_jobs
from tests.cli.commands import run

CONFIGS = {name: ModuleConfig.load(path) for name, path in shipped_configs().items() if name not in shipped_jobs()}
MODELS = {name: it for name, it in CONFIGS.items() if type(it).__module__.startswith("burnlike.models.")}
MILLIONS = {
    "bert_base": 109.5,
    "convnext_tiny": 28.6,
    "gpt2_small": 124.4,
    "lstm_lm": 19.8,
    "mlp": 0.27,
    "resnet18_cifar": 11.2,
    "resnet50": 25.6,
    "t5_small": 60.5,
    "unet": 31.0,
    "vit_small": 22.1,
}
"""Parameters of some, as their papers and comments have them."""
SMALL: dict[str, list[str]] = {
    "bert_base": ["vocab_size=17", "max_sequence_length=8", "d_model=8", "n_layers=1", "n_heads=2", "d_ff=12"],
    "convnext_tiny": ["depths=[1,1]", "widths=[4,6]"],
    "gpt2_small": ["vocab_size=17", "max_sequence_length=8", "d_model=8", "n_layers=1", "n_heads=2", "d_ff=12"],
    "lstm_lm": ["vocab_size=17", "d_model=8", "d_hidden=8"],
    "mlp": ["sizes=[8,6,3]"],
    "resnet18_cifar": ["depths=[1,1]", "widths=[4,6]", "stem_channels=4"],
    "resnet50": ["depths=[1,1]", "widths=[4,8]", "stem_channels=4"],
    "t5_small": ["vocab_size=17", "d_model=8", "n_layers=1", "n_heads=2", "d_ff=12"],
    "unet": ["widths=[4,6]"],
    "vit_small": ["image_size=16", "patch_size=8", "d_model=8", "n_layers=1", "n_heads=2", "d_ff=12"],
}
"""What makes a step of each fast."""
SIZES = {"convnext_tiny": (2, 3, 16, 16), "resnet50": (2, 3, 16, 16), "resnet18_cifar": (2, 3, 8, 8)}
"""Of images that a small form takes; others take the inputs that their config implies."""

SEVERAL = {"digits_gan": "generator, discriminator", "digits_vae": "encoder, decoder"}
"""Jobs of several networks, which a task calls."""


def inputs_of(name: str, config: ModuleConfig) -> list[Tensor]:
    """Inputs of the small form."""
    if name in SIZES:
        return [torch.randn(SIZES[name])]
    given = config.example_inputs().values()
    return [torch.randint(2, shape) if dtype == "int64" else torch.randn(shape) for dtype, shape in given]


def first_of(output: Any) -> Tensor:
    """The output, or the first of several."""
    return output if isinstance(output, Tensor) else output[0]


def slow_if_large(name: str) -> Any:
    """The name as a parameter, slow for configs of more than a second."""
    marks = () if name in ("char_gpt_tiny", "llama_tiny", "mlp", "transformer_layers") else (pytest.mark.slow,)
    return pytest.param(name, marks=marks)


each_model = pytest.mark.parametrize("name", MODELS)


@each_model
def test_it_builds_without_memory(name: str) -> None:
    model: Any = MODELS[name].init("meta")
    if name in MILLIONS:
        assert model.num_params() / 1e6 == pytest.approx(MILLIONS[name], rel=0.01)


@each_model
def test_it_names_every_field_that_is_no_part(name: str) -> None:
    text = shipped_configs()[name].read_text()
    written = set(re.findall(r"^(?:# )?(\w+):", text, re.MULTILINE))
    fields = {key for key, value in MODELS[name].to_dict().items() if key != "type" and not isinstance(value, dict)}
    assert fields <= written


@each_model
def test_a_step_of_training_lowers_the_loss(name: str) -> None:
    torch.manual_seed(0)
    config = ModuleConfig.load(shipped_configs()[name], SMALL[name])
    model: Any = config.init()
    inputs = inputs_of(name, config)
    target = torch.randn_like(first_of(model(*inputs)))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def loss() -> Tensor:
        torch.manual_seed(1)
        return (first_of(model(*inputs)) - target).square().mean()

    before = loss()
    before.backward()
    optimizer.step()
    assert loss() < before


@pytest.mark.parametrize("name", [slow_if_large(name) for name in shipped_configs() if name not in SEVERAL])
def test_its_shapes_are_printed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = ("--input", "1,3,32,32") if name == "resnet18_layers" else ()
    assert run(check, name, "--shapes", *inputs) == 0
    printed = capsys.readouterr().out
    assert re.search(r"^total: [\d,]+ parameters, .*FLOPs for these inputs$", printed, re.MULTILINE)
    assert "failed" not in printed


@pytest.mark.parametrize("name", SEVERAL)
def test_several_networks_have_no_shapes_in_common(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(check, name, "--shapes") == 2
    assert f"model: Networks: call one of {SEVERAL[name]}; a task such as" in capsys.readouterr().out


@pytest.mark.parametrize("name", [slow_if_large(name) for name in shipped_jobs()])
def test_a_job_takes_a_step_and_a_validation(name: str, tmp_path: Path) -> None:
    options = ["training.epochs=1", "training.steps_per_epoch=1", "training.validation_steps=1"]
    options += ["training.batch_size=1", "lr_scheduler={type: ConstantLr, lr: 1e-3}"]
    if not name.startswith("digits"):
        (tmp_path / "text.txt").write_text("a short text to read. " * 400)
        options += ["data.path=" + str(tmp_path / "text.txt"), "task.sample_length=1"]
    assert run(train, name, "--run-dir", tmp_path / "run", *(part for it in options for part in ("--set", it))) == 0
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert all(math.isfinite(value) for line in lines for key, value in line.items() if "loss" in key)
    assert any("valid" in json.dumps(line) for line in lines)
    assert (tmp_path / "run" / "model.safetensors").exists()
