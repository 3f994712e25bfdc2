"""A run that was started with relative paths is used from other folders, and where it has moved with its data."""

import io
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.cli.main import main
from burnlike.errors import ConfigIOError
from burnlike.models import DecoderLmConfig, save_pretrained
from burnlike.train import Job, PlainRenderer, RunDir, TrainConfig, load_run

YAML = """
data: {type: Tokens, path: data/tokens.bin, context_length: 8}
model: {type: LoRA, of: {type: Pretrained, path: base, library: burnlike}, rank: 2, targets: [query]}
task: {type: LanguageModel, sample_length: 0}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 0.03}
training: {epochs: 1, steps_per_epoch: 2, batch_size: 4, validation_steps: 1, checkpoint_every_steps: 1}
device: cpu
threads: 1
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a model, data and a run."""
    folder = tmp_path / "project"
    torch.manual_seed(0)
    base = DecoderLmConfig(vocab_size=32, max_sequence_length=16, d_model=16, n_layers=1, n_heads=2, d_ff=32)
    save_pretrained(base.init("cpu"), folder / "base", config=base)
    (folder / "data").mkdir()
    torch.randint(0, 32, (900,), dtype=torch.int32).to(torch.uint16).numpy().tofile(folder / "data/tokens.bin")
    monkeypatch.chdir(folder)
    with closing(RunDir.create("runs/a")) as run:
        Job(TrainConfig.from_yaml(YAML, "f.yaml")).run(run, PlainRenderer(io.StringIO()))
    return folder


def logits(run: Path, **options: Any) -> torch.Tensor:
    with torch.no_grad():
        return load_run(run, **options).model(torch.arange(8)[None])


def test_a_run_is_used_from_another_folder(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = logits(Path("runs/a"))
    assert load_run("runs/a").config.data.path == "data/tokens.bin"  # pyright: ignore[reportAttributeAccessIssue]
    named = json.loads(Path("runs/a/adapter/adapter_config.json").read_text())["base_model_name_or_path"]
    assert named == str(project / "base")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert torch.equal(logits(project / "runs/a"), expected)
    assert torch.equal(logits(Path("../project/runs/a"), step=2), expected)
    for command in ("evaluate", "merge"):
        out = ["--out", "merged"] if command == "merge" else []
        assert main([command, str(project / "runs/a"), *out]) == 0, capsys.readouterr()
    Path("mine.bin").write_bytes((project / "data/tokens.bin").read_bytes())
    assert main(["evaluate", str(project / "runs/a"), "--set", "data.path=mine.bin"]) == 0
    assert main(["evaluate", str(project / "runs/a"), "--set", "data.path=gone.bin"]) == 2
    assert "gone.bin" in capsys.readouterr().err


def test_a_run_that_moved_with_its_data_finds_them(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = logits(Path("runs/a"))
    monkeypatch.chdir(tmp_path)
    project.rename(tmp_path / "moved")
    assert torch.equal(logits(tmp_path / "moved/runs/a"), expected)
    assert main(["merge", str(tmp_path / "moved/runs/a/adapter"), "--out", "merged"]) == 2  # of a model of burnlike
    assert str(tmp_path / "moved/base") in capsys.readouterr().err
    (tmp_path / "moved/runs/a").rename(tmp_path / "alone")
    with pytest.raises(ConfigIOError, match="/project/base: expected a directory") as error:
        load_run(tmp_path / "alone")
    assert "huggingface" not in str(error.value)
    shutil.copytree(tmp_path / "moved/base", "base")  # in the folder that the program runs in
    assert torch.equal(logits(tmp_path / "alone"), expected)


def test_a_run_is_resumed_from_another_folder(project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = project / "runs/a"
    assert main(["train", "--resume", str(run), "--set", "training.epochs=2"]) == 0
    assert load_run(run).step == 4
    monkeypatch.chdir(project)
    assert load_run(run).step == 4
    assert main(["train", "--resume", "runs/a", "--set", "training.epochs=3"]) == 0
    assert load_run("runs/a").step == 6
