"""`init_from`, `freeze` and `trainable` of a training's YAML."""

from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.errors import ConfigError, RecordMismatchError
from burnlike.module import params
from burnlike.record import save
from burnlike.train import Job, RunDir, TrainConfig

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
