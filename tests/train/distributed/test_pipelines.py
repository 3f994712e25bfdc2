"""Pipelines of two processes: schedules, models of several kinds, and what can't be cut."""

import json
from typing import Any

import pytest

from burnlike.errors import ConfigError
from burnlike.train import DistributedConfig

from ...processes import assert_succeed, launched
from .pipeline_worker import CASES

NEAR = {"llama": 1e-6}  # transformers' norm sums in float32
REFUSED = {
    "no list": "can be cut before each of its blocks, of which there are too few: none",
    "no module": "distributed.stages.0: the model has no module 'narow'; did you mean 'narrow'",
    "skips": "the loss depends on parameters of an earlier stage",
    "twice": "calls a model once for a batch",
    "too many stages": "is to be cut into 4 stages",
    "float16": "training.precision: expected bfloat16 or float32 with a pipeline",
    "compiled": "training.compile: expected false with a pipeline",
    "fit compiled": "training.compile: expected false with a pipeline",
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("pipelines")
    logs = [folder / f"log-{rank}" for rank in range(2)]
    arguments = ["-m", "tests.train.distributed.pipeline_worker", str(folder), *CASES]
    assert_succeed(launched(arguments, logs), logs)
    return [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("case", [it for it in CASES if it not in REFUSED])
def test_a_pipeline_trains_as_one_process_does(case: str, found: list[dict[str, Any]]) -> None:
    assert max(it[case] for it in found) <= (0.0 if "resumed" in case else NEAR.get(case, 1e-12))


@pytest.mark.slow
@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_cut_is_an_error_on_all_processes(case: str, found: list[dict[str, Any]]) -> None:
    for it in found:
        assert REFUSED[case] in it[case]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"schedule": "1F1"}, "schedule: expected one of GPipe, 1F1B, .* got '1F1'; did you mean '1F1B'"),
        ({"microbatches": 1}, "microbatches: expected at least one for each of the 2 processes, got 1"),
        ({"schedule": "Interleaved1F1B", "microbatches": 7}, "microbatches: expected a multiple of the 2 processes"),
        ({"stages": ["a", "b", "c"]}, "stages: expected the first module of each of the 2 stages"),
        ({"pipeline": 1, "microbatches": 4}, "microbatches: is of a pipeline"),
        (
            {"strategy": "fsdp2", "schedule": "InterleavedZeroBubble", "reshard_after_forward": True},
            "reshard_after_forward: expected false for InterleavedZeroBubble",
        ),
        ({"strategy": "none"}, "pipeline: pipeline does not work together with none"),
    ],
)
def test_a_wrong_pipeline_is_refused_in_the_config(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DistributedConfig.from_dict({"strategy": "ddp", "pipeline": 2, **options})


def test_a_schedule_whose_gradients_ddp_does_not_see_takes_no_copies() -> None:
    config = DistributedConfig(strategy="ddp", pipeline=2, schedule="InterleavedZeroBubble")
    assert config.sizes(2).pipeline == 2
    with pytest.raises(ConfigError, match="DistributedDataParallel does not see the gradients"):
        config.sizes(4)
