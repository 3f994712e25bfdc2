"""Several processes give the numbers of one with the joined batches, and jobs go on from checkpoints of any mesh."""

import io
import json
import re
from collections.abc import Mapping
from functools import cache
from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from burnlike.cli.main import main
from burnlike.module import params
from burnlike.record import Record
from burnlike.train import Job, PlainRenderer
from burnlike.train.checkpoint.checkpointer import Checkpoint
from burnlike.train.parallel.configs import WORKS_TOGETHER
from burnlike.train.runs.run_dir import RunDir

from ...processes import assert_succeed, launched, wait_for
from ..samples import write_config
from .cases import CASES, COLUMNS, ROWS, Found, run_one
from .checkpoints_worker import STEPS, config_of


def _mark(case: str) -> pytest.MarkDecorator:
    """`make test-slow` runs some trainings on each mesh of two processes, `make test-meshes` all."""
    _, column = CASES[case]
    is_short = column.processes == 2 and case.partition(", ")[2] in SHORT
    return pytest.mark.slow if is_short else pytest.mark.meshes


SHORT = (
    "plain",
    "uneven",
    "smoothed",
    "lora",
    "new tokens",
    "bf16",
    "whole tensors",
    "batch norm",
    "experts",
    "experts, resumed",
)
EVERY = [pytest.param(name, marks=_mark(name)) for name in CASES]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cases")


@pytest.fixture(scope="module")
def found(request: pytest.FixtureRequest, folder: Path) -> Mapping[str, str | Found]:
    """What several processes found for each case that is about to be tested, or what they said when they failed."""
    items: list[Any] = request.session.items
    names = [it.callspec.params["case"] for it in items if "case" in getattr(it, "fixturenames", ())]
    chosen = [it for it in names if isinstance(it, str) and it in CASES]  # and not of other tests
    results: dict[str, str | Found] = {}
    for processes in sorted({column.processes for _, column in CASES.values()}):
        pending = [name for name in chosen if CASES[name][1].processes == processes]
        while pending:
            logs = [folder / f"log-{rank}" for rank in range(processes)]
            arguments = ["-X", "faulthandler", "-m", "tests.train.distributed.cases", str(folder), *pending]
            wait_for(launched(arguments, logs))
            failed = next((name for name in pending if not (folder / f"{name}.pt").exists()), None)
            if failed is not None:
                results[failed] = "\n".join(log.read_text()[-4000:] for log in logs)
            done = pending if failed is None else pending[: pending.index(failed)]
            results |= {name: torch.load(folder / f"{name}.pt") for name in done}
            pending = pending[len(done) + (failed is not None) :]
    return results


@cache
def expected(row: str, folder: Path) -> Found:
    return run_one(row, folder)


def assert_near(found: Any, expected: Any, tolerance: float, what: str) -> None:
    found, expected = torch.as_tensor(found, dtype=torch.float64), torch.as_tensor(expected, dtype=torch.float64)
    assert found.shape == expected.shape, what
    largest = float(expected.nan_to_num().abs().max()) if expected.numel() else 0.0
    options: Any = {"rtol": 0, "atol": tolerance * max(largest, 1.0), "equal_nan": what.startswith("loss")}
    torch.testing.assert_close(found, expected, msg=lambda it: f"{what}: {it}", **options)


@pytest.mark.parametrize("case", EVERY)
def test_several_processes_train_as_one_does(case: str, found: Mapping[str, Any], folder: Path) -> None:
    (row, column), name, several = CASES[case], case.partition(", ")[2], found[case]
    assert not isinstance(several, str), several
    if name in column.without:
        assert column.without[name] in several["error"]
        return
    one, tolerance = expected(name, folder), row.tolerance
    assert several["tensors"].keys() == one["tensors"].keys()
    for name, it in one["tensors"].items():
        assert_near(several["tensors"][name], it, tolerance, name)
    assert len(several["lines"]) == len(one["lines"])
    for line, other in zip(several["lines"], one["lines"], strict=True):
        assert line.keys() == other.keys()
        for name, it in other.items():
            if isinstance(it, float):
                # Of 128 predictions one or two are so close that another rounding turns them.
                share = 2 / 128 if name == "Accuracy" and tolerance > 1e-3 else 0.0
                assert_near(line[name], it, tolerance + share * 100 / max(1.0, it), f"{name} of {other}")
            else:
                assert line[name] == it


def test_every_pair_that_works_together_is_trained() -> None:
    trained = {frozenset(pair) for column in COLUMNS.values() for pair in combinations(column.config.kinds, 2)}
    assert trained == WORKS_TOGETHER


KINDS = ("none", "ddp", "fsdp2", "replicate", "context", "tensor", "pipeline", "expert")
STRATEGIES = KINDS[:3]


def options_of(pair: tuple[str, str]) -> list[str]:
    strategy = next((it for it in pair if it in STRATEGIES), "fsdp2")
    sizes = [f"distributed.{it}=2" for it in pair if it not in STRATEGIES]
    return [it for value in (f"distributed.strategy={strategy}", *sizes) for it in ("--set", value)]


def test_every_other_pair_is_refused_by_check(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path)
    for pair in combinations(KINDS, 2):
        if frozenset(pair) in WORKS_TOGETHER or pair == ("ddp", "replicate") or {*pair} <= {*STRATEGIES}:
            continue
        assert main(["check", str(config), *options_of(pair)]) == 2, pair
        said = "".join(capsys.readouterr())
        assert re.search(r"distributed\.\w+: \w+ does not work together with \w+: ", said), said


def test_every_row_that_a_mesh_does_not_take_is_a_row() -> None:
    for column in COLUMNS.values():
        assert column.without.keys() <= ROWS.keys()


NAMES = ["fsdp2", "fsdp2 x tensor", "pipeline"]


@pytest.fixture(scope="module")
def folder_of_jobs(tmp_path_factory: pytest.TempPathFactory) -> Path:
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


@pytest.mark.meshes
@pytest.mark.parametrize("mesh", NAMES)
def test_a_job_begins_with_the_values_of_one_process(mesh: str, folder_of_jobs: Path) -> None:
    expected = {it.path: it.tensor.detach() for it in params(Job(config_of({"strategy": "none"}, 1)).model)}
    seen = set()
    for rank in range(4):
        for name, value in load_file(folder_of_jobs / f"first {mesh} {rank}.safetensors").items():
            assert torch.equal(value, expected[name]), name
            seen.add(name)
        assert json.loads((folder_of_jobs / f"found {rank}.json").read_text())[mesh]["said"] == []
    assert seen == expected.keys()


@pytest.mark.meshes
@pytest.mark.parametrize(("before", "after"), [*product(["none", *NAMES], NAMES)])
def test_a_checkpoint_of_one_mesh_is_that_of_another(before: str, after: str, folder_of_jobs: Path) -> None:
    assert_same(at(folder_of_jobs / "again" / f"{before} to {after}"), at(folder_of_jobs / before / "checkpoints"))


@pytest.mark.meshes
@pytest.mark.parametrize("mesh", NAMES)
def test_one_process_goes_on_from_a_mesh(mesh: str, folder_of_jobs: Path, tmp_path: Path) -> None:
    job = Job(config_of({"strategy": "none"}, 1))
    checkpoint = Checkpoint(STEPS, folder_of_jobs / mesh / "checkpoints" / f"step-{STEPS:08}")
    job.learner.load_checkpoint(checkpoint, job.train_loader)
    saving = job.parallel.checkpointer(tmp_path, 2)
    saving.save(STEPS, job.learner.state(job.train_loader).to_records())
    assert_same(at(tmp_path), at(folder_of_jobs / mesh / "checkpoints"))


@pytest.mark.meshes
def test_no_process_has_the_whole_model_while_it_is_built(folder_of_jobs: Path) -> None:
    """It has its part of the weights and of their average, a whole parameter, and what small tensors there are."""
    for rank in range(4):
        found = json.loads((folder_of_jobs / f"memory {rank}.json").read_text())
        assert found["said"] == []
        assert found["most"] < 2 * found["all"] / 4 + found["largest"] + 0.02 * found["all"]
