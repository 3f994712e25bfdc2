"""Checkpoints: whole or not at all, also of several processes; which stay, by Burn's strategies and tests."""

import errno
import io
import json
import math
import multiprocessing
import os
import random
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from burnlike._atomic import remove_abandoned_directories
from burnlike.errors import CheckpointError, ConfigError, RecordIOError
from burnlike.record import Record, SafetensorsRecorder
from burnlike.train import (
    BestMetricConfig,
    Callback,
    Checkpointer,
    ComposedCheckpointingStrategy,
    KeepLastNCheckpoints,
    Learner,
    MetricCheckpointingStrategy,
    MetricsLog,
    PlainRenderer,
    RunDir,
    TrainingConfig,
    TrainingState,
)
from burnlike.train.checkpoint.checkpointer import Delete, Save, whole_checkpoint
from tests.processes import HANGS_S


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


TESTS = Path(__file__).parents[2]
VECTORS = {
    entry["id"]: entry
    for entry in json.loads((TESTS / "vectors" / "metrics.json").read_text())
    if entry["id"].startswith("Checkpointing/")
}


def strategy_of(text: str) -> KeepLastNCheckpoints:
    """What the vectors call KeepLastN(2)."""
    found = re.fullmatch(r"KeepLastN\((\d+)\)", text)
    assert found
    return KeepLastNCheckpoints(int(found[1]))


def make(entry: dict[str, Any]) -> Any:
    config = entry["config"]
    match entry["metric"]:
        case "KeepLastNCheckpoints":
            return KeepLastNCheckpoints(config["num_keep"])
        case "MetricCheckpointingStrategy":
            name = f"{config['split'].lower()}.{config['metric'].lower()}"
            return MetricCheckpointingStrategy(name, config["direction"].lower())
        case _:
            return ComposedCheckpointingStrategy([strategy_of(it) for it in config["strategies"]])


def shown(action: Save | Delete) -> str:
    return "Save" if isinstance(action, Save) else f"Delete({action.number})"


@pytest.mark.parametrize("name", VECTORS)
def test_actions_are_burns(name: str) -> None:
    entry = VECTORS[name]
    strategy = make(entry)
    points = entry["inputs"].get("loss_points_per_epoch")
    epochs = entry["inputs"].get("epochs") or range(1, len(points) + 1)
    values = [{"train.loss": sum(it) / len(it)} for it in points] if points else [{} for _ in epochs]
    actions = [[*map(shown, strategy.checkpointing(epoch, it))] for epoch, it in zip(epochs, values, strict=True)]
    assert actions == entry["expected"]["outputs"]["actions_per_epoch"]


def test_the_best_and_the_last_ones_stay() -> None:
    strategy = ComposedCheckpointingStrategy([KeepLastNCheckpoints(2), MetricCheckpointingStrategy("valid.loss")])
    kept = []
    for step, loss in enumerate([3.0, 1.0, 2.0, None, 1.5, float("nan"), 0.5], start=1):
        strategy.checkpointing(step, {} if loss is None else {"valid.loss": loss})
        kept.append(strategy.kept)
    assert kept == [[1], [1, 2], [2, 3], [2, 3, 4], [2, 4, 5], [2, 5, 6], [6, 7]]


@pytest.mark.parametrize("direction", ["lowest", "highest"])
def test_an_infinite_value_is_no_best_one(direction: Any) -> None:
    strategy = MetricCheckpointingStrategy("valid.loss", direction)
    worst = math.inf if direction == "lowest" else -math.inf
    assert [strategy.checkpointing(step, {"valid.loss": it}) for step, it in enumerate([worst, worst, 0.5, worst])] == [
        [],
        [],
        [Save()],
        [],
    ]


def test_highest_and_a_saved_state() -> None:
    strategy = MetricCheckpointingStrategy("valid.accuracy", "highest")
    assert strategy.checkpointing(1, {"valid.accuracy": 0.5}) == [Save()]
    other = MetricCheckpointingStrategy("valid.accuracy", "highest")
    other.load_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert other.checkpointing(2, {"valid.accuracy": 0.4}) == []
    assert other.checkpointing(3, {"valid.accuracy": 0.6}) == [Delete(1), Save()]


def test_of_equal_values_the_lowest_loss_is_the_best() -> None:
    strategy = MetricCheckpointingStrategy("valid.accuracy", "highest")
    nan = float("nan")
    found = []
    for step, (accuracy, loss) in enumerate(
        [(90, 0.5), (90, 0.4), (90, 0.6), (90, 0.4), (90, nan), (80, 0.1)], start=1
    ):
        strategy.checkpointing(step, {"valid.accuracy": accuracy, "valid.loss": loss})
        found += strategy.kept
    assert found == [1, 2, 2, 2, 2, 2]
    resumed = MetricCheckpointingStrategy("valid.accuracy", "highest")
    resumed.load_state_dict(json.loads(json.dumps(strategy.state_dict())))
    assert not resumed.is_better({"valid.accuracy": 90, "valid.loss": 0.4})
    assert resumed.is_better({"valid.accuracy": 90, "valid.loss": 0.3})


class Losses(Callback):
    """Gives a validation the losses of a list, and notes what is saved."""

    def __init__(self) -> None:
        self.saved: list[int] = []

    def on_checkpoint(self, learner: Learner[Any], checkpoint: Any) -> None:
        assert (checkpoint.path / "model.safetensors").exists()
        self.saved.append(checkpoint.step)


def fit(directory: Path, losses: list[float], **training: Any) -> list[int]:
    """Train one step an epoch, each validated with the next of the losses; returns the steps that were saved."""
    model = nn.Linear(1, 1)
    given = iter(losses)

    def loss(model: nn.Module, batch: torch.Tensor) -> torch.Tensor:
        return model(batch).square().mean() if model.training else torch.tensor(next(given))

    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.01), loss=loss)
    noting = Losses()
    config = TrainingConfig(epochs=len(losses), **training)
    batches = [torch.ones(2, 1)]
    renderer = PlainRenderer(io.StringIO())
    learner.fit(batches, batches, config, directory=directory, renderer=renderer, callbacks=[noting])
    return noting.saved


def steps_in(directory: Path) -> list[int]:
    return [it.step for it in Checkpointer(directory / "checkpoints").all()]


def test_a_training_keeps_the_best_of_its_validations(tmp_path: Path) -> None:
    saved = fit(tmp_path, [3.0, 1.0, 2.0, 2.5, 2.6], keep_checkpoints=1, keep_best=BestMetricConfig())
    assert saved == [1, 2, 3, 4, 5]
    assert steps_in(tmp_path) == [2, 5]


def test_the_best_is_saved_where_none_is_due(tmp_path: Path) -> None:
    options = {"checkpoint_every_epochs": None, "keep_checkpoints": 1, "keep_best": BestMetricConfig()}
    assert fit(tmp_path, [3.0, 4.0, 1.0, 2.0, 2.0], **options) == [1, 3, 5]
    assert steps_in(tmp_path) == [3, 5]


def test_every_so_many_epochs_and_the_last(tmp_path: Path) -> None:
    assert fit(tmp_path, [1.0] * 5, checkpoint_every_epochs=2, keep_checkpoints=9) == [2, 4, 5]


def test_by_time(tmp_path: Path) -> None:
    options = {"checkpoint_every_epochs": None, "keep_checkpoints": 9}
    assert fit(tmp_path / "often", [1.0] * 4, checkpoint_every_minutes=1e-9, **options) == [1, 2, 3, 4]
    assert fit(tmp_path / "rarely", [1.0] * 4, checkpoint_every_minutes=60.0, **options) == [4]


def test_a_minute_has_60_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    class Slow(list[float]):
        """Losses of validations that take 50 s each."""

        def __iter__(self) -> Iterator[float]:
            for value in super().__iter__():
                now[0] += 50
                yield value

    monkeypatch.setattr("burnlike.train.learner.saving.time", SimpleNamespace(monotonic=lambda: now[0]))
    options = {"checkpoint_every_epochs": None, "keep_checkpoints": 9}
    assert fit(tmp_path, Slow([1.0] * 7), checkpoint_every_minutes=2.0, **options) == [3, 6, 7]


@pytest.mark.parametrize("name", ["keep_best", "early_stopping"])
def test_a_metric_that_is_not_there_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigError, match=rf"training.{name}.metric: the validation has no 'acuracy', it has loss"):
        fit(tmp_path, [1.0], **{name: {"metric": "acuracy"}})


def test_a_background_save_that_fails_ends_the_training_with_its_reason(tmp_path: Path) -> None:
    class Blocks(Callback):
        def on_backward_end(self, learner: Learner[Any]) -> None:
            if learner.step == 2:
                checkpointer.wait()
                (tmp_path / "checkpoints").rename(tmp_path / "away")
                (tmp_path / "checkpoints").write_text("no directory")

    model = nn.Linear(1, 1)
    learner = Learner(model, torch.optim.SGD(model.parameters(), lr=0.01), loss=lambda m, x: m(x).mean())
    checkpointer = Checkpointer(tmp_path / "checkpoints")
    with pytest.raises(CheckpointError, match=r"step-00000003 can't be written"):
        learner.fit(
            [torch.ones(1, 1)],
            training=TrainingConfig(epochs=9),
            checkpointer=checkpointer,
            renderer=PlainRenderer(io.StringIO()),
            callbacks=[Blocks()],
        )
    assert sorted(it.name for it in (tmp_path / "away").iterdir()) == ["step-00000001", "step-00000002"]


CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["tests.train.checkpoint.test_checkpoints"])
PARTS = ("model", "optimizer", "training")


def filled_records(writer: int) -> dict[str, Record]:
    return {name: Record(tensors={"weight": torch.full((2000,), float(writer))}) for name in PARTS}


def save_until_refused(directory: Path, writer: int, start, refusals) -> None:
    torch.set_num_threads(1)
    start.wait(HANGS_S)
    for step in range(8):
        try:
            Checkpointer(directory / str(step), keep=5).save(step, filled_records(writer))
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
