"""Two processes, under FSDP2 and DDP, give the weights of one: every rule with every clipping, in float64."""

import json
from pathlib import Path

import pytest
import torch

from burnlike.record import DistributedRecorder, Record

from ...processes import assert_succeed, launched
from .sharded_training import (
    CLIPPINGS,
    LINE_SEARCHES,
    RULES,
    SAVED,
    STEPS,
    WRAPPINGS,
    largest_error,
    train,
    weights_of,
    wrapped,
)
from .tensor_parallel import LACKING, WAYS

pytestmark = pytest.mark.slow

Found = list[dict[str, float | str]]
LARGEST = 1e-12


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Found]:
    """What two processes found."""
    folder = tmp_path_factory.mktemp("sharded")
    (folder / "one").mkdir()
    for rule, config in SAVED.items():
        model, optimizer = wrapped(None), config.init()
        train(model, optimizer, None, STEPS[:2])
        DistributedRecorder().save(Record.from_module(model), folder / "one" / f"{rule} model")
        DistributedRecorder().save(optimizer.to_record(), folder / "one" / f"{rule} optimizer")
    logs = [folder / f"{rank}.log" for rank in range(2)]
    workers = launched(["-m", "tests.optim.step.sharded_worker", str(folder)], logs)
    assert_succeed(workers, logs)
    return folder, [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


Job = tuple[Path, Found]


def assert_near(job: Job, name: str) -> None:
    for found in job[1]:
        error = found[name]
        assert isinstance(error, float), error
        assert error <= LARGEST


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("clipping", CLIPPINGS)
@pytest.mark.parametrize("rule", RULES)
def test_two_processes_give_the_weights_of_one(job: Job, rule: str, clipping: str, wrapping: str) -> None:
    assert_near(job, f"{rule}, {clipping}, {wrapping}")


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("search", LINE_SEARCHES)
def test_lbfgs_gives_the_weights_of_one_process(job: Job, search: str | None, wrapping: str) -> None:
    assert_near(job, f"lbfgs {search}, {wrapping}")


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("rule", ["adamw", "lamb", "groups"])
def test_all_ranks_skip_what_is_not_finite_on_one(job: Job, rule: str, wrapping: str) -> None:
    assert_near(job, f"{rule} skips, {wrapping}")


def test_a_nan_in_the_part_of_one_rank_is_seen_by_all(job: Job) -> None:
    assert [found["nan in a part"] for found in job[1]] == [0.0, 0.0]


@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("rule", ["adamw", "lamb", "groups"])
def test_a_scaled_loss_makes_the_same_steps(job: Job, rule: str, wrapping: str) -> None:
    assert_near(job, f"{rule} scaled, {wrapping}")


@pytest.mark.parametrize("wrapping", WRAPPINGS)
def test_weights_to_evaluate_are_those_of_one_process(job: Job, wrapping: str) -> None:
    assert_near(job, f"weights to evaluate, {wrapping}")


@pytest.mark.parametrize("rule", SAVED)
def test_training_resumes_from_a_record(job: Job, rule: str) -> None:
    """Bit for bit from one of the same processes; and from one of a single process."""
    assert_near(job, f"{rule} resumed")


@pytest.mark.parametrize("rule", SAVED)
def test_one_process_resumes_from_a_record_of_two(job: Job, rule: str) -> None:
    folder, _ = job
    model = wrapped(None)
    DistributedRecorder().load(folder / f"{rule} model").load_into(model)
    record = DistributedRecorder().load(folder / f"{rule} optimizer")
    optimizer = SAVED[rule].init().load_record(record, model)
    train(model, optimizer, None, STEPS[2:])
    expected = torch.load(folder / f"{rule} end.pt", weights_only=True)
    assert largest_error(weights_of(model), expected) <= LARGEST


def test_replicas_round_alike(job: Job) -> None:
    assert [found["replicas"] for found in job[1]] == [0.0, 0.0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", ["sgd", "adamw"])
def test_summands_of_gradients_are_added_up_before_they_are_used(job: Job, rule: str, way: str) -> None:
    assert_near(job, f"sequence parallel, {rule}, {way}")


@pytest.mark.parametrize("name", ["sequence parallel, clipped", "norms of summands"])
def test_norms_are_of_what_summands_add_up_to(job: Job, name: str) -> None:
    assert_near(job, name)


@pytest.mark.parametrize("where", LACKING)
def test_a_gradient_that_one_rank_lacks_is_named_by_all(job: Job, where: str) -> None:
    for rank, found in enumerate(job[1]):
        message = f"'kernel' has a gradient on 1 of 2 ranks (rank {rank} has {'none' if rank else 'one'})"
        assert str(found[f"lacking, {where}"]).startswith(message)


def test_what_can_not_be_divided_is_refused(job: Job) -> None:
    for found in job[1]:
        assert str(found["8 bits"]).startswith("ConfigError: 'kernel' is sharded, and moment_1: blockwise8 can't")
