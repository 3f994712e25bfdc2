"""Ids on the ranks of a job: equal without communication, or made so; different from job to job."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike import _env
from burnlike.module import agree_ids
from burnlike.module.identity.param_id import IdSource

from ...marks import slow, weekly
from ...processes import assert_succeed, launched, started
from ..survival import ids
from .ranks_worker import spawned

Found = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Found]]:
    """What two jobs found on each rank: one as torchrun starts it, one by `torch.multiprocessing.spawn`."""
    folder = tmp_path_factory.mktemp("ranks")
    logs = [folder / f"launched{rank}.log" for rank in range(2)]
    # New ones: a fork draws ids by the key that its server has.
    workers = launched(["-m", "tests.module.tree.ranks_worker", str(folder)], logs, forked=False)
    torch.multiprocessing.spawn(spawned, (folder,), nprocs=2)
    assert_succeed(workers, logs)
    return {
        job: [json.loads((folder / f"{job}{rank}.json").read_text()) for rank in range(2)]
        for job in ("launched", "spawned")
    }


@pytest.mark.weekly
@pytest.mark.parametrize("job", ["launched", "spawned"])
def test_ranks_draw_equal_ids_whatever_one_of_them_does(jobs: dict[str, list[Found]], job: str) -> None:
    first, second = jobs[job]
    assert list(first) == list(second)
    assert len(first) >= 10
    for scenario, found in first.items():
        assert (found == second[scenario]) != scenario.startswith("differs"), scenario


@pytest.mark.weekly
def test_two_jobs_draw_different_ids(jobs: dict[str, list[Found]]) -> None:
    (one, _), (other, _) = jobs["launched"], jobs["spawned"]
    for scenario in other:
        assert not set(one[scenario].values()) & set(other[scenario].values()), scenario


# Processes of their own, whose imports take seconds.
@pytest.mark.parametrize("method", [*slow("spawn"), *weekly("fork", "forkserver")])
def test_ranks_agree_on_a_model_that_is_made_while_main_is_imported(method: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert_succeed([started(["-m", "tests.module.tree.spawned_main", method, str(tmp_path)], log, {})], [log])
    first, second, parent = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("0", "1", "parent"))
    assert first == second
    drawn = [*first["top"].values(), *first["later"].values()]
    assert len(set(drawn)) == 6
    assert (first["top"] == parent["top"]) == (method == "fork"), "only a fork has the model of its parent"


def test_without_ranks_agree_ids_does_nothing() -> None:
    model = nn.Linear(2, 2)
    before = ids(model)
    assert agree_ids(model) is model
    assert ids(model) == before


LAUNCHERS: list[tuple[str, dict[str, str], bool]] = [
    ("no rank", {}, False),
    ("one rank", {"MASTER_ADDR": "a", "MASTER_PORT": "1", "WORLD_SIZE": "1"}, False),
    ("by hand", {"MASTER_ADDR": "a", "MASTER_PORT": "1", "WORLD_SIZE": "2"}, True),
    ("torchrun", {"TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "a", "MASTER_PORT": "1", "WORLD_SIZE": "2"}, True),
    ("srun", {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}, True),
    ("a job's own script", {"SLURM_JOB_ID": "7", "SLURM_NTASKS": "2"}, False),
    ("no number", {"MASTER_ADDR": "a", "WORLD_SIZE": "auto"}, False),
]


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], None]:
    def replace(variables: dict[str, str]) -> None:
        for name in list(os.environ):
            if name.startswith(("MASTER_", "WORLD_", "LOCAL_", "RANK", "TORCHELASTIC", "SLURM")):
                monkeypatch.delenv(name)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return replace


@pytest.mark.parametrize(("variables", "known"), [case[1:] for case in LAUNCHERS], ids=[case[0] for case in LAUNCHERS])
def test_what_launchers_tell_all_ranks_makes_the_ids(
    environment: Callable[[dict[str, str]], None], variables: dict[str, str], known: bool
) -> None:
    environment(variables)
    assert (_env.distributed_job() is not None) == known
    assert (IdSource().draw("x") == IdSource().draw("x")) == known
    if known:
        first = IdSource().draw("x")
        name = "SLURM_STEP_ID" if "SLURM_STEP_ID" in variables else "MASTER_PORT"
        environment({**variables, name: "99"})
        assert IdSource().draw("x") != first, "another job"


def test_a_launcher_counts_before_what_the_program_sets_later(
    environment: Callable[[dict[str, str]], None],
) -> None:
    srun = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2"}
    environment(srun)
    early = IdSource().draw("x")
    environment({**srun, "MASTER_ADDR": "a", "MASTER_PORT": "1", "WORLD_SIZE": "2"})
    assert IdSource().draw("x") == early


def test_ranks_started_by_hand_know_where_their_group_met(
    environment: Callable[[dict[str, str]], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment({})

    def in_a_group(path: Path) -> None:
        store: Any = torch.distributed.PrefixStore("default", torch.distributed.FileStore(str(path), 2))
        monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 2)
        monkeypatch.setattr(torch.distributed.distributed_c10d, "_get_default_store", lambda: store)

    in_a_group(tmp_path / "one")
    first = IdSource().draw("x")
    assert IdSource().draw("x") == first
    in_a_group(tmp_path / "other")
    assert IdSource().draw("x") != first
