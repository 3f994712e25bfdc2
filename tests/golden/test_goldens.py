"""Everything that Burn wrote is read, computed with and written again; and the runner notices what is wrong."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.record import BurnpackRecorder, Precision, open_record

from .__main__ import check_folder, main
from .folder import SUFFIX, read_folder
from .outcomes import Outcomes

HERE = Path(__file__).parent


@pytest.mark.parametrize(("version", "least"), [pytest.param("v0.21", 2000, marks=pytest.mark.slow), ("v0.22", 700)])
def test_all_files_pass(version: str, least: int) -> None:
    outcomes = Outcomes()
    check_folder(read_folder(HERE / version), outcomes)
    assert outcomes.lines == []
    assert outcomes.counts["passed"] >= least


def copied(folder: Path, *names: str) -> Path:
    """A folder with a few of Burn's files: version/name each."""
    folder.mkdir()
    for text in names:
        version, name = text.split("/")
        shutil.copy(HERE / version / f"{name}{SUFFIX}", folder)
        for file in values_of(folder / f"{name}{SUFFIX}")["files"]:
            shutil.copy(HERE / version / file["file"], folder)
    return folder


def values_of(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())


def run(capsys: pytest.CaptureFixture[str], *folders: Path) -> tuple[int, str]:
    status = main([str(folder) for folder in folders])
    captured = capsys.readouterr()
    return status, captured.out + captured.err


def test_a_good_folder_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copied(tmp_path / "some", "v0.21/linear", "v0.21/transformer_decoder", "v0.21/lr_step")
    (folder / "README.md").write_text("what these are")
    status, text = run(capsys, folder)
    assert status == 0
    assert re.fullmatch(r"\d+ passed, 0 failed, 0 skipped\n", text)


def test_values_files_may_say_less(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copied(tmp_path / "less", "v0.21/linear", "v0.22/rms_norm", "v0.21/optim_adamw")
    for name in ("linear", "rms_norm", "optim_adamw"):
        file = folder / f"{name}{SUFFIX}"
        left_out = ("burn", "display", "num_params", "grads")
        file.write_text(json.dumps({key: value for key, value in values_of(file).items() if key not in left_out}))
    assert run(capsys, folder)[0] == 0


def test_models_of_narrow_types_are_computed_with_in_those(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = copied(tmp_path / "narrow", "v0.22/linear")
    file = folder / f"linear{SUFFIX}"
    values = values_of(file)
    record = open_record(folder / "linear.bpk")
    BurnpackRecorder(Precision(torch.float16)).save(record, folder / "linear.bpk")
    values["files"] = [it for it in values["files"] if it["file"] == "linear.bpk"]
    (folder / "linear.safetensors").unlink()
    for entry in (*values["params"], *values["inputs"].values(), *values["outputs"].values(), *values["grads"]):
        entry["dtype"] = "F16"
        entry["values"] = torch.tensor(entry["values"]).half().tolist()
    file.write_text(json.dumps(values))
    assert run(capsys, folder) == (0, "9 passed, 0 failed, 0 skipped\n")


def in_values(name: str, *path: Any, by: Any) -> Callable[[Path], None]:
    """Change one value of a values file: a number is made larger by `by`, anything else replaced."""

    def change(folder: Path) -> None:
        file = folder / f"{name}{SUFFIX}"
        values = values_of(file)
        place = values
        for key in path[:-1]:
            place = place[key]
        old = place.get(path[-1]) if isinstance(place, dict) else place[path[-1]]
        place[path[-1]] = old + by if isinstance(old, float) and isinstance(by, float) else by
        file.write_text(json.dumps(values))

    return change


def in_file(name: str, offset: int) -> Callable[[Path], None]:
    """Flip a bit of a file."""

    def change(folder: Path) -> None:
        data = bytearray((folder / name).read_bytes())
        data[offset] ^= 1
        (folder / name).write_bytes(data)

    return change


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "change", "line"),
    [
        (
            "v0.21/linear",
            in_values("linear", "params", 0, "values", 2, by=1e-6),
            "linear-full.mpk: read: weight: 1 of 6",
        ),
        (
            "v0.21/linear",
            in_values("linear", "params", 1, "shape", by=[1, 2]),
            "linear-half.bin: read: bias has the shape",
        ),
        (
            "v0.21/linear",
            in_values("linear", "params", 1, "id", by="0" * 13),
            "linear-full.json: read: 'bias' has the id",
        ),
        ("v0.21/linear", in_values("linear", "params", 1, "path", by="bios"), "linear-full.bin.gz: read: it holds"),
        ("v0.21/linear", in_values("linear", "files", 3, "precision", by="half"), "read: weight is torch.float32"),
        ("v0.21/linear", in_values("linear", "files", 3, "recorder", by="Other"), "read: no recorder for 'Other'"),
        (
            "v0.21/linear",
            in_values("linear", "outputs", "output", "values", 1, by=1e-4),
            "output differs by up to 0.0001",
        ),
        ("v0.21/linear", in_values("linear", "grads", 0, "values", 1, by=1e-4), "the gradient of weight differs by"),
        ("v0.21/linear", in_values("linear", "num_params", by=9), "number of parameters: 8, expected 9"),
        ("v0.22/linear", in_values("linear", "display", by="Linear"), "display: 'Linear {d_input"),
        ("v0.22/linear", in_values("linear", "config", "type", by="Lynear"), "the type 'Lynear' is unknown"),
        (
            "v0.22/linear_col",
            in_values("linear_col", "config", "layout", by="Row"),
            "read: weight has the shape [2, 3]",
        ),
        ("v0.21/linear", in_file("linear-full.bin", -8), "linear-full.bin: read: bias: 1 of 2 values differ"),
        ("v0.21/linear", in_file("linear-double.mpk.gz", 40), "linear-double.mpk.gz: read: "),
        ("v0.21/linear", in_file("linear-full.mpk", 70), "linear-full.mpk: written again: other bytes"),
        ("v0.22/linear", in_values("linear", "files", by=[]), "linear: its values file lists no file"),
        ("v0.22/linear", in_file("linear.bpk", -1), "linear.bpk: read: "),
        ("v0.22/linear", lambda folder: (folder / "more.bpk").write_bytes(b""), "more.bpk: no values file lists it"),
        ("v0.22/linear", lambda folder: (folder / "linear.bpk").unlink(), "linear.bpk: read: RecordIOError"),
        ("v0.21/lr_step", in_values("lr_step", "lr_before_save", 2, by=1e-9), "rates before saving: the rates are"),
        (
            "v0.21/lr_step",
            in_values("lr_step", "lr_after_load", 2, by=1e-9),
            "rates after loading lr_step-full.json.gz:",
        ),
        ("v0.21/lr_step", in_file("lr_step-full.bin", -1), "state of lr_step-full.bin: the state is {'/': 4}"),
        ("v0.21/lr_step", in_values("lr_step", "config", "type", by="Lr"), "the type 'Lr' is unknown"),
        (
            "v0.21/optim_adamw",
            in_values("optim_adamw", "step_after_load", "params_after", 0, "values", 3, by=1e-4),
            "step after loading optim_adamw-double.json: weight after the step differs by",
        ),
        (
            "v0.22/optim_adamw",
            in_values("optim_adamw", "steps_before_save", 1, "loss", "values", 0, by=1e-4),
            "steps before saving: the loss of step 1 differs by",
        ),
        (
            "v0.22/optim_adamw",
            in_values("optim_adamw", "params", 0, "id", by="0" * 13),
            "optim_adamw.bpk: read: it has the ids",
        ),
        (
            "v0.21/optim_adamw",
            in_file("optim_adamw-full.mpkbytes", -30),
            "optim_adamw-full.mpkbytes: as in optim_adamw-full.mpk",
        ),
        (
            "v0.21/optim_sgd",
            in_values("optim_sgd", "config", "type", by="Sgdd"),
            "the type 'Sgdd' is unknown",
        ),
        ("v0.22/optim_lion", in_values("optim_lion", "config", "betas", by=[0.9, 0.99]), "Lion has no field 'betas'"),
        (
            "v0.22/optim_adamw_clip",
            in_values("optim_adamw_clip", "config", "grad_clipping", by={"Norm": 0.11}),
            "step after loading optim_adamw_clip.bpk: weight after the step differs by",
        ),
        (
            "v0.22/optim_groups",
            in_values("optim_groups", "config", "groups", 0, "path", by="weight"),
            "step after loading optim_groups.bpk: RecordMismatchError",
        ),
        *(
            (
                f"v0.22/optim_{name}",
                in_values(f"optim_{name}", "step_after_load", "params_after", 1, "values", 0, by=4e-6),
                f"step after loading optim_{name}.bpk: bias after the step differs by",
            )
            for name in ("adafactor", "adagrad", "adam", "adan", "groups", "lamb", "lion", "rmsprop", "sgd")
        ),
        (
            "v0.22/train_run",
            in_values("train_run", "model", by="SwiGlu(2, 2)"),
            "training run from train_run-start.bpk: the model 'SwiGlu(2, 2)' is unknown",
        ),
        (
            "v0.22/train_run",
            in_values("train_run", "optimizer", by="AdamW(weight decay of 0.05), gradient clipping Norm(1.0)"),
            "optimizer resumed from train_run-optim.bpk: UnknownConfigError: AdamW has no field 'weight decay of'",
        ),
        (
            "v0.22/train_run",
            in_values("train_run", "scheduler", by="Noam(factor 0.3, warmup 11, model_size 8)"),
            "the rate of step 0 is",
        ),
        (
            "v0.22/train_run",
            in_values("train_run", "steps", 19, "loss", by=2e-4),
            "training run from train_run-start.safetensors: the loss of step 19 differs by",
        ),
        (
            "v0.22/train_run",
            in_values("train_run", "params_after", 3, "values", 0, by=0.005),
            "training run from train_run-start.bpk: encoder.layers.0.mha.key.weight at the end differs by",
        ),
        (
            "v0.22/train_run",
            in_values("train_run", "params_after", 0, "values", 0, by=1.0),
            "train_run-end.bpk: read: ",
        ),
    ],
)
def test_what_is_wrong_fails(
    source: str, change: Callable[[Path], object], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copied(tmp_path / "broken", source)
    change(folder)
    status, text = run(capsys, folder)
    assert status == 1
    failures = [it for it in text.splitlines() if it.startswith("FAILED broken/")]
    assert any(line in it for it in failures), text[:2000]


def test_folders_that_can_not_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = copied(tmp_path / "good", "v0.21/lr_step")
    assert run(capsys, good, tmp_path / "none")[0] == 2
    assert run(capsys, good, good / f"lr_step{SUFFIX}")[0] == 2
    (tmp_path / "empty").mkdir()
    assert "no file NAME.values.json" in run(capsys, tmp_path / "empty")[1]
    for text in (
        "{",
        "[]",
        '{"files": [{"file": "a"}]}',
        '{"files": [{"file": "a", "recorder": 1, "precision": "full"}]}',
    ):
        (good / f"lr_step{SUFFIX}").write_text(text)
        assert run(capsys, good)[0] == 2, text
