"""Outputs of all commands: none replaces an input, a file of a run, or something that its command has not written."""

import os
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
import safetensors.torch
import torch

from burnlike import _outputs
from burnlike.cli.commands.predict import output_of, write_predictions
from burnlike.cli.main import COMMANDS, main, parsers
from burnlike.config import ModuleConfig
from burnlike.record import save

from ..train.samples import write_config

JOB = """
data: {type: Csv, path: rows.csv, target: y}
model:
  type: LoRA
  of: {type: Sequential, layers: [{type: Linear, d_input: 2, d_output: 2}]}
  rank: 1
task: {type: Classification}
optimizer: {type: AdamW}
lr_scheduler: {type: ConstantLr, lr: 1e-2}
training: {epochs: 1, steps_per_epoch: 2, validation_steps: 1, batch_size: 4}
device: cpu
threads: 1
"""
LM = "{type: DecoderLm, vocab_size: 8, max_sequence_length: 8, d_model: 8, n_layers: 1, n_heads: 2, d_ff: 8}"
SLOW, WEEKLY = [pytest.mark.slow], [pytest.mark.weekly]


class Row(NamedTuple):
    """A call of a command, in which OUT stands for the output.

    Attributes:
        inputs: what the command reads, to be tried as its output.
        extension: of the output; empty for a directory.
        again: the status of a second call with the same output: 0 if it replaces the first, 2 if it is refused.
        force: whether the command has `--force`.
        marks: where a call that succeeds takes seconds.
    """

    command: str
    inputs: str
    extension: str = ""
    again: int = 2
    force: bool = False
    marks: Sequence[pytest.MarkDecorator] = ()


ROWS = {
    "export a run": Row("export run --to burn --out OUT", "run", again=0, force=True),
    "export a record": Row(
        "export net.yaml --record net.safetensors --to burn --out OUT", "net.safetensors", again=0, force=True
    ),
    "export hf": Row(
        "export lm.yaml --record lm.safetensors --to hf --out OUT",
        "lm.yaml",
        again=0,
        force=True,
        marks=SLOW,
    ),
    "export gguf": Row(
        "export lm.yaml --record lm.safetensors --to gguf --out OUT", "lm.yaml", ".gguf", again=0, force=True
    ),
    "export onnx": Row(
        "export run --to onnx --out OUT",
        "rows.csv run/config.yaml",
        ".onnx",
        again=0,
        force=True,
        marks=WEEKLY,
    ),
    "export pt2": Row("export run --to pt2 --out OUT", "rows.csv run/config.yaml", ".pt2", again=0, force=True),
    "merge": Row("merge run --out OUT", "run rows.csv", again=0),
    "tokenizer": Row("tokenizer rows.csv --vocab-size 261 --out OUT", "rows.csv", ".json", force=True),
    "tokenizer of a folder": Row("tokenizer texts --vocab-size 261 --out OUT", "texts/a.json", ".json", force=True),
    "report": Row("report run --out OUT", "run run/metrics.jsonl", ".html", again=0, force=True),
    "predict": Row("predict run rows.csv --out OUT", "rows.csv", ".csv", force=True),
    "generate": Row(
        "generate writer --prompts begin.txt --max-tokens 2 --out OUT", "begin.txt writer", ".jsonl", force=True
    ),
    "convert": Row("convert net.safetensors OUT", "net.safetensors", ".safetensors", force=True),
    "convert a set": Row(
        "convert set OUT",
        "set set/model.safetensors set/model.safetensors.index.json set/model-00001-of-00002.safetensors",
        ".safetensors",
        force=True,
    ),
    "convert to a set": Row("convert set OUT --shard-size 16", "set set/model.safetensors", force=True),
    "convert to a named set": Row(
        "convert net.safetensors OUT --shard-size 16", "net.safetensors", ".safetensors", force=True
    ),
    "convert to dcp": Row("convert net.safetensors OUT --format dcp", "net.safetensors", force=True),
    "train": Row("train job.yaml --run-dir OUT", "job.yaml"),
    "train --find": Row("train job.yaml --find batch-size --out OUT", "job.yaml rows.csv", ".json", force=True),
    "launch": Row("launch job.yaml --nproc 1 --slurm --out OUT", "job.yaml", ".sh", force=True),
    "profile": Row("profile job.yaml --steps 1 --out OUT", "job.yaml rows.csv", force=True),
    "verify-resume": Row("verify-resume job.yaml --steps 4 --keep OUT", "job.yaml", marks=WEEKLY),
    "init": Row("init OUT", "job.yaml"),
    "init --from": Row("init --from rows.csv --target y --out OUT", "rows.csv", ".yaml", force=True),
    "show": Row("show net.yaml --svg OUT --input 1,2", "net.yaml", ".svg", again=0, force=True),
}
OUTPUTS = {
    *(
        (name, "--out")
        for name in (
            "export",
            "generate",
            "init",
            "launch",
            "merge",
            "predict",
            "profile",
            "report",
            "tokenizer",
            "train",
        )
    ),
    *(("convert", "output"), ("init", "directory"), ("show", "--svg"), ("train", "--run-dir")),
    ("verify-resume", "--keep"),
}
"""Options that say where a command of the table writes."""
OTHERS = {
    ("launch", "--run-dir"): "the same as that of train",
    ("runs", "directory"): "where runs are looked for; where --fetch puts one beside them",
    ("runs", "--fetch"): "the address that is read; tests/train/checkpoint has what a fetch replaces",
    **{("export", name): "read" for name in ("place", "--record")},
    **{(name, "--layout"): "read" for name in ("convert", "diff", "forecast", "inspect")},
    **{(name, "--resume"): "goes on with a run" for name in ("train", "launch")},
    **{(name, "place"): "read" for name in ("evaluate", "generate", "merge", "predict")},
    **{(name, "file"): "read" for name in ("data", "forecast", "inspect", "launch", "profile", "train")},
    ("verify-resume", "file"): "read",
    ("check", "files"): "read",
    ("tokenizer", "path"): "read",
    ("merge", "--base"): "read",
    ("predict", "sources"): "read",
    ("generate", "--prompts"): "read",
    ("evaluate", "--data"): "read",
    ("convert", "--layout"): "read",
}
"""Other options about files and directories, and what is done with these."""
FORMS = ("DIR", "FILE", "OUT", "PATH", "PLACE", "SAVE", "URL")
"""Parts of names of options, and of what help calls their values, where these are files or directories."""


def test_each_option_that_names_a_file_or_a_directory_is_in_a_table() -> None:
    options = {
        (name, (action.option_strings or [action.dest])[0])
        for name, parser in parsers([it.name for it in COMMANDS])[1].items()
        for action in parser._actions
        if action.nargs != 0 and any(form in f"{action.metavar} {action.dest}".upper() for form in FORMS)
    }
    assert options == OUTPUTS | {*OTHERS}
    assert {name for name, _ in OUTPUTS} == {row.command.split()[0] for row in ROWS.values()}
    parts = [row.command.split() for row in ROWS.values()]
    for name, option in OUTPUTS:
        assert any(it[0] == name and (not option.startswith("-") or option in it) for it in parts), (name, option)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with its data, records, and things of others under the names that outputs have."""
    place = tmp_path_factory.mktemp("outputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        Path("job.yaml").write_text(JOB)
        Path("rows.csv").write_text("a,b,y\n" + "".join(f"{it / 7},{it % 3},{'ny'[it % 2]}\n" for it in range(40)))
        assert main(["train", "job.yaml", "--run-dir", "run"]) == 0
        Path("net.yaml").write_text("{type: Linear, d_input: 2, d_output: 2}")
        safetensors.torch.save_file({"weight": torch.ones(2, 2), "bias": torch.ones(2)}, "net.safetensors")
        Path("lm.yaml").write_text(LM)
        steps = ("--set", "training.epochs=1", "--set", "training.steps_per_epoch=6")
        assert main(["train", write_config(place).name, *steps, "--run-dir", "writer"]) == 0
        Path("begin.txt").write_text("def \n")
        save(ModuleConfig.load("lm.yaml").init(), "lm.safetensors")
        assert main(["convert", "net.safetensors", "set", "--shard-size", "16"]) == 0
        for folder in ("texts", "thesis", "outside"):
            Path(folder).mkdir()
        Path("texts/a.json").write_text('{"a": 1}')
        for name in ("thesis.txt", "trace.json", "char_gpt.yaml", "model.safetensors", "notes"):
            Path("thesis", name).write_text("years of work")
        for name in ("trace.json", "char_gpt.yaml"):
            Path("run", name).write_text("of the user")
    return place


@pytest.fixture
def here(prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "work"
    shutil.copytree(prepared, place, symlinks=True)
    monkeypatch.chdir(place)


def content() -> dict[str, bytes | str]:
    """Everything in the working directory by its path: the content of files, the target of links."""
    paths: dict[str, bytes | str] = {}
    for folder, folders, names in os.walk("."):
        for path in (Path(folder, name) for name in (*folders, *names)):
            if path.is_symlink():
                paths[str(path)] = f"-> {path.readlink()}"
            elif path.is_file():
                paths[str(path)] = path.read_bytes()
    return paths


def called(row: Row, out: str, *more: str) -> int:
    return main([out if word == "OUT" else word for word in shlex.split(row.command)] + [*more])


def taken(row: Row) -> Iterator[str]:
    """Places that the command may not write to; of those that it could make, something of another is made there."""
    yield from row.inputs.split()
    yield from ("run", "run/config.yaml", "run/checkpoints", "run/checkpoints/step-00000002", "thesis")
    yield f"run/checkpoints/new{row.extension}"
    Path("run/elsewhere").symlink_to("../outside", target_is_directory=True)
    yield f"run/elsewhere/new{row.extension}"  # which is a link out of the run
    Path("run/elsewhere").unlink()
    Path(f"notes{row.extension or '.d'}").write_text("years of work")
    yield f"notes{row.extension or '.d'}"
    Path(f"link{row.extension}").symlink_to(f"notes{row.extension}" if row.extension else "thesis")
    yield f"link{row.extension}"
    Path(f"dangling{row.extension}").symlink_to("gone")
    yield f"dangling{row.extension}"


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.usefixtures("here")
def test_what_is_there_stays_and_is_one_error(name: str, capfd: pytest.CaptureFixture[str]) -> None:
    row = ROWS[name]
    for out in taken(row):
        before = content()
        capfd.readouterr()
        assert called(row, out) == 2, out
        error = capfd.readouterr().err
        assert error.startswith("burnlike: error: "), (out, error)
        assert error.count("\n") == 1, (out, error)
        assert content() == before, out


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.force])
@pytest.mark.usefixtures("here")
def test_force_replaces_no_input_nothing_of_a_run_and_no_directory(name: str) -> None:
    row = ROWS[name]
    writes_into_folders = name in ("profile", "convert to a set", "convert to a named set")
    for out in taken(row):
        if out.startswith(("notes", "link", "dangling")) or (out == "thesis" and writes_into_folders):
            continue
        before = content()
        assert called(row, out, "--force") == 2, out
        assert content() == before, out


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=row.marks) for name, row in ROWS.items() if row.force and row.extension],
)
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.usefixtures("here")
def test_force_replaces_a_file(name: str) -> None:
    row = ROWS[name]
    out = f"notes{row.extension}"
    Path(out).write_text("no longer needed")
    before = content()
    assert called(row, out, "--force") == 0
    after = content()
    assert after.pop(out, b"") != before.pop(out)
    assert {path: after[path] for path in before} == before


@pytest.mark.parametrize("name", [pytest.param(name, marks=row.marks) for name, row in ROWS.items()])
@pytest.mark.filterwarnings("ignore:.*LeafSpec.*:FutureWarning")
@pytest.mark.usefixtures("here")
def test_an_earlier_output_is_replaced_whole_or_refused(name: str) -> None:
    row = ROWS[name]
    out = f"new{row.extension}"
    assert called(row, out) == 0
    before = content()
    assert called(row, out) == row.again
    after = content()
    assert sorted(after) == sorted(before)  # nothing is left beside it
    if row.again:
        assert after == before


@pytest.mark.parametrize("change", ["added", "edited", "a link"])
@pytest.mark.usefixtures("here")
def test_an_earlier_directory_with_something_of_the_user_stays(change: str) -> None:
    row = ROWS["export a run"]
    assert called(row, "new") == 0
    if change == "added":
        Path("new/notes.txt").write_text("mine")
    elif change == "edited":
        Path("new/src/model.rs").write_text(Path("new/src/model.rs").read_text() + "// mine\n")
    else:
        Path("new/src/model.rs").unlink()
        Path("new/src/model.rs").symlink_to("../../notes")
    before = content()
    assert called(row, "new") == 2
    assert content() == before
    assert called(row, "new", "--force") == 2
    assert content() == before


@pytest.mark.usefixtures("here")
def test_a_directory_that_stays_is_not_replaced_by_another_command() -> None:
    assert called(ROWS["merge"], "new") == 0
    before = content()
    assert called(ROWS["export a run"], "new") == 2
    assert content() == before


@pytest.mark.parametrize("can_exchange", [True, False])
@pytest.mark.usefixtures("here")
def test_where_the_last_rename_fails_the_earlier_directory_is_there(
    can_exchange: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = ROWS["export a run"]
    assert called(row, "new") == 0
    before = content()
    renames: list[str] = []
    rename = os.rename

    def fail_at_the_second(source: str, target: str) -> None:
        renames.append(str(target))
        if len(renames) == 2:
            raise OSError(5, "Input/output error")
        rename(source, target)

    if can_exchange:

        def refuse(*_: object) -> bool:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(_outputs, "_exchange", refuse)
    else:
        monkeypatch.setattr(_outputs, "_exchange", lambda *_: False)
        monkeypatch.setattr(os, "rename", fail_at_the_second)
    assert called(row, "new") == 2
    assert content() == before
    monkeypatch.undo()


@pytest.mark.usefixtures("here")
def test_without_an_exchange_of_names_the_earlier_directory_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    row = ROWS["merge"]
    assert called(row, "new") == 0
    names = sorted(content())
    first = Path("new").stat().st_ino
    monkeypatch.setattr(_outputs, "_exchange", lambda *_: False)
    assert called(row, "new") == 0
    assert sorted(content()) == names
    assert Path("new").stat().st_ino != first


@pytest.mark.usefixtures("here")
def test_the_current_directory_is_no_output(monkeypatch: pytest.MonkeyPatch) -> None:
    place = Path.cwd()
    (place / "empty").mkdir()
    monkeypatch.chdir(place / "empty")
    assert main(["export", str(place / "run"), "--to", "burn", "--out", "."]) == 2
    assert [*Path().iterdir()] == []


@pytest.mark.usefixtures("here")
def test_an_export_of_a_run_without_out_replaces_its_earlier_one_alone() -> None:
    words = ["export", "run", "--to", "burn"]
    assert main(words) == main(words) == 0
    shutil.rmtree("run/exports")
    Path("run/exports").symlink_to("../outside", target_is_directory=True)
    before = content()
    assert main(words) == 2
    assert content() == before


@pytest.mark.usefixtures("here")
def test_evaluations_stay_beside_one_another_and_in_the_run() -> None:
    assert main(["evaluate", "run"]) == main(["evaluate", "run"]) == 0
    assert len([*Path("run/evaluations").iterdir()]) == 2
    shutil.rmtree("run/evaluations")
    Path("run/evaluations").symlink_to("../outside", target_is_directory=True)
    before = content()
    assert main(["evaluate", "run"]) == 2
    assert content() == before


def test_rows_on_standard_output_are_those_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program reads them there too: a space that is none of ASCII is not to become `\\xa0`."""
    rows = [{"name": "p\u00a0x.txt:1", "text": "tr\u00e8s\u00a0bon \U0001f469\u200d\U0001f4bb\t\u3000"}]
    for is_csv in (True, False):
        path = tmp_path / ("out.csv" if is_csv else "out.jsonl")
        write_predictions(output_of(str(path), [], force=False), rows, is_csv=is_csv)
        write_predictions(None, rows, is_csv=is_csv)
        assert capsys.readouterr().out.encode() == path.read_bytes()
