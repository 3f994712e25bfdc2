"""Runs after their training: found by name, measured on other files, with the user's own classes, and exported."""

import json
import re
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from burnlike.cli.main import main
from burnlike.train import load_run

from .commands import said

TRAINING = """
data: {type: Csv, path: points.csv, target: side, validation_fraction: 0.25}
model: MODEL
task: {type: Classification}
metrics: [{type: Accuracy}]
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, batch_size: 8}
"""
MINE = """
from torch import nn
from burnlike.config import ModuleConfig

class Halves(nn.Module):
    def __init__(self, config, device=None):
        super().__init__()
        self.linear = nn.Linear(2, 2, device=device)

    def forward(self, x):
        return self.linear(x / 2)

class HalvesConfig(ModuleConfig[Halves], tag="HalvesOfATest", builds=Halves):
    pass
"""


def points(count: int) -> str:
    rows = (f"{number},{-number},{'ab'[number % 2]}\n" for number in range(count))
    return "".join(["x,y,side\n", *rows])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run `points`, and a folder of data of the same name."""
    place = tmp_path_factory.mktemp("work")
    (place / "points.csv").write_text(points(40))
    (place / "other.csv").write_text(points(7))
    (place / "points.yaml").write_text(TRAINING.replace("MODEL", "{type: Mlp, sizes: [2, 4, 2]}"))
    (place / "own.yaml").write_text(TRAINING.replace("MODEL", "{type: HalvesOfATest}"))
    (place / "own_classes_of_a_test.py").write_text(MINE)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        assert main(["train", "points.yaml"]) == 0
    (place / "points").mkdir()
    return place


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def test_a_run_is_found_by_its_name_where_data_has_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert "runs/points: " in said(capsys, "evaluate", "points")
    assert main(["evaluate", "./points"]) == 2
    assert "there is no run at points" in capsys.readouterr().err


def test_another_file_is_measured_whole_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert "7 items of all of other.csv" in said(capsys, "evaluate", "points", "--data", "other.csv")
    kept = json.loads((Path("runs/points/evaluations") / "all-step-00000004.json").read_text())
    assert (kept["data_name"], kept["items"], kept["data"]["path"]) == ("other.csv", 7, "other.csv")
    # The mean loss of these rows, by the model as it is.
    run = load_run("runs/points")
    x, y = torch.tensor([[number, -number] for number in range(7)]).float(), torch.tensor([0, 1] * 3 + [0])
    assert kept["values"]["loss"] == pytest.approx(
        float(torch.nn.functional.cross_entropy(run.model(x).detach(), y)), rel=1e-5
    )
    assert "(step 4, other.csv)" in said(capsys, "runs")
    said(capsys, "report", "points", "--out", "report.html", "--force")
    assert "<td>other.csv</td>" in Path("report.html").read_text()
    assert main(["evaluate", "points", "--data", "nowhere.csv"]) == 2
    assert "--data: there is no file or directory nowhere.csv" in capsys.readouterr().err


def test_what_was_measured_of_a_run_that_is_only_readable_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree("runs/points", "runs/fixed", ignore=shutil.ignore_patterns("evaluations"))
    monkeypatch.setattr("burnlike.train.runs.logs.replace_file", Mock(side_effect=OSError(30, "Read-only file system")))
    assert main(["evaluate", "fixed"]) == 0
    captured = capsys.readouterr()
    assert re.search(r"^loss +\d", captured.out, re.MULTILINE)
    assert "kept" not in captured.out
    assert re.fullmatch(r"burnlike: the values are not kept: \S+json can't be written: Read-only .*\n", captured.err)
    assert main(["evaluate", "fixed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] is None
    monkeypatch.setattr("os.access", lambda *_: False)
    assert main(["export", "fixed", "--to", "pt2"]) == 2
    assert "by --out PATH" in capsys.readouterr().err


def test_an_empty_folder_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["runs"]) == 2
    assert "there are no runs in runs/ yet; `burnlike train CONFIG` writes one" in capsys.readouterr().err


def test_a_run_remembers_the_modules_of_own_classes(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "own_classes_of_a_test"
    said(capsys, "train", "own.yaml", "--import", name)
    assert Path("runs/own/config.yaml").read_text().startswith(f'x-modules: {{"{name}": "')
    monkeypatch.delitem(sys.modules, name)  # as in another process: importing it again would be seen
    assert "items of valid" in said(capsys, "evaluate", "own")
    assert name in sys.modules
    monkeypatch.delitem(sys.modules, name)
    source = Path(f"{name}.py")
    source.write_text(source.read_text() + "\n# changed\n")  # another file: a stranger's run could name it as well
    assert main(["evaluate", "own"]) == 2
    assert f"if it is yours, repeat --import {name}, which runs its code" in capsys.readouterr().err
    assert name not in sys.modules
    assert "items of valid" in said(capsys, "evaluate", "own", "--import", name)
    monkeypatch.delitem(sys.modules, name)
    monkeypatch.chdir(folder / "runs" / "own")  # no module of a stranger's run is imported
    main(["evaluate", "."])
    assert name not in sys.modules


def test_a_program_gives_the_tensor_that_the_model_gives(capsys: pytest.CaptureFixture[str]) -> None:
    said(capsys, "export", "points", "--to", "pt2", "--out", "model.pt2")
    x = torch.randn(3, 2)
    output = torch.export.load("model.pt2").module()(x)
    assert isinstance(output, torch.Tensor)
    torch.testing.assert_close(output, load_run("runs/points").model(x).detach())
