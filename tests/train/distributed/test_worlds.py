"""A run goes on with other processes, as long as an optimizer step takes as many items."""

import json
import os
import platform
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from burnlike.cli.main import main
from burnlike.errors import CheckpointError
from burnlike.train import TrainConfig, load_run
from burnlike.train.job.loaded_run import evaluate_run
from burnlike.train.job.run_config import check_resumable

from ...processes import HANGS_S, assert_succeed, launched
from ..samples import write_config

STEPS_PER_EPOCH = 3


class World(NamedTuple):
    """Processes, each with batches of so many items, and so many batches of a step."""

    strategy: str
    processes: int
    batch_size: int
    accumulation: int = 1

    def options(self) -> list[str]:
        values = {
            "distributed.strategy": self.strategy,
            "training.batch_size": self.batch_size,
            "training.accumulation_steps": self.accumulation,
        }
        return [f"{key}={value}" for key, value in values.items()]


CHAIN = [
    World("none", 1, 8),
    World("ddp", 2, 4),
    World("fsdp2", 2, 4),
    World("none", 1, 4, 2),
    World("fsdp2", 4, 1, 2),
    World("ddp", 2, 2, 2),
    World("ddp", 4, 2),
    World("none", 1, 1, 8),
]
"""Each change between one process, ddp and fsdp2, both ways, and between two processes and four."""

EXACT = ["lr_scheduler={type: ConstantLr, lr: 0.01}", "model.dropout=0", "task.sample_length=0"]
"""A schedule that the number of epochs does not change, and nothing drawn."""


def arguments(config: Path, run: Path, world: World, epochs: int, *more: str) -> list[str]:
    place = ["--resume", str(run)] if run.exists() else ["--run-dir", str(run)]
    values = [*EXACT, f"training.steps_per_epoch={STEPS_PER_EPOCH}", f"training.epochs={epochs}", *world.options()]
    return ["train", str(config), *place, *(word for it in (*values, *more) for word in ("--set", it))]


def lines_of(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


@pytest.mark.weekly
def test_a_run_goes_on_in_every_other_world(tmp_path: Path) -> None:
    """It ends with the losses of one process that was never stopped."""
    config, run = write_config(tmp_path), tmp_path / "run"
    assert main(arguments(config, tmp_path / "whole", CHAIN[0], len(CHAIN))) == 0
    for epochs, world in enumerate(CHAIN, 1):
        command = arguments(config, run, world, epochs)
        if world.processes == 1:
            assert main(command) == 0
        else:
            logs = [tmp_path / f"log-{rank}" for rank in range(world.processes)]
            assert_succeed(launched(["-m", "burnlike", *command], logs), logs)
            assert "resuming from" in logs[0].read_text()
    for found, expected in zip(lines_of(run), lines_of(tmp_path / "whole"), strict=True):
        assert found["step"] == expected["step"]
        if found["split"] == "train":  # of a validation, validation_steps batches are taken, whatever their size
            assert found["loss"] == pytest.approx(expected["loss"], rel=1e-5)
    results = [json.loads((it / "results.json").read_text()) for it in (run, tmp_path / "whole")]
    assert results[0]["values"]["valid"]["loss"] == pytest.approx(results[1]["values"]["valid"]["loss"], rel=1e-5)


@pytest.mark.slow
def test_more_processes_with_the_same_batches_are_refused_with_the_numbers(tmp_path: Path) -> None:
    config, run = write_config(tmp_path), tmp_path / "run"
    assert main(arguments(config, run, World("none", 1, 8), 1)) == 0
    logs = [tmp_path / f"log-{rank}" for rank in range(2)]
    for worker in launched(["-m", "burnlike", *arguments(config, run, World("ddp", 2, 8), 2)], logs):
        assert worker.wait(timeout=HANGS_S) == 2
    message = "can't go on from step-00000003: the saved loader position is one of other batches: a step took 8 items,"
    for log in logs:
        text = log.read_text()
        assert message in text, text
        assert "and would take 16 now: batch_size 8 x processes 2 x accumulation_steps 1" in text
        assert "Traceback" not in text


def run_on_nodes(command: list[str], folder: Path) -> tuple[list[int], list[str]]:
    """The statuses and outputs of two processes in folders of their own, as nodes without common files."""
    logs = [folder / f"log-{rank}" for rank in range(2)]
    workers = launched(["-m", "burnlike", *command], logs, [folder / "node-0", folder / "node-1"])
    return [worker.wait(timeout=HANGS_S) for worker in workers], [log.read_text() for log in logs]


@pytest.mark.weekly
def test_nodes_without_common_files_are_told_what_fsdp2_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And ddp, whose rank 0 alone writes, trains there, and goes on where each node has a copy of the run."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[3])]))
    nodes = [tmp_path / "node-0", tmp_path / "node-1"]
    for node in nodes:
        node.mkdir()
    config = write_config(tmp_path)
    command = arguments(config, Path("run"), World("fsdp2", 2, 4), 1)
    statuses, texts = run_on_nodes(command, tmp_path)
    assert statuses == [2, 2]
    for text in texts:
        assert "each process writes its part of a checkpoint: not all processes see" in text
        assert f"rank 1 looked at {platform.node()}:{nodes[1] / 'run' / 'checkpoints'}; all nodes need one" in text
    assert not [it for it in nodes[0].rglob("*") if it.is_file() and it.name != "run.lock"]
    assert not [*nodes[1].iterdir()]
    shutil.rmtree(nodes[0] / "run")

    statuses, texts = run_on_nodes(arguments(config, Path("run"), World("ddp", 2, 4), 1), tmp_path)
    assert statuses == [0, 0], texts
    assert not [*nodes[1].iterdir()]
    again = arguments(config, Path("run"), World("ddp", 2, 4), 2)
    again[again.index("--run-dir")] = "--resume"
    statuses, texts = run_on_nodes(again, tmp_path)
    assert statuses == [2, 2]
    for text in texts:
        assert "each process reads the checkpoint to go on from: not all processes see" in text
        assert "rank 1 misses model.safetensors, optimizer.safetensors, training.safetensors" in text
    shutil.copytree(nodes[0] / "run", nodes[1] / "run")
    statuses, texts = run_on_nodes(again, tmp_path)
    assert statuses == [0, 0], texts
    assert "resuming from run/checkpoints/step-00000003" in texts[0]


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_the_best_weights_are_measured_and_written_by_all(
    strategy: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With ddp also where rank 1 can't read the checkpoint that has them."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(Path(__file__).parents[3])]))
    for node in ("node-0", "node-1"):
        (tmp_path / node).mkdir()
    if strategy == "fsdp2":
        (tmp_path / "node-1").rmdir()
        (tmp_path / "node-1").symlink_to(tmp_path / "node-0")
    config = write_config(tmp_path)
    rising = "lr_scheduler={type: LinearLr, initial_lr: 0.01, final_lr: 1.0, num_iters: 12}"
    best = ["training.keep_best={}", "training.ema={decay: 0.5, warmup: false}", "output.precision=float32"]
    command = arguments(config, Path("run"), World(strategy, 2, 4), 4, "training.validation_steps=null", *best)
    command = [rising if it.startswith("lr_scheduler=") else it for it in command]
    statuses, texts = run_on_nodes(command, tmp_path)
    assert statuses == [0, 0], texts
    run = tmp_path / "node-0" / "run"
    losses = {line["step"]: line["loss"] for line in lines_of(run) if line["split"] == "valid"}
    step = min(losses, key=losses.__getitem__)
    assert step < max(losses), losses
    result = json.loads((run / "results.json").read_text())
    assert (result["step"], result["weights"]) == (step, "best")
    assert result["values"]["valid"]["loss"] == pytest.approx(losses[step], rel=1e-12)
    loaded = load_run(run)
    assert evaluate_run(loaded, "valid", notes={}).values["loss"] == pytest.approx(losses[step], rel=1e-6)


def changed(config: Path, *overrides: str) -> tuple[TrainConfig, TrainConfig]:
    common = ["training.batch_size=4", "training.accumulation_steps=2"]
    return TrainConfig.load(config, common), TrainConfig.load(config, [*common, *overrides])


def test_one_process_may_divide_its_steps_otherwise(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path)
    for place, worlds in (("whole", [World("none", 1, 8)]), ("run", [World("none", 1, 2, 4), World("none", 1, 8)])):
        for epochs in range(3 - len(worlds), 3):
            assert main(arguments(config, tmp_path / place, worlds[epochs - 3 + len(worlds)], epochs)) == 0
    assert "changed since the run began: training.batch_size: 2 -> 8" in capsys.readouterr().out
    ends = [[it["loss"] for it in lines_of(tmp_path / place) if it["split"] == "train"] for place in ("run", "whole")]
    assert ends[0] == pytest.approx(ends[1], rel=1e-5)
    before, now = changed(config, "training.batch_size=8", "training.accumulation_steps=1")
    assert check_resumable(before, now, "run") == [
        "training.batch_size: 4 -> 8",
        "training.accumulation_steps: 2 -> 1",
    ]


@pytest.mark.parametrize("strategy", ["ddp", "fsdp2"])
def test_the_number_of_items_is_left_to_the_loader_where_there_are_several_processes(
    strategy: str, tmp_path: Path
) -> None:
    before, now = changed(write_config(tmp_path), f"distributed.strategy={strategy}", "training.batch_size=2")
    for one, other in ((before, now), (now, before)):
        assert len(check_resumable(one, other, "run")) == 2
    with pytest.raises(CheckpointError, match=r"another config: training\.batch_size: 4 -> 2\."):
        check_resumable(*changed(tmp_path / "small.yaml", "training.batch_size=2"), "run")


MOVED = {
    "init_from": ("a.safetensors", "b.safetensors"),
    "data.path": ("a", "b"),
    "data.validation_path": ("a", "b"),
    "data.tokenizer": ("a.json", "b.json"),
}


@pytest.mark.parametrize("field", MOVED)
def test_every_field_that_names_a_file_may_be_moved_and_not_be_added(field: str, tmp_path: Path) -> None:
    config = write_config(tmp_path)
    before, now = (TrainConfig.load(config, ["data.path=text", f"{field}={it}"]) for it in MOVED[field])
    assert check_resumable(before, now, "run") == [f"{field}: {MOVED[field][0]} -> {MOVED[field][1]}"]
    if field != "data.path":
        without = TrainConfig.load(config, ["data.path=text"])
        with pytest.raises(CheckpointError, match=f"another config: {field}: null -> "):
            check_resumable(without, now, "run")
