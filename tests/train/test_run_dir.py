"""RunDir: names, what is never overwritten, the lock."""

import os
from pathlib import Path

import pytest

from burnlike.errors import CheckpointError, RunDirError
from burnlike.train import RunDir


def test_runs_of_one_config_are_numbered_after_the_last(tmp_path: Path) -> None:
    root = tmp_path / "runs"
    names = []
    for _ in range(3):
        run = RunDir.create_next(root, "gpt")
        names.append(run.path.name)
        run.close()
    assert names == ["gpt", "gpt-2", "gpt-3"]
    (root / "gpt-10").mkdir()
    (root / "gpt-old").mkdir()
    RunDir.create_next(root, "other").close()
    with_gap = RunDir.create_next(root, "gpt")
    assert with_gap.path.name == "gpt-11"
    with_gap.close()
    newest = RunDir.open_newest(root, "gpt")
    assert newest.path.name == "gpt-11"
    newest.close()


def test_an_empty_directory_becomes_a_run_but_nothing_is_overwritten(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b"
    RunDir.create(place).close()
    with pytest.raises(RunDirError, match="already holds a run; resume it with --resume"):
        RunDir.create(place)
    other = tmp_path / "other"
    other.mkdir()
    RunDir.create(other).close()
    full = tmp_path / "full"
    full.mkdir()
    (full / "thesis.tex").write_text("x")
    with pytest.raises(RunDirError, match="holds other files"):
        RunDir.create(full)
    with pytest.raises(CheckpointError, match="holds no run"):
        RunDir.open(full)
    assert os.listdir(full) == ["thesis.tex"]


def test_a_run_that_is_not_there_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no run at"):
        RunDir.open(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match="there is no run of gpt in"):
        RunDir.open_newest(tmp_path / "runs", "gpt")


def test_only_one_process_works_on_a_run(tmp_path: Path) -> None:
    first = RunDir.create(tmp_path / "run")
    with pytest.raises(RunDirError, match=rf"another process \(id {os.getpid()}\) is working on"):
        RunDir.open(tmp_path / "run")
    first.close()
    RunDir.open(tmp_path / "run").close()


def test_clean_removes_half_written_files_only(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run")
    for name in (".config.yaml.x7", ".metrics.jsonl.a", ".model.safetensors.9f.tmp", "config.yaml", ".mine"):
        (run.path / name).write_text("x")
    run.clean()
    assert sorted(os.listdir(run.path)) == [".mine", "config.yaml", "run.lock"]
    run.close()


def test_a_place_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(RunDirError, match="can't be made: Not a directory"):
        RunDir.create(tmp_path / "file" / "run")
    with pytest.raises(RunDirError, match=r"can't be made: .* choose a place for it with --run-dir"):
        RunDir.create_next(tmp_path / "file", "gpt")
