"""Groups of an optimizer and of a schedule in a training's YAML: checked, trained, resumed."""

from contextlib import closing
from pathlib import Path

import pytest

from burnlike.cli.main import main
from burnlike.errors import ConfigError
from burnlike.module import params
from burnlike.train import Job, RunDir, TrainConfig

from .samples import metrics_of

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
