"""Jobs on any mesh begin with the same bits, and go on from the checkpoints of any other."""

import io
import json
from itertools import product
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from burnlike.module import params
from burnlike.record import Record
from burnlike.train import Job, PlainRenderer
from burnlike.train.checkpoint.checkpointer import Checkpoint
from burnlike.train.runs.run_dir import RunDir

from ...processes import assert_succeed, launched
from .checkpoints_worker import STEPS, config_of

pytestmark = pytest.mark.meshes
NAMES = ["fsdp2", "fsdp2 x tensor", "pipeline"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one process and then four processes on several meshes did."""
    folder = tmp_path_factory.mktemp("checkpoints")
    one = Job(config_of({"strategy": "none"}, 1))
    run = RunDir.create(folder / "none")
    one.run(run, PlainRenderer(io.StringIO()))
    run.close()
    logs = [folder / f"{rank}.log" for rank in range(4)]
    worker = ["-m", "tests.train.distributed.checkpoints_worker", str(folder)]
    assert_succeed(launched([*worker, *NAMES], logs), logs)
    assert_succeed(launched([*worker, "memory"], logs), logs)
    return folder


def at(path: Path) -> dict[str, Record]:
    found = Checkpoint(STEPS, path / f"step-{STEPS:08}").records()
    return {name: found[name] for name in ("model", "optimizer", "ema")}


def assert_same(found: dict[str, Record], expected: dict[str, Record]) -> None:
    for name, record in expected.items():
        assert found[name].tensors.keys() == record.tensors.keys()
        for tensor, value in record.tensors.items():
            assert torch.equal(found[name].tensors[tensor], value), (name, tensor)
        assert found[name].ids == record.ids


@pytest.mark.parametrize("mesh", NAMES)
def test_a_job_begins_with_the_values_of_one_process(mesh: str, folder: Path) -> None:
    expected = {it.path: it.tensor.detach() for it in params(Job(config_of({"strategy": "none"}, 1)).model)}
    seen = set()
    for rank in range(4):
        for name, value in load_file(folder / f"first {mesh} {rank}.safetensors").items():
            assert torch.equal(value, expected[name]), name
            seen.add(name)
        assert json.loads((folder / f"found {rank}.json").read_text())[mesh]["said"] == []
    assert seen == expected.keys()


@pytest.mark.parametrize(("before", "after"), [*product(["none", *NAMES], NAMES)])
def test_a_checkpoint_of_one_mesh_is_that_of_another(before: str, after: str, folder: Path) -> None:
    assert_same(at(folder / "again" / f"{before} to {after}"), at(folder / before / "checkpoints"))


@pytest.mark.parametrize("mesh", NAMES)
def test_one_process_goes_on_from_a_mesh(mesh: str, folder: Path, tmp_path: Path) -> None:
    job = Job(config_of({"strategy": "none"}, 1))
    checkpoint = Checkpoint(STEPS, folder / mesh / "checkpoints" / f"step-{STEPS:08}")
    job.learner.load_checkpoint(checkpoint, job.train_loader)
    saving = job.parallel.checkpointer(tmp_path, 2)
    saving.save(STEPS, job.learner.state(job.train_loader).to_records())
    assert_same(at(tmp_path), at(folder / mesh / "checkpoints"))


def test_no_process_has_the_whole_model_while_it_is_built(folder: Path) -> None:
    """It has its part of the weights and of their average, a whole parameter, and what small tensors there are."""
    for rank in range(4):
        found = json.loads((folder / f"memory {rank}.json").read_text())
        assert found["said"] == []
        assert found["most"] < 2 * found["all"] / 4 + found["largest"] + 0.02 * found["all"]
