"""The number of processes or the machines change while a training goes on: each step has the same items."""

import json
import os
import signal
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.cli.main import main
from burnlike.data import DataLoader, TensorDataset
from burnlike.record import Record
from burnlike.train import Job, TrainingConfig
from burnlike.train.checkpoint.checkpointer import Checkpoint, Checkpointer

from ...cli.test_launch import ends, launch, process_of, wait_for
from ...data.streams.kills import write_config as write_stream_config
from ...processes import HANGS_S, assert_succeed, launched
from ..samples import write_config
from . import elastic_worker
from .machines import Machines, kill, kill_and_replace
from .test_worlds import lines_of

TRAINING = TrainingConfig(batch_size=6, global_batch_size=24)


def loaders(world: int, items: int) -> list[DataLoader[Any, Any]]:
    training = TRAINING.divided(world)
    options = {"accumulation_steps": training.accumulation_steps, "world_size": world, "seed": 3}
    options["joined_batch_size"] = 24 // training.accumulation_steps
    data = TensorDataset(torch.arange(items), fingerprint="numbers")
    return [DataLoader(data, batch_size=6, rank=rank, **options) for rank in range(world)]


def items_of_steps(worlds: list[int], items: int) -> Iterator[list[int]]:
    """What all processes of each step read together; each step has another number of processes."""
    state: dict[str, Any] | None = None
    for world in worlds:
        ranks = loaders(world, items)
        if state is not None:
            for loader in ranks:
                loader.load_state_dict(state)
        epoch, found = ranks[0].epoch, []
        batches = [iter(loader) for loader in ranks]
        for _ in range(TRAINING.divided(world).accumulation_steps):
            for loader, own in zip(ranks, batches, strict=True):
                (batch,) = next(own)
                assert len(batch) <= TRAINING.batch_size
                found += [] if loader.is_padding else batch.tolist()
            if ranks[0].epoch > epoch:  # the last step takes what is left
                break
        yield found
        state = ranks[0].state_dict()


@pytest.mark.parametrize("items", [96, 100])
def test_every_item_is_read_once_by_whatever_number_of_processes(items: int) -> None:
    changing = [world for world, _ in zip(cycle([4, 2, 3, 1, 5, 8]), range(15), strict=False)]
    found = [*items_of_steps(changing, items)]
    alone = [*items_of_steps([1] * 15, items)]
    assert [sorted(it) for it in found] == [sorted(it) for it in alone]
    steps = -(-items // 24)
    for epoch in range(3):
        whole = [it for step in found[epoch * steps : (epoch + 1) * steps] for it in step]
        assert sorted(whole) == [*range(items)]


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Jobs whose world has changed twice, with kills and without."""
    folder = tmp_path_factory.mktemp("changed")
    (folder / "seen").mkdir()
    write_config(folder)
    write_stream_config(folder)
    for phase, world in enumerate(elastic_worker.WORLDS):
        logs = [folder / f"{phase}-{rank}.log" for rank in range(world)]
        worker = ["-m", "tests.train.distributed.elastic_worker", str(folder), str(phase)]
        assert_succeed(launched(worker, logs), logs)
    return folder


@pytest.mark.meshes
@pytest.mark.parametrize(("strategy", "data"), elastic_worker.CASES)
def test_a_killed_job_ends_in_the_bits_of_one_with_the_same_worlds(strategy: str, data: str, changed: Path) -> None:
    """Weights, averages, states, generators and positions; and each step has read its items, once."""
    name, steps = f"{strategy}-{data}", elastic_worker.STEPS
    found, expected = (
        Checkpoint(steps, changed / f"{kind}-{name}" / "checkpoints" / f"step-{steps:08}").records()
        for kind in ("killed", "stopped")
    )
    assert found.keys() == expected.keys() == {"model", "optimizer", "ema", "training"}
    for part, record in expected.items():
        assert found[part].tensors.keys() == record.tensors.keys()
        for tensor, value in record.tensors.items():
            assert torch.equal(found[part].tensors[tensor], value), (part, tensor)
        assert found[part].values == record.values
    alone = Job(elastic_worker.config_of(changed, "none", data))
    batches = iter(alone.train_loader)
    for step in range(1, steps + 1):
        rows = [row for _ in range(4) for row in elastic_worker.rows_of(next(batches))]
        for kind in ("killed", "stopped"):
            files = sorted((changed / "seen").glob(f"{kind}-{name}-{step}-*.json"))
            phase = files[-1].name.split("-")[4]  # the last that took the step: what was lost was taken again
            files = [it for it in files if it.name.split("-")[4] == phase]
            assert sorted(row for it in files for row in json.loads(it.read_text())) == sorted(rows), (kind, step)


EXACT = ["lr_scheduler={type: ConstantLr, lr: 0.01}", "model.dropout=0", "training.validation_steps=null"]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = Path(__file__).parents[3]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(root), str(Path(__file__).parent)]))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "1")  # a process that waits at a gate hears no SIGTERM
    return write_config(tmp_path)


def assert_same_losses(config: Path, run: Path, items: int, *options: str) -> None:
    """Those of one process that was left alone, with so many items of a step."""
    values = [*EXACT, *options, f"training.global_batch_size={items}", "task.sample_length=0"]
    command = ["train", str(config), "--run-dir", "alone", *(word for it in values for word in ("--set", it))]
    assert main(command) == 0
    for found, expected in zip(lines_of(run), lines_of(Path("alone")), strict=True):
        assert (found["step"], found["split"]) == (expected["step"], expected["split"])
        assert found["loss"] == pytest.approx(expected["loss"], rel=1e-4)


@pytest.mark.meshes
def test_machines_come_and_go(config: Path) -> None:
    """One, then two, then one again, which goes on by itself."""
    run = Path("run").absolute()
    job = Machines(config, run, "1:2", *EXACT, more=["--import", "gate"])
    first = job.start()
    assert job.wait_for(lambda: (run / "checkpoints" / "step-00000006").exists(), first), job.text()
    second = job.start()
    assert job.wait_for(lambda: (run / "checkpoints" / "step-00000012").exists(), first), job.text()
    kill(second)
    Path("killed").touch()
    job.end(first)
    log = (run / "logs" / "rank-0.log").read_text()
    worlds = [line.split("rank 0 of ")[1][0] for line in log.splitlines() if line.startswith("--- ")]
    assert worlds == ["1", "2", "1"]
    assert_same_losses(config, run, 16, "training.ema={}")  # 2 processes x 4 x 2


@pytest.mark.meshes
def test_fewer_processes_go_on_where_one_was_killed(config: Path) -> None:
    words = [word for it in (*EXACT, "distributed.strategy=ddp", "task.sample_length=0") for word in ("--set", it)]
    run = Path("run")
    launcher = launch(str(config), "--nproc", "1:2", "--run-dir", "run", *words)
    wait_for(lambda: [*run.glob("checkpoints/step-*")], launcher)
    os.kill(process_of(run, 1), signal.SIGKILL)
    text = ends(launcher, 0)
    assert "rank 0 of 1" in text
    assert_same_losses(config, run, 8)


@pytest.mark.meshes
def test_a_machine_that_is_killed_and_replaced_leaves_the_same_bits(tmp_path: Path) -> None:
    """`make test-kills` does so twenty times."""
    assert kill_and_replace(2, tmp_path) >= 1


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


@pytest.mark.meshes
def test_a_job_says_at_its_start_that_they_share_none(machines: list[Path], tmp_path: Path) -> None:
    logs = [tmp_path / f"{rank}.log" for rank in range(2)]
    workers = launched([*arguments(), "--run-dir", "run"], logs, machines)
    assert [it.wait(HANGS_S) for it in workers] == [2, 2]
    for log in logs:
        said = log.read_text()
        assert "not all processes see what was written to" in said
        assert "or set checkpoint.gather: true, with which rank 0 gets the parts of all and writes them" in said
    assert not list((machines[0] / "run").glob("checkpoints/step-*"))


@pytest.mark.meshes
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
