"""The weights that a run leaves, and the model of a run as programs and commands use it."""

import csv
import io
import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike._outputs import Output
from burnlike.cli.commands.predict import write_predictions
from burnlike.cli.main import main
from burnlike.errors import CheckpointError, ConfigError, DataError, RunDirError
from burnlike.record import open_record
from burnlike.train import Job, LoadedRun, PlainRenderer, RunDir, TrainConfig, load_run, read_run
from burnlike.train.job.loaded_run import evaluate_run, predictions

YAML = """
data: {type: Csv, path: rows.csv, target: kind, validation_fraction: 0.3}
model:
  type: Sequential
  layers: [{type: Linear, d_input: 2, d_output: 8}, {type: Relu}, {type: Linear, d_input: 8, d_output: 3}]
task: {type: Classification}
metrics: [{type: Accuracy}]
optimizer: {type: Sgd, momentum: {momentum: 0.9}}
lr_scheduler: {type: ConstantLr, lr: 0.9}
training: {epochs: 6, batch_size: 20, keep_checkpoints: 6, keep_best: {metric: loss}}
output: {precision: float32}
device: cpu
threads: 1
"""
KINDS = ("fish", "bird", "frog")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of rows, and a run whose best validation is not its last."""
    place = tmp_path_factory.mktemp("runs")
    generator = torch.Generator().manual_seed(0)
    points = torch.randn(120, 2, generator=generator)
    classes = (points.sum(1) > 0).int() + (points[:, 0] > 1).int()
    rows = [f"{x:.4f},{y:.4f},{KINDS[kind]}" for (x, y), kind in zip(points.tolist(), classes.tolist(), strict=True)]
    (place / "rows.csv").write_text("\n".join(["x,y,kind", *rows, ""]))
    train(place, "run")
    return place


def train(place: Path, name: str, *overrides: str) -> Any:
    config = TrainConfig.from_yaml(YAML, "f.yaml", [f"data.path={place / 'rows.csv'}", *overrides])
    with closing(RunDir.create(place / name)) as run:
        return Job(config).run(run, PlainRenderer(io.StringIO()))


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


def validations(run: Path) -> dict[int, float]:
    return {line["step"]: line["loss"] for line in read_run(run).lines if line["split"] == "valid"}


def result(run: Path) -> dict[str, Any]:
    return json.loads((run / "results.json").read_text())


def test_the_result_of_a_run_with_keep_best_is_its_best_validation(folder: Path) -> None:
    run = folder / "run"
    losses = validations(run)
    best = min(losses, key=losses.__getitem__)
    assert best != max(losses)
    found = result(run)
    assert (found["step"], found["weights"]) == (best, "best")
    assert found["values"]["valid"]["loss"] == losses[best]
    written = open_record(run / "model.safetensors").tensors
    kept = open_record(run / f"checkpoints/step-{best:08d}/model.safetensors").tensors
    assert all(torch.equal(written[name][...], kept[name][...]) for name in written)


def test_load_run_gives_the_weights_that_were_asked_for(folder: Path) -> None:
    losses = validations(folder / "run")
    last, best = max(losses), min(losses, key=losses.__getitem__)
    cases: list[tuple[dict[str, Any], int, str]] = [
        ({}, best, "best"), ({"best": True}, best, "best"), ({"best": False}, last, "last"),
        ({"step": last}, last, "checkpoint"),
    ]  # fmt: skip
    for asked, step, weights in cases:
        run = load_run(folder / "run", **asked)
        assert (run.step, run.weights) == (step, weights)
        assert not run.model.training
        assert run.classes == sorted(KINDS)
        assert evaluate_run(run, "valid", notes={}).values["loss"] == losses[step]
    with pytest.raises(CheckpointError, match=r"no checkpoint of step 7, but of .*30"):
        load_run(folder / "run", step=7)
    with pytest.raises(CheckpointError, match="there is no run at nowhere"):
        load_run("nowhere")


def test_without_checkpoints_the_written_weights_are_loaded(folder: Path) -> None:
    shutil.copytree(folder / "run", folder / "bare")
    shutil.rmtree(folder / "bare" / "checkpoints")
    run = load_run(folder / "bare")
    assert run.step == result(folder / "run")["step"]
    assert evaluate_run(run, "valid", notes={}).values == result(folder / "run")["values"]["valid"]
    (folder / "bare" / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match="no checkpoint and no model"):
        load_run(folder / "bare")


def test_output_weights_says_which_are_written(folder: Path) -> None:
    ema = "training.ema={decay: 0.9, warmup: false}"
    for name, options, weights in (
        ("last", ["output.weights=last", ema], "last"),
        ("average", [ema, "~training.keep_best"], "ema"),
        ("best-average", [ema], "best"),
    ):
        train(folder, name, *options)
        found = result(folder / name)
        run = load_run(folder / name)
        assert (found["weights"], found["step"]) == (weights, run.step) == (run.weights, run.step)
        measured = evaluate_run(run, "valid", notes={}).values
        assert measured == found["values"]["valid"]
        is_validated = measured["loss"] == validations(folder / name)[run.step]
        assert is_validated == (weights != "last")  # validations are with the average
    raw = open_record(folder / "last/checkpoints/step-00000030/model.safetensors").tensors
    assert all(
        torch.equal(it[...], raw[name][...])
        for name, it in open_record(folder / "last/model.safetensors").tensors.items()
    )


def test_output_weights_need_what_they_name() -> None:
    for option, what in (("best", "training.keep_best"), ("ema", "training.ema")):
        with pytest.raises(ConfigError, match=f"output.weights: expected {what}"):
            TrainConfig.from_yaml(YAML, "f.yaml", ["~training.keep_best", f"output.weights={option}"])


def test_evaluate_measures_a_part_and_keeps_what_came_of_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "run", "--split", "train", "--json", "--set", "training.batch_size=7"]) == 0
    said = json.loads(capsys.readouterr().out)
    kept = json.loads(Path(said["file"]).read_text())
    assert said["items"] == kept["items"] == 84
    assert kept["set"] == ["training.batch_size=7"]
    run: LoadedRun = load_run("run")
    rows = [line.split(",") for line in (folder / "rows.csv").read_text().splitlines()[1:]]
    logits = run.model(torch.tensor([[float(x), float(y)] for x, y, _ in rows])).detach().double()
    targets = torch.tensor([sorted(KINDS).index(kind) for *_, kind in rows])
    assert main(["evaluate", "run", "--split", "all", "--json"]) == 0
    values = json.loads(capsys.readouterr().out)["values"]
    assert values["loss"] == pytest.approx(torch.nn.functional.cross_entropy(logits, targets).item(), rel=1e-6)
    assert values["accuracy"] == pytest.approx(100 * (logits.argmax(1) == targets).double().mean().item())
    assert [it["split"] for it in read_run(Path("run")).evaluations[-2:]] == ["train", "all"]


def test_evaluate_of_a_balanced_training_takes_data_without_some_classes(folder: Path, tmp_path: Path) -> None:
    train(folder, "balanced", "task={type: Classification, class_weights: balanced}", "training.epochs=1")
    loaded = load_run("balanced")
    lines = (folder / "rows.csv").read_text().splitlines()
    of_fish = [line for line in lines[1:] if line.endswith("fish")]
    (tmp_path / "fish.csv").write_text("\n".join([lines[0], *of_fish, ""]))
    measured = evaluate_run(loaded, "all", loaded.config.data.replace(path=str(tmp_path / "fish.csv")), notes={})
    points = torch.tensor([[float(it) for it in line.split(",")[:2]] for line in of_fish])
    with torch.no_grad():
        losses = torch.nn.functional.cross_entropy(
            loaded.model(points).double(), torch.full((len(points),), sorted(KINDS).index("fish"))
        )
    assert (measured.items, measured.values["loss"]) == (len(of_fish), pytest.approx(losses.item(), rel=1e-6))


@pytest.mark.parametrize("split", ["split: {time: x}, folds: 3", "split: stratified", "validation_path: rows.csv"])
def test_evaluate_measures_each_row_of_a_file_of_any_kind_once(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], split: str
) -> None:
    train(tmp_path, "divided", f"data.path={folder / 'rows.csv'}", f"data={{{split}}}", "training.epochs=1")
    run = tmp_path / "divided"
    rows = [line.split(",") for line in (folder / "rows.csv").read_text().splitlines()[1:]]
    for count in (1, 50):
        lines = [json.dumps({"x": float(x), "y": float(y), "kind": kind}) for x, y, kind in rows[:count]]
        (folder / "new.jsonl").write_text("\n".join(lines))
        assert main(["evaluate", str(run), "--data", "new.jsonl", "--json"]) == 0
        measured = json.loads(capsys.readouterr().out)
        probabilities = [
            row[f"probabilities.{kind}"]
            for row, (*_, kind) in zip(predictions(load_run(run), [folder / "new.jsonl"]), rows, strict=False)
        ]
        assert measured["items"] == len(probabilities) == count
        assert measured["values"]["loss"] == pytest.approx(-torch.tensor(probabilities).log().mean().item(), rel=1e-5)


def test_evaluate_on_other_data(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = (folder / "rows.csv").read_text().splitlines()
    (folder / "new.csv").write_text("\n".join(lines[:50]) + "\n")
    (folder / "new.yaml").write_text("data: {type: Csv, path: new.csv, target: kind}")
    assert main(["evaluate", "run", "--data", "new.yaml", "--split", "all"]) == 0
    assert "49 items of all" in capsys.readouterr().out
    (folder / "new.csv").write_text("x,y,kind\n0,0,fish\n1,1,bird\n1,2,cow\n")
    assert main(["evaluate", "run", "--data", "new.yaml"]) == 2
    assert "cow" in capsys.readouterr().err
    (folder / "new.yaml").write_text("optimizer: {type: AdamW}")
    assert main(["evaluate", "run", "--data", "new.yaml"]) == 2
    assert main(["evaluate", "run", "--split", "tests"]) == 2
    assert "--split tests: expected one of train, valid, all" in capsys.readouterr().err


def test_a_run_whose_facts_are_damaged_says_so(folder: Path) -> None:
    shutil.copytree(folder / "run", folder / "damaged")
    (folder / "damaged" / "data.json").write_text("{")
    with pytest.raises(RunDirError, match="can't be read"):
        load_run("damaged")
    kept = json.loads((folder / "run" / "data.json").read_text())
    (folder / "damaged" / "data.json").write_text(json.dumps({**kept, "facts": {"features": []}}))
    with pytest.raises(RunDirError, match=r"data.json lacks 'columns'"):
        evaluate_run(load_run("damaged"), notes={})
    with pytest.raises(RunDirError, match=r"data.json lacks 'columns'"):
        [*predictions(load_run("damaged"), [folder / "rows.csv"])]


def test_a_run_of_an_older_release_is_measured_on_its_own_data(folder: Path) -> None:
    shutil.copytree(folder / "run", folder / "older")
    (folder / "older" / "data.json").unlink()
    found = evaluate_run(load_run("older"), "valid", notes={})
    assert found.values == result(folder / "run")["values"]["valid"]
    (folder / "older" / "data.json").write_text(json.dumps({"classes": ["a", "b", "c"], "facts": {}}))
    with pytest.raises(DataError, match="expected the classes of the run older, a, b, c"):
        evaluate_run(load_run("older"), notes={})


def test_runs_are_compared_and_removed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(folder, "runs/second", "output.weights=last")
    shutil.copytree(folder / "run", folder / "runs" / "copy")
    assert main(["runs", "--compare", "copy", "second"]) == 0
    out = capsys.readouterr().out
    assert "output.weights" in out
    assert "best valid loss (epoch)" in out
    assert main(["runs", "--remove", "copy"]) == 2  # nobody can be asked
    lock = RunDir.open(folder / "runs" / "copy")
    assert main(["runs", "--remove", "copy", "--yes"]) == 2
    assert "is working on" in capsys.readouterr().err
    lock.close()
    assert main(["runs", "--remove", "copy", "--yes"]) == 0
    assert not (folder / "runs" / "copy").exists()
    (folder / "runs" / "other").mkdir()
    (folder / "runs" / "other" / "mine.txt").touch()
    assert main(["runs", "--remove", "other", "--yes"]) == 2
    assert (folder / "runs" / "other" / "mine.txt").exists()


def test_files_without_rows_have_no_predictions(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "head.csv").write_text("x,y\n")
    assert main(["predict", "run", "head.csv", "--out", "none.jsonl"]) == 0
    assert "0 predictions are in none.jsonl" in capsys.readouterr().out
    assert (folder / "none.jsonl").read_text() == ""
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["predict", "run", "-"]) == 0
    assert capsys.readouterr().out == ""
    monkeypatch.setattr("sys.stdin", io.StringIO("1,2\n"))
    assert main(["predict", "run", "-"]) == 2
    expected = "standard input:1:1: expected rows below a first line with the names of the columns, such as x, "
    assert expected in capsys.readouterr().err
    assert len([*predictions(load_run("run"), [folder / "head.csv", folder / "rows.csv"])]) == 120
    (folder / "bare-folder").mkdir()
    assert main(["predict", "run", "bare-folder"]) == 2
    assert "expected at least one input in bare-folder, got none" in capsys.readouterr().err


def test_texts_that_a_spreadsheet_would_compute_stand_behind_an_apostrophe(folder: Path) -> None:
    values = ["=1+1", "+a", "-x", "@a", "\tb", "\rb", "-1.5", "+2", "-inf", "a=1", "", None, -3.5, ["=1"]]
    write_predictions(Output("formulas.csv", "predict"), [{"name": it, "=x": it} for it in values])
    with (folder / "formulas.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    expected = ["'=1+1", "'+a", "'-x", "'@a", "'\tb", "'\rb", "-1.5", "+2", "-inf", "a=1", "", "", "-3.5", '["=1"]']
    assert head == ["name", "'=x"]
    assert rows == [[it, it] for it in expected]
    write_predictions(Output("formulas.jsonl", "predict"), [{"name": it} for it in values])
    assert [json.loads(line)["name"] for line in (folder / "formulas.jsonl").read_text().split("\n")[:-1]] == values
