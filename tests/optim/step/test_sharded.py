"""Several processes or devices give the weights of one: every rule with every clipping, in float64."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.record import DistributedRecorder, Record

from ...processes import assert_near, results_of
from .sharded_training import (
    CLIPPINGS,
    DEFAULTS,
    FOUR,
    LARGER,
    LINE_SEARCHES,
    OF_LARGER,
    RULES,
    SAVED,
    STEPS,
    WITH_WHOLES,
    WRAPPINGS,
    largest_error,
    train,
    weights_of,
    wrapped,
)
from .tensor_parallel import LACKING, WAYS

Found = list[dict[str, float | str]]
LARGEST = 1e-12
WORKER = "tests.optim.step.sharded_worker"


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
    return folder, results_of(WORKER, folder)


@pytest.fixture(scope="module")
def larger(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Found]:
    """What four processes found."""
    folder = tmp_path_factory.mktemp("larger")
    return folder, results_of(WORKER, folder, processes=4)


def rules_in(config: Any) -> set[str]:
    groups = getattr(config, "groups", ())
    return {type(config).__name__}.union(*(rules_in(group.optimizer) for group in groups))


def test_every_rule_that_there_is_is_among_them() -> None:
    there = {type(it).__name__ for it in DEFAULTS.values() if not hasattr(it, "groups")} | {"MuonConfig"}
    assert there <= set[str]().union(*map(rules_in, RULES.values()))


Job = tuple[Path, Found]
CHECKS = [
    *(f"lbfgs {search}" for search in LINE_SEARCHES),
    *(f"{rule} {what}" for rule in ("adamw", "lamb", "groups") for what in ("skips", "scaled")),
    "weights to evaluate",
]


@pytest.mark.slow
@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("clipping", CLIPPINGS)
@pytest.mark.parametrize("rule", RULES)
def test_two_processes_give_the_weights_of_one(job: Job, rule: str, clipping: str, wrapping: str) -> None:
    assert_near(job[1], f"{rule}, {clipping}, {wrapping}")


@pytest.mark.weekly
@pytest.mark.parametrize("wrapping", LARGER)
@pytest.mark.parametrize("clipping", OF_LARGER)
@pytest.mark.parametrize("rule", RULES)
def test_four_processes_give_the_weights_of_one(larger: Job, rule: str, clipping: str, wrapping: str) -> None:
    """Also where parts of one parameter are divided twice, along one dimension or two."""
    assert_near(larger[1], f"{rule}, {clipping}, {wrapping}")


@pytest.mark.weekly
@pytest.mark.parametrize("rule", WITH_WHOLES)
def test_parts_without_values_take_part(larger: Job, rule: str) -> None:
    """As of matrices with fewer rows than there are processes."""
    assert_near(larger[1], f"{rule}, global norm, {FOUR}")


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "together"), [("lamb", 1.0), ("muon", 1.0), ("adafactor", 68 / 56)])
def test_states_are_divided(job: Job, rule: str, together: float) -> None:
    """But for the 12 columns of Adafactor in two matrices whose rows are divided."""
    shares = [float(found[f"{rule} states"]) for found in job[1]]
    assert sum(shares) == pytest.approx(together)
    assert max(shares) < 0.7


@pytest.mark.slow
@pytest.mark.parametrize("wrapping", ["fsdp", "tensor"])
def test_whole_matrices_are_shared_out(job: Job, wrapping: str) -> None:
    """Each is computed by one process, half of the large and half of the small ones by each."""
    first, second = [str(found[f"matrices, {wrapping}"]) for found in job[1]]
    assert first == "[(1, 4), (1, 4), (5, 3), (5, 3)]"
    assert second == "[(3, 5), (3, 5), (4, 1), (4, 1)]"


@pytest.mark.slow
@pytest.mark.parametrize("wrapping", WRAPPINGS)
@pytest.mark.parametrize("check", CHECKS)
def test_other_steps_are_those_of_one_process(job: Job, check: str, wrapping: str) -> None:
    """L-BFGS; steps that all ranks skip as one has NaN; of a scaled loss; and with weights to evaluate between them."""
    assert_near(job[1], f"{check}, {wrapping}")


@pytest.mark.weekly
@pytest.mark.parametrize("wrapping", LARGER)
@pytest.mark.parametrize("check", CHECKS)
def test_other_steps_of_four_are_those_of_one_process(larger: Job, check: str, wrapping: str) -> None:
    assert_near(larger[1], f"{check}, {wrapping}")


@pytest.mark.slow
def test_a_nan_in_the_part_of_one_rank_is_seen_by_all(job: Job) -> None:
    assert [found["nan in a part"] for found in job[1]] == [0.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("rule", SAVED)
def test_training_resumes_from_a_record(job: Job, rule: str) -> None:
    """Bit for bit from one of the same processes; and from one of a single process."""
    assert_near(job[1], f"{rule} resumed")


@pytest.mark.slow
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


@pytest.mark.slow
def test_replicas_round_alike(job: Job) -> None:
    assert [found["replicas"] for found in job[1]] == [0.0, 0.0]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("rule", ["sgd", "adamw"])
def test_summands_of_gradients_are_added_up_before_they_are_used(job: Job, rule: str, way: str) -> None:
    assert_near(job[1], f"sequence parallel, {rule}, {way}")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sequence parallel, clipped", "norms of summands"])
def test_norms_are_of_what_summands_add_up_to(job: Job, name: str) -> None:
    assert_near(job[1], name)


@pytest.mark.slow
@pytest.mark.parametrize("where", LACKING)
def test_a_gradient_that_one_rank_lacks_is_named_by_all(job: Job, where: str) -> None:
    for rank, found in enumerate(job[1]):
        message = f"'kernel' has a gradient on 1 of 2 ranks (rank {rank} has {'none' if rank else 'one'})"
        assert str(found[f"lacking, {where}"]).startswith(message)


@pytest.mark.slow
def test_what_can_not_be_divided_is_refused(job: Job) -> None:
    for found in job[1]:
        assert str(found["8 bits"]).startswith("ConfigError: 'kernel' is sharded, and moment_1: blockwise8 can't")


ROOT = Path(__file__).parents[3]
DEVICE_CHECKS = re.findall(
    r"^def (check_\w+)", Path(__file__).with_name("on_second_device.py").read_text(), re.MULTILINE
)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    command = [sys.executable, "-m", "tests.optim.step.on_second_device"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow  # a process of its own, whose imports take seconds
@pytest.mark.parametrize("check", DEVICE_CHECKS, ids=lambda name: name.removeprefix("check_"))
def test_step(outcomes: dict[str, str], check: str) -> None:
    assert not outcomes[check], outcomes[check]
