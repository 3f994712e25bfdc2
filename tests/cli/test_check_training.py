"""`burnlike check` of a training: one batch of the data's shapes through the task and the model, without values."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from burnlike.cli.main import main
from burnlike.config.shipped import shipped_jobs
from burnlike.errors import ConfigError
from burnlike.train import Job, TrainConfig

DIGITS = """\
data: {type: Digits, flat: true}
model:
  type: Sequential
  layers:
    - {type: Linear, d_input: 64, d_output: 8}
    - {type: Relu}
    - {type: Linear, d_input: 8, d_output: 10}
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
training: {epochs: 2, batch_size: 32}
device: cpu
"""
TEXT = """\
data: {type: Text, context_length: 64}
model: {type: Sequential, layers: [{type: Linear, d_input: 64, d_output: 10}]}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-3}
training: {epochs: 1}
device: cpu
"""


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.yaml").write_text(DIGITS)
    Path("t.yaml").write_text(TEXT)


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    status = main(["check", *arguments])
    return status, capsys.readouterr().out.splitlines()[:-1]


def test_a_right_one_is_ok(capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, "d.yaml")[0] == 0


@pytest.mark.parametrize("name", shipped_jobs())
def test_shipped_trainings_are_ok(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(capsys, name)[0] == 0


@pytest.mark.parametrize(
    ("was", "now", "place", "message"),
    [
        ("d_input: 64", "d_input: 60", "5:7: model.layers.0: ", r"Linear: expected [..., 60], got [32, 64]"),
        ("d_output: 10", "d_output: 9", "3:3: model: ", "gives logits of 9 classes, and the data has 10 at least"),
        ("flat: true", "flat: false", "5:7: model.layers.0: ", "expected [..., 64], got [32, 1, 8, 8]"),
        ("Classification", "Segmentation", "8:7: task: ", "expected [n, classes, height, width] logits"),
        (
            "Classification",
            "LanguageModel",
            "8:7: task: ",
            "or [n, length + 1] integer tokens, got list",
        ),
        ("device: cpu", "metrics: [{type: TopKAccuracy, k: 11}]", "12:11: metrics.0: ", "expected at least 11 classes"),
        (
            "device: cpu",
            "metrics: [{type: Accuracy}, {type: Psnr}]",
            "12:29: metrics.1: ",
            "[n, channels, height, width]",
        ),
        (
            "{type: ConstantLr, lr: 1e-3}",
            "{type: CosineAnnealing, initial_lr: 1e-2, warmup_steps: 82}",
            "10:71: lr_s",
            "82",
        ),
        ("device: cpu", "trainable: ['^hed']", "12:13: trainable.0: ", "matches no parameter"),
        (
            "{type: AdamW}",
            "{type: AdamW, groups: [{params: {match: [{type: AnyPredicates, predicates: [x]}]}, weight_decay: 0}]}",
            "9:44: optimizer.groups.0.params: ",
            "matches no parameter",
        ),
        (
            "device: cpu",
            "distributed: {strategy: fsdp2, tensor: 2, plan: {layers.9: colwise}}",
            "12:49: distributed.plan.layers.9: ",
            "no such module; it has 0, 1, 2",
        ),
        (
            "device: cpu",
            "distributed: {strategy: fsdp2, tensor: 3, plan: {'0': colwise}}",
            "12:40: distributed.tensor: ",
            "3 processes can't share 0.weight, [64, 8], equally",
        ),
        (
            "{type: AdamW}",
            "{type: AdamW, moment_1: blockwise8}\ndistributed: {strategy: fsdp2}",
            "9:12: optimizer: ",
            "'0.weight' is sharded, and moment_1: blockwise8 can't be",
        ),
        (
            "{type: AdamW}",
            "{type: AdamW, moment_2: blockwise8}\ndistributed: {strategy: ddp, tensor: 2, plan: {'0': colwise}}",
            "9:12: optimizer: ",
            "'0.weight' is sharded, and moment_2: blockwise8 can't be",
        ),
    ],
)
def test_what_can_not_be_trained_is_told_at_its_place(
    was: str, now: str, place: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("d.yaml").write_text(DIGITS.replace(was, now, 1))
    status, lines = check(capsys, "d.yaml")
    assert status == 2
    assert lines[0].startswith(f"d.yaml:{place}")
    assert message in lines[0]
    assert check(capsys, "d.yaml", "--fast")[0] == 0


def test_tokens_for_a_layer_of_floats(capsys: pytest.CaptureFixture[str]) -> None:
    message = "model.layers.0: Linear: expected floats, got int64[32, 64]; tokens go through an Embedding first"
    status, lines = check(capsys, "t.yaml")
    assert status == 2
    assert lines[0].startswith(f"t.yaml:2:36: {message}")
    # a training says so too, before anything is written
    with pytest.raises(ConfigError, match=r"model\.layers\.0: Linear: expected floats, got int64"):
        Job(TrainConfig.load("t.yaml"))
    assert main(["train", "t.yaml"]) == 2
    assert not Path("runs").exists()


def test_what_an_option_breaks_stands_at_the_option(capsys: pytest.CaptureFixture[str]) -> None:
    _, lines = check(capsys, "d.yaml", "--set", "model.layers[2].d_output=9")
    assert lines == ["--set model.layers[2].d_output=9: model: gives logits of 9 classes, and the data has 10 at least"]


def test_a_model_that_looks_at_values_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    Path("own.py").write_text(
        "from burnlike.config import ModuleConfig\n"
        "class LooksConfig(ModuleConfig, tag='Looks'):\n"
        "    def init(self, device=None):\n"
        "        import torch\n"
        "        class Looks(torch.nn.Linear):\n"
        "            def forward(self, x):\n"
        "                return super().forward(x) * (2 if x.sum() > 0 else 1)\n"
        "        return Looks(64, 10, device=device)\n"
    )
    data, rest = DIGITS.split("model:", 1)
    Path("own.yaml").write_text(f"{data}model: {{type: Looks}}\ntask:{rest.split('task:', 1)[1]}")
    assert check(capsys, "own.yaml", "--import", "own")[0] == 0


def test_the_batch_changes_no_random_numbers() -> None:
    import torch

    torch.manual_seed(0)
    first = Job(TrainConfig.from_yaml(DIGITS)).model.state_dict()
    second: dict[str, Any] = Job(TrainConfig.from_yaml(DIGITS)).model.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_fast_takes_well_below_a_second() -> None:
    code = "import sys\nfrom burnlike.cli.main import main\nassert main(['check', '--fast', 'd.yaml']) == 0\n"
    code += "assert 'torch' not in sys.modules\n"
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    after = os.times()  # of the children, whatever else the machine does
    assert after.children_user + after.children_system - before.children_user - before.children_system < 2
