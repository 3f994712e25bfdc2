"""Processes that fail in a save or a step, hang or are slow: named by the others, which end with the same error."""

import json
import os
import re
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from burnlike.errors import CheckpointError, RecordIOError
from burnlike.train.parallel.distributed import SeveralProcesses
from burnlike.train.parallel.watch import EndedError, ProcessTimes, own_times

from ...marks import weekly
from ...processes import HANGS_S, launched
from ..samples import write_config
from .hanging import STEP


@pytest.mark.meshes
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


def run(how: str, strategy: str, place: Path) -> tuple[list[str], int]:
    """What three processes printed, of which the last one hangs, and its number."""
    logs = [place / f"log-{rank}" for rank in range(3)]
    workers = launched(["-m", "tests.train.distributed.hanging", how, strategy, str(place)], logs)
    for worker in workers[:2]:
        worker.wait(timeout=HANGS_S)
    if how != "slow":
        workers[2].kill()
    workers[2].wait(timeout=HANGS_S)
    return [log.read_text() for log in logs], workers[2].pid


@pytest.mark.parametrize(("how", "strategy"), weekly(("asleep", "ddp"), ("stopped", "fsdp2")))
def test_a_process_that_hangs_is_named_with_its_step_and_prints_its_stack(
    how: str, strategy: str, tmp_path: Path
) -> None:
    texts, process = run(how, strategy, tmp_path)
    for text in texts[:2]:
        assert f"EndedError: rank 2 (process {process} on {os.uname().nodename})" in text
        assert f"in step {STEP}" in text
    if how == "asleep":
        assert "hanging.py:" in texts[0]
        assert " in hang_here" in texts[2]


@pytest.mark.slow
def test_a_slow_process_is_named_and_what_each_does_is_kept(tmp_path: Path) -> None:
    run("slow", "fsdp2", tmp_path)
    assert f"rank 2 on {os.uname().nodename} is slow" in (tmp_path / "run" / "log.txt").read_text()
    first, *_ = (json.loads(line) for line in (tmp_path / "run" / "ranks.jsonl").read_text().splitlines())
    assert len(first["items_per_s"]) == len(first["waiting"]) == 3
    assert first["waiting"][2] < min(first["waiting"][:2])


@pytest.mark.meshes
@pytest.mark.parametrize(("call", "rank"), [(1, 2), (8, 1)])  # in the trial of its micro-batches, and in a step
def test_a_stage_that_fails_ends_all_pipelines_with_its_error(call: int, rank: int, tmp_path: Path) -> None:
    logs = [tmp_path / f"log-{number}" for number in range(4)]
    workers = launched(["-m", "tests.train.distributed.failing", str(call), str(rank)], logs)
    for worker in workers:
        worker.wait(timeout=HANGS_S)  # long before the hour that they may wait for one another
        assert worker.returncode != 0
    for log in logs:
        assert "MemoryError: no room for the activations" in log.read_text()


def own(ends: list[int], **begun: int) -> ProcessTimes:
    return ProcessTimes("host", 1.0, ends, begun, 0.0)


def test_a_process_waits_from_its_own_beginning_of_an_exchange_to_the_last_one() -> None:
    """Of exchanges that overlap, once; of those that only some have, for these; the second step has none."""
    first = own([0, 100, 130], a=10, b=15, c=80)
    second = own([0, 100, 140], a=60, b=70, c=80, d=120)
    third = own([0, 100, 140], d=110)
    assert own_times([first, second, third]) == [[100 - (70 - 10), 30], [100, 40], [100, 30]]


def test_a_wait_over_the_end_of_a_step_counts_in_both() -> None:
    assert own_times([own([0, 100, 200], a=90), own([0, 100, 200], a=150)]) == [[90, 50], [100, 100]]


def test_a_save_in_which_another_process_hangs_names_that_process() -> None:
    hangs = "rank 1 (process 7 on host) gives no sign of life in step 3"
    watch: Any = SimpleNamespace(training_here=nullcontext, failure=lambda: "", late=lambda: hangs)
    parallel: Any = SimpleNamespace(watch=watch)
    error = CheckpointError("the checkpoint can't be written; Free some space or mend the place")
    error.__cause__ = RecordIOError("step-3: not saved: another process has ended, or does not answer")
    error.__cause__.__cause__ = RuntimeError("Timed out waiting 20000ms for recv operation to complete")
    message = rf"^{re.escape(hangs)}, so this one can't go on\. The last"
    with pytest.raises(EndedError, match=message) as caught, SeveralProcesses.explain_lost_peer(parallel):
        raise error
    assert "Free some space" not in str(caught.value)


def test_an_error_that_all_processes_have_is_not_its_own_cause() -> None:
    """`explain_lost_peer` asks for the cause of the cause, and came to no end."""
    error = CheckpointError("the checkpoint can't be written")
    parallel: Any = SimpleNamespace(gather=lambda own: [own, own])
    with pytest.raises(CheckpointError) as caught, SeveralProcesses.all_or_none(parallel):
        raise error
    assert caught.value is error
    assert error.__cause__ is None
