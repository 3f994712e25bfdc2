"""Processes find out whether they see one directory, by what one of them wrote there."""

from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.record import Record, SafetensorsRecorder
from burnlike.record.distributed import together as shared_directory
from burnlike.record.distributed.together import fingerprints, not_one_directory, not_the_same_files


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_directory, "_WAITS_S", (0.0, 0.001))


def alone(value: Any) -> list[Any]:
    return [value]


def saved(value: float, directory: Path) -> None:
    directory.mkdir()
    for name in ("a", "b"):
        SafetensorsRecorder().save(Record({"x": torch.full((4,), value)}), directory / f"{name}.safetensors")


def test_files_of_another_run_with_the_same_sizes_are_told(tmp_path: Path) -> None:
    """As an old copy of a run on another node has them: its checkpoints have the same names."""
    for name in ("here", "there", "old"):
        saved(1.0 if name == "old" else 2.0, tmp_path / name)
    assert not_the_same_files(tmp_path / "there", fingerprints(tmp_path / "here"), alone) == ""
    problem = not_the_same_files(tmp_path / "old", fingerprints(tmp_path / "here"), alone)
    place = shared_directory.place_of(tmp_path / "old")
    assert f"rank 0 misses a.safetensors, b.safetensors at {place}, or has" in problem


def test_all_files_are_waited_for_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(shared_directory.time, "sleep", waits.append)
    assert "rank 0 misses 0, 1, 10" in not_the_same_files(tmp_path, {str(it): "" for it in range(1000)}, alone)
    assert waits == [0.0, 0.001]


@pytest.mark.parametrize("place", ["a file in its way", "nothing"])
def test_a_process_that_sees_no_directory_tells_what_rank_0_told(place: str, tmp_path: Path) -> None:
    """It does not fail by itself, whatever is at that path."""
    if place != "nothing":
        (tmp_path / "run").write_text("")

    def gather(value: Any) -> list[Any]:
        return [(".seen-0", "written", "") if len(value) == 3 else ([], "host:/run"), value]

    problem = not_one_directory(tmp_path / "run" / "checkpoints", 1, gather)
    assert f"rank 1 looked at {shared_directory.place_of(tmp_path / 'run' / 'checkpoints')}; all nodes need" in problem


def test_nothing_stays_of_the_proof(tmp_path: Path) -> None:
    assert not_one_directory(tmp_path / "run", 0, alone) == ""
    assert [*(tmp_path / "run").iterdir()] == []
    (tmp_path / "file").write_text("")
    assert "file can't be written: " in not_one_directory(tmp_path / "file", 0, alone)
