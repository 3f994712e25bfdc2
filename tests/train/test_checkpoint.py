"""Checkpointer: whole or not at all, the last ones kept."""

import errno
import os
from pathlib import Path

import pytest
import torch

from burnlike.errors import CheckpointError, RecordIOError
from burnlike.record import Record, SafetensorsRecorder
from burnlike.train import Checkpointer, MetricsLog, RunDir


def records(step: int) -> dict[str, Record]:
    return {
        "model": Record(tensors={"weight": torch.full((5,), float(step))}),
        "training": Record(values={"step": step}),
    }


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_saves_load_back_and_only_the_last_stay(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path / "checkpoints", keep=2)
    assert checkpointer.latest() is None
    for step in (5, 10, 100_000_000, 15):
        checkpointer.save(step, records(step))
    assert [checkpoint.step for checkpoint in checkpointer.all()] == [15, 100_000_000]
    assert names(tmp_path / "checkpoints") == ["step-00000015", "step-100000000"]
    latest = checkpointer.latest()
    assert latest is not None
    assert latest.load("model").tensors["weight"].tolist() == [1e8] * 5
    assert latest.load("training").values == {"step": 100_000_000}


def test_a_step_that_is_there_is_not_written_again(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, keep=1)
    path = checkpointer.save(5, records(5)).path
    before = (path / "model.safetensors").stat().st_mtime_ns
    assert checkpointer.save(5, records(6)).path == path
    assert (path / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("failing", ["save", "rename"])
def test_a_failed_save_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    checkpointer = Checkpointer(tmp_path, keep=1)
    checkpointer.save(1, records(1))
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    if failing == "save":
        whole_save = SafetensorsRecorder.save

        def save(self: SafetensorsRecorder, record: Record, path: Path) -> str:
            if path.name == "training.safetensors":
                raise RecordIOError(f"{path}: not saved, the disk or quota is full")
            return whole_save(self, record, path)

        monkeypatch.setattr(SafetensorsRecorder, "save", save)
    else:

        def rename(self: Path, target: Path) -> Path:
            raise full

        monkeypatch.setattr(Path, "rename", rename)
    message = r"step-00000002 can't be written: .*(full|No space).*step-00000001 is whole.*--resume"
    with pytest.raises(CheckpointError, match=message):
        checkpointer.save(2, records(2))
    assert names(tmp_path) == ["step-00000001"]


def test_leftovers_of_a_killed_process_do_not_count_and_are_cleaned(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, keep=2)
    checkpointer.save(1, records(1))
    for leftover in (".partial-step-00000002", ".removed-step-00000000"):
        (tmp_path / leftover).mkdir()
        (tmp_path / leftover / "model.safetensors").write_bytes(b"half")
    latest = checkpointer.latest()
    assert latest is not None
    assert latest.step == 1
    checkpointer.clean()
    assert names(tmp_path) == ["step-00000001"]


def test_everything_is_synced_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    fsync, rename = os.fsync, Path.rename

    def note_fsync(descriptor: int) -> None:
        events.append(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    def note_rename(self: Path, target: Path) -> Path:
        events.append(f"rename to {target.name}")
        return rename(self, target)

    monkeypatch.setattr(os, "fsync", note_fsync)
    monkeypatch.setattr(Path, "rename", note_rename)
    Checkpointer(tmp_path, keep=1).save(1, records(1))
    at = events.index("rename to step-00000001")
    assert events[at - 1].startswith(".partial-step-00000001-")
    assert events[at + 1] == tmp_path.name
    assert {"model.safetensors", "training.safetensors"} <= {*events[:at]}


def test_missing_and_truncated_records_name_the_checkpoint_and_the_remedy(tmp_path: Path) -> None:
    checkpoint = Checkpointer(tmp_path, keep=1).save(1, records(1))
    file = checkpoint.path / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(
        CheckpointError, match=r"step-00000001 can't be used: .*model.safetensors.*remove that directory"
    ):
        checkpoint.load("model")
    with pytest.raises(CheckpointError, match=r"step-00000001 can't be used: .*optimizer.safetensors"):
        checkpoint.load("optimizer")


def test_directories_and_files_are_given_as_text_too(tmp_path: Path) -> None:
    checkpointer = Checkpointer(str(tmp_path / "out"))
    for step in (1, 2, 3):
        checkpointer.save(step, records(step))
    assert [checkpoint.step for checkpoint in Checkpointer(f"{tmp_path}/out").all()] == [2, 3]
    RunDir.create_next(str(tmp_path), "gpt").close()
    RunDir.open_newest(str(tmp_path), "gpt").close()
    RunDir.open(f"{tmp_path}/gpt").close()
    RunDir.create(f"{tmp_path}/other").close()
    MetricsLog(f"{tmp_path}/metrics.jsonl").append({"step": 1})
    assert MetricsLog(f"{tmp_path}/metrics.jsonl").read() == [{"step": 1}]


def test_checkpoints_of_another_run_are_left_alone_and_the_error_says_how_to_go_on(tmp_path: Path) -> None:
    older = Checkpointer(tmp_path, keep=2)
    for step in (75, 100):
        older.save(step, records(step))
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.safetensors")}
    for step in (25, 50, 100, 125):
        with pytest.raises(CheckpointError, match=r"of another run: step-00000100; .*--resume.*another directory"):
            Checkpointer(tmp_path, keep=1).save(step, records(0))
        assert {path: path.read_bytes() for path in tmp_path.rglob("*.safetensors")} == before


def test_a_run_that_goes_on_keeps_its_last_ones(tmp_path: Path) -> None:
    older = Checkpointer(tmp_path, keep=3)
    for step in (50, 75, 100):
        older.save(step, records(step))
    resumed = Checkpointer(tmp_path, keep=2)
    assert resumed.latest() is not None
    assert resumed.save(100, records(0)).load("training").values == {"step": 100}  # it is there already
    assert resumed.save(125, records(125)).path.is_dir()
    assert names(tmp_path) == ["step-00000100", "step-00000125"]


def test_a_run_that_goes_back_may_not_write_before_what_is_there(tmp_path: Path) -> None:
    older = Checkpointer(tmp_path, keep=3)
    for step in (75, 100):
        older.save(step, records(step))
    back = Checkpointer(tmp_path, keep=3)
    assert back.all()[0].load("training").values == {"step": 75}
    with pytest.raises(CheckpointError, match=r"of a later step than 80.*: step-00000100; .*remove it"):
        back.save(80, records(80))
    for file in (tmp_path / "step-00000100").iterdir():
        file.unlink()
    (tmp_path / "step-00000100").rmdir()
    back.save(80, records(80))
    assert names(tmp_path) == ["step-00000075", "step-00000080"]


def test_what_was_saved_last_stays_whatever_its_step(tmp_path: Path) -> None:
    checkpointer = Checkpointer(tmp_path, keep=2)
    for step in (30, 20, 10):
        assert checkpointer.save(step, records(step)).path.is_dir()
    assert names(tmp_path) == ["step-00000010", "step-00000020"]
