"""A save in the background that fails in one process ends all of them at the same step, with the same error."""

from pathlib import Path

import pytest

from ...processes import HANGS_S, launched
from ..samples import write_config

pytestmark = pytest.mark.meshes


@pytest.mark.parametrize(
    ("strategy", "fails", "late", "reason"),
    [
        ("fsdp2", "write", "0", "rank 1: "),
        ("fsdp2", "rename", "1", "rank 0: OSError: [Errno 28] No space left on device"),
        ("ddp", "rename", "1", "No space left on device"),
    ],
)
def test_all_end_alike(
    strategy: str, fails: str, late: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAILS", fails)
    monkeypatch.setenv("LATE", late)
    config, run = write_config(tmp_path), tmp_path / "run"
    sets = [f"distributed.strategy={strategy}", "training.log_every_steps=1", "training.batch_size=1"]
    command = [
        "-m",
        "burnlike",
        "train",
        str(config),
        "--import",
        "tests.train.distributed.failing_saves",
        "--run-dir",
        str(run),
    ]
    logs = [tmp_path / f"log-{rank}" for rank in range(2)]
    workers = launched([*command, *(word for it in sets for word in ("--set", it))], logs)
    statuses = [worker.wait(HANGS_S) for worker in workers]
    texts = [log.read_text() for log in logs]
    assert statuses == [2, 2], texts
    [error], [other] = ([line for line in text.splitlines() if "error: " in line] for text in texts)
    assert other == error
    assert f"the checkpoint {run}/checkpoints/step-00000006 can't be written: " in error
    assert reason in error
    assert f"{run}/checkpoints/step-00000003 is whole" in error
    assert [it.name for it in (run / "checkpoints").iterdir()] == ["step-00000003"]
