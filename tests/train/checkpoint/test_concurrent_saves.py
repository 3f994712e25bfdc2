"""Several processes that write checkpoints into one directory: each is whole, or refused, also when one is killed."""

import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from burnlike._atomic import remove_abandoned_directories
from burnlike.errors import CheckpointError
from burnlike.record import Record, SafetensorsRecorder
from burnlike.train import Checkpointer, TrainingState
from burnlike.train.checkpoint.checkpointer import whole_checkpoint
from tests.processes import HANGS_S

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.train.checkpoint.test_concurrent_saves"])
PARTS = ("model", "optimizer", "training")


def records(writer: int) -> dict[str, Record]:
    return {name: Record(tensors={"weight": torch.full((2000,), float(writer))}) for name in PARTS}


def save_until_refused(directory: Path, writer: int, start, refusals) -> None:
    torch.set_num_threads(1)
    start.wait(HANGS_S)
    for step in range(8):
        try:
            Checkpointer(directory / str(step), keep=5).save(step, records(writer))
        except CheckpointError as error:
            refusals.put(str(error))


def save_for_ever(directory: Path, writer: int) -> None:
    torch.set_num_threads(1)
    step = 0
    while True:
        step += 1
        try:
            TrainingState(random=False, model=torch.nn.Linear(50, 50)).save(directory / f"{step:04d}")
        except CheckpointError:
            continue


def assert_whole(checkpoint: Path) -> None:
    assert sorted(path.name for path in checkpoint.iterdir()) == [f"{name}.safetensors" for name in PARTS]
    values = [SafetensorsRecorder().load(path).tensors["weight"].unique().tolist() for path in checkpoint.iterdir()]
    assert len(values[0]) == 1
    assert values == [values[0]] * len(PARTS)


def test_of_two_writers_of_a_step_one_is_whole_and_the_other_is_told(tmp_path: Path) -> None:
    start, refusals = CONTEXT.Barrier(2), CONTEXT.Queue()
    writers = [CONTEXT.Process(target=save_until_refused, args=(tmp_path, it, start, refusals)) for it in range(2)]
    for writer in writers:
        writer.start()
    told = [refusals.get(timeout=HANGS_S) for _ in range(8)]
    for writer in writers:
        writer.join(HANGS_S)
        assert writer.exitcode == 0
    assert refusals.empty()
    assert all("by another process meanwhile" in text or "of another run" in text for text in told)
    for step in range(8):
        assert [path.name for path in (tmp_path / str(step)).iterdir()] == [f"step-{step:08d}"]
        assert_whole(tmp_path / str(step) / f"step-{step:08d}")


def test_writers_that_are_killed_leave_nothing_half(tmp_path: Path) -> None:
    choices = random.Random(0)
    for _ in range(6):
        writers = [CONTEXT.Process(target=save_for_ever, args=(tmp_path, it)) for it in range(2)]
        for writer in writers:
            writer.start()
        before, deadline = len(os.listdir(tmp_path)), time.monotonic() + HANGS_S
        while len(os.listdir(tmp_path)) < before + 3:
            assert all(writer.is_alive() for writer in writers)
            assert time.monotonic() < deadline
            time.sleep(0.005)
        time.sleep(choices.random() * 0.02)
        for writer in writers:
            os.kill(writer.pid, signal.SIGKILL)
            writer.join(HANGS_S)
    assert any(path.name.startswith(".partial-") for path in tmp_path.iterdir())
    remove_abandoned_directories(tmp_path)
    saved = sorted(tmp_path.iterdir())
    assert all(path.name.isdigit() for path in saved)
    for path in saved:
        TrainingState(random=False, model=torch.nn.Linear(50, 50)).load(path)


def test_what_another_process_is_writing_is_not_taken_for_abandoned(tmp_path: Path) -> None:
    with whole_checkpoint(tmp_path / "one") as partial:
        (partial / "file").touch()
        remove_abandoned_directories(tmp_path)
        with whole_checkpoint(tmp_path / "one") as other:
            assert other != partial
        assert (partial / "file").exists()
        (tmp_path / "one" / "taken").touch()
        with pytest.raises(CheckpointError, match="by another process meanwhile"), whole_checkpoint(tmp_path / "one"):
            pass
        (tmp_path / "one" / "taken").unlink()
    assert [path.name for path in tmp_path.rglob("*")] == ["one", "file"]


def test_what_a_killed_process_left_of_the_same_name_is_removed_by_the_next(tmp_path: Path) -> None:
    left = [".partial-one", ".partial-one-0123456789ab", ".partial-one-two-0123456789ab", ".partial-onetwo"]
    for name in left:
        (tmp_path / name).mkdir()
    with whole_checkpoint(tmp_path / "one"):
        pass
    assert sorted(path.name for path in tmp_path.iterdir()) == [*left[2:], "one"]
