"""The copy of a run's checkpoints in another place: whole or not at all, and a run that has nothing goes on from it."""

from pathlib import Path
from typing import Any

import fsspec
import pytest
import torch

from burnlike.config.shipped import config_file
from burnlike.errors import CheckpointError, ConfigError, RunDirError
from burnlike.record import Record
from burnlike.train import Checkpointer, TrainConfig
from burnlike.train.checkpoint.mirror import Mirror, fetch_run

PLACE = "memory://bucket/runs"


@pytest.fixture
def run(tmp_path: Path) -> Any:
    """The directory of a run, and an empty mirror in memory."""
    files = fsspec.filesystem("memory")
    if files.exists("/bucket"):
        files.rm("/bucket", recursive=True)
    directory = tmp_path / "big"
    directory.mkdir()
    (directory / "config.yaml").write_text("seed: 1\n")
    return directory


def records(value: float) -> dict[str, Record]:
    return {"model": Record({"weight": torch.full((5,), value)}), "training": Record({}, {"step": value})}


def checkpointer(run: Path, mirror: Mirror | None = None) -> Checkpointer:
    made = Checkpointer(run / "checkpoints", keep=2)
    made.mirror = mirror or claimed(run)
    return made


def claimed(run: Path, place: str = PLACE, *, is_new: bool = False) -> Mirror:
    mirror = Mirror(place, run)
    mirror.claim(is_new=is_new, has_checkpoints=(run / "checkpoints").exists())
    return mirror


def finished(run: Path, weights: bytes) -> None:
    """The mirror has the result of a run with these weights."""
    (run / "model.safetensors").write_bytes(weights)
    saving = checkpointer(run)
    assert saving.mirror_result() == []


def names(suffix: str = "") -> set[str]:
    found = fsspec.filesystem("memory").ls("/bucket/runs/big", detail=False)
    return {str(it).rpartition("/")[2] for it in found if str(it).endswith(suffix)}


def test_whole_checkpoints_are_copied_and_pruned(run: Path) -> None:
    saving = checkpointer(run)
    for step in (1, 2, 3):
        saving.save(step, records(step), background=True)
    saving.wait()
    assert saving.notes(wait=True) == []
    assert names() == {"mirror.json", "step-00000002", "step-00000002.json", "step-00000003", "step-00000003.json"}


def test_a_run_that_has_nothing_goes_on_from_it(run: Path, tmp_path: Path) -> None:
    saving = checkpointer(run)
    saving.save(7, records(7.0))
    saving.notes(wait=True)
    other = tmp_path / "elsewhere" / "big"
    other.mkdir(parents=True)
    mirror = claimed(other)
    assert mirror.fetch(other / "checkpoints") == 7
    assert (other / "config.yaml").read_text() == "seed: 1\n"
    found = Checkpointer(other / "checkpoints").latest()
    assert found is not None
    assert found.records()["model"].tensors["weight"].tolist() == [7.0] * 5
    assert sorted(it.name for it in found.path.iterdir()) == ["model.safetensors", "training.safetensors"]
    assert mirror.fetch(other / "checkpoints", after=7) is None


def test_half_of_a_checkpoint_is_none(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirror = claimed(run)
    saving = checkpointer(run, mirror)
    saving.save(1, records(1.0))
    saving.notes(wait=True)
    files = fsspec.filesystem("memory")
    place, opened = type(files), type(files).open

    def full(self: Any, path: str, mode: str = "rb", **options: Any) -> Any:
        if "w" in mode and path.endswith("step-00000002/training.safetensors"):
            raise OSError("no space")
        return opened(self, path, mode, **options)

    monkeypatch.setattr(place, "open", full)
    saving.save(2, records(2.0))
    [note] = saving.notes(wait=True)
    assert "could not be brought up to date: OSError: no space; it is tried again after the next checkpoint" in note
    assert mirror.steps() == [1]
    assert "step-00000002" in names()
    monkeypatch.undo()
    saving.save(3, records(3.0))
    assert saving.notes(wait=True) == [f"the mirror {PLACE}/big has all checkpoints again"]
    assert mirror.steps() == [2, 3]


def test_a_file_that_changed_in_the_mirror_is_not_taken(run: Path, tmp_path: Path) -> None:
    saving = checkpointer(run)
    saving.save(1, records(1.0))
    saving.notes(wait=True)
    fsspec.filesystem("memory").pipe_file("/bucket/runs/big/step-00000001/model.safetensors", b"other")
    other = tmp_path / "elsewhere" / "big"
    with pytest.raises(CheckpointError, match=r"model.safetensors is not the file that was copied there"):
        Mirror(PLACE, other).fetch(other / "checkpoints")
    assert not list((other / "checkpoints").iterdir())


def test_a_list_that_names_files_elsewhere_is_refused(run: Path, tmp_path: Path) -> None:
    listed = b'{"files": {"../../escaped": [1, "x"]}}'
    fsspec.filesystem("memory").pipe_file("/bucket/runs/big/step-00000001.json", listed)
    with pytest.raises(CheckpointError, match="expected one in step-00000001"):
        Mirror(PLACE, run).fetch(run / "checkpoints")


def test_places_that_cannot_be_used_are_told(run: Path) -> None:
    with pytest.raises(CheckpointError, match="nowhere://x/big can't be used: ValueError"):
        Mirror("nowhere://x", run)
    with pytest.raises(ConfigError, match="expected a place such as"):
        TrainConfig.load(config_file("char_gpt_tiny"), ["checkpoint.mirror='s3://'"])


def test_files_of_a_fetch_are_whole_and_right_or_not_there(run: Path, tmp_path: Path) -> None:
    finished(run, b"the weights")
    files, path = fsspec.filesystem("memory"), "/bucket/runs/big/result/model.safetensors"
    for damage in (b"the wEights", b"the wei", b""):
        files.pipe_file(path, damage)
        with pytest.raises(CheckpointError, match=r"model.safetensors is not the file that was copied there"):
            fetch_run(f"{PLACE}/big", tmp_path / "here")
        assert not (tmp_path / "here" / "big" / "model.safetensors").exists()
    files.pipe_file(path, b"the weights")
    here, came = fetch_run(f"{PLACE}/big", tmp_path / "here")
    assert came == ["the result"]
    assert (here / "model.safetensors").read_bytes() == b"the weights"
    assert not [it for it in here.iterdir() if it.name.endswith(".tmp")]


def test_a_fetch_replaces_what_came_from_the_mirror_and_keeps_what_was_changed_here(run: Path, tmp_path: Path) -> None:
    (run / "metrics.jsonl").write_text("1\n")
    finished(run, b"first")
    here, _ = fetch_run(f"{PLACE}/big", tmp_path / "here")
    (run / "metrics.jsonl").write_text("1\n2\n")
    finished(run, b"second")
    fetch_run(f"{PLACE}/big", tmp_path / "here")
    assert (here / "model.safetensors").read_bytes() == b"second"
    assert (here / "metrics.jsonl").read_text() == "1\n2\n"
    (here / "metrics.jsonl").write_text("1\n2\n3\n")  # it went on here
    fetch_run(f"{PLACE}/big", tmp_path / "here")
    for content in (b"", b"sec", b"mine"):
        (here / "model.safetensors").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"keeps its own model.safetensors, .* move them away"):
            fetch_run(f"{PLACE}/big", tmp_path / "here")
        assert (here / "model.safetensors").read_bytes() == content
    (here / "model.safetensors").unlink()
    fetch_run(f"{PLACE}/big", tmp_path / "here")
    assert (here / "model.safetensors").read_bytes() == b"second"
    assert (here / "metrics.jsonl").read_text() == "1\n2\n3\n"


@pytest.mark.parametrize("listed", ['{"files": {}}', '{"files": {"run/config.yaml": [8, "x"]}}', "{}", '{"files": ['])
def test_a_list_without_files_of_a_checkpoint_is_none(listed: str, run: Path, tmp_path: Path) -> None:
    saving = checkpointer(run)
    saving.save(1, records(1.0))
    saving.notes(wait=True)
    fsspec.filesystem("memory").pipe_file("/bucket/runs/big/step-00000002.json", listed.encode())
    mirror = Mirror(PLACE, tmp_path / "elsewhere" / "big")
    assert mirror.steps() == [1]
    assert mirror.fetch(tmp_path / "elsewhere" / "big" / "checkpoints") == 1


def test_links_out_of_a_run_are_neither_copied_nor_written_through(run: Path, tmp_path: Path) -> None:
    (outside := tmp_path / "outside").mkdir()
    (outside / "secret").write_text("secret")
    (run / "notes").symlink_to(outside / "secret")
    (run / "data").mkdir()
    (run / "data" / "tokenizer.json").write_text("{}")
    finished(run, b"weights")
    files = fsspec.filesystem("memory")
    copied = {it: files.cat_file(it) for it in files.find("/bucket/runs/big/result")}
    assert {it.rpartition("/")[2] for it in copied} == {"config.yaml", "tokenizer.json", "model.safetensors"}
    assert b"secret" not in b"".join(copied.values())
    (here := tmp_path / "here" / "big").mkdir(parents=True)
    (here / "run.lock").touch()
    (here / "data").symlink_to(outside)
    with pytest.raises(RunDirError, match="data: it is a link to outside of"):
        fetch_run(f"{PLACE}/big", tmp_path / "here")
    with pytest.raises(CheckpointError, match="it is a link to outside of"):
        Mirror(PLACE, here).fetch_result()
    assert [it.name for it in outside.iterdir()] == ["secret"]
