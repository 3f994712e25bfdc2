"""Jobs of several processes whose machines share no file system: two folders stand for two machines."""

from pathlib import Path

import pytest

from burnlike.record import Record
from burnlike.train.checkpoint.checkpointer import Checkpointer

from ...processes import HANGS_S, assert_succeed, launched

pytestmark = pytest.mark.meshes
OPTIONS = [
    "distributed.strategy=fsdp2",
    "training.steps_per_epoch=12",
    "training.checkpoint_every_steps=6",
    "training.batch_size=4",
    "training.validation_steps=1",
    "task.sample_length=0",
]


def arguments(*options: str, epochs: int = 1) -> list[str]:
    sets = [word for option in (*OPTIONS, f"training.epochs={epochs}", *options) for word in ("--set", option)]
    return ["-m", "burnlike", "train", "char_gpt_tiny", *sets]


def values(record: Record) -> dict[str, list[float]]:
    return {name: it.tolist() for name, it in record.tensors.items()}


@pytest.fixture
def machines(tmp_path: Path) -> list[Path]:
    folders = [tmp_path / "machine 0", tmp_path / "machine 1"]
    for folder in folders:
        folder.mkdir()
    return folders


def test_a_job_says_at_its_start_that_they_share_none(machines: list[Path], tmp_path: Path) -> None:
    logs = [tmp_path / f"{rank}.log" for rank in range(2)]
    workers = launched([*arguments(), "--run-dir", "run"], logs, machines)
    assert [it.wait(HANGS_S) for it in workers] == [2, 2]
    for log in logs:
        said = log.read_text()
        assert "not all processes see what was written to" in said
        assert "or set checkpoint.gather: true, with which rank 0 gets the parts of all and writes them" in said
    assert not list((machines[0] / "run").glob("checkpoints/step-*"))


def test_rank_0_writes_the_parts_of_all_and_sends_them_to_go_on(machines: list[Path], tmp_path: Path) -> None:
    """With the same bits as where all see one directory."""
    logs = [tmp_path / f"{rank}.log" for rank in range(2)]
    together = tmp_path / "together"
    together.mkdir()
    for folders, options in ((machines, ["checkpoint.gather=true"]), ([together, together], [])):
        assert_succeed(launched([*arguments(*options), "--run-dir", "run"], logs, folders), logs)
        assert_succeed(launched([*arguments(*options, epochs=2), "--resume", "run"], logs, folders), logs)
    apart, expected = (Checkpointer(it / "run" / "checkpoints").latest() for it in (machines[0], together))
    assert apart is not None
    assert expected is not None
    assert apart.step == expected.step == 24
    for name, record in expected.records().items():
        if name != "training":
            assert values(apart.part(name)) == values(record)
    assert [it.name for it in (machines[1] / "run").rglob("*")] == ["checkpoints"]
