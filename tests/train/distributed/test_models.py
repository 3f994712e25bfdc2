"""Models in two processes, divided in each way, by sequences, or into pipelines, give the numbers of one in float64."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from burnlike.cli.main import main
from burnlike.errors import ConfigError
from burnlike.train import DistributedConfig

from ...processes import assert_near, results_of
from ..samples import write_config
from . import division_worker, models_worker, pipeline_worker


@pytest.fixture(scope="module")
def divided(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return results_of(models_worker.__name__, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return results_of(division_worker.__name__, tmp_path_factory.mktemp("division"))


@pytest.fixture(scope="module")
def pipelined(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return results_of(pipeline_worker.__name__, tmp_path_factory.mktemp("pipelines"))


@pytest.mark.slow
@pytest.mark.parametrize("name", models_worker.CHECKS)
def test_two_processes_compute_what_one_does(name: str, divided: list[dict[str, Any]]) -> None:
    assert_near(divided, name)


@pytest.mark.weekly
@pytest.mark.parametrize("name", division_worker.CHECKS)
def test_two_processes_that_share_sequences_compute_what_one_does(name: str, shared: list[dict[str, Any]]) -> None:
    assert_near(shared, name, 1e-5 if name in division_worker.IN_FLOAT32 else 1e-12)


REFUSED = {
    "LstmLm .model. needs whole sequences": ["model={type: LstmLm, vocab_size: 256, d_model: 8, d_hidden: 8}"],
    "Classification does not divide sequences; .* LanguageModel": ["task={type: Classification}"],
    "Conv1d .model.layers.1. needs whole sequences": [
        "model={type: Sequential, layers: [{type: Embedding, n_embedding: 256, d_model: 8},"
        " {type: Conv1d, channels_in: 8, channels_out: 8, kernel_size: 3}]}"
    ],
    "model.quantize: weights in int8 can't be divided by fsdp2; take nf4, or take `strategy: ddp`": [
        "model={type: LoRA, quantize: int8, of: {type: DecoderLm, vocab_size: 256, max_sequence_length: 16, d_model: 8,"
        " n_layers: 1, n_heads: 2, d_ff: 8}}"
    ],
}
REFUSED_EXPERTS = {
    "DecoderLm has no experts; leave out `expert`": [],
    "model.feed_forward.n_experts: expected a multiple of 2": ["model.feed_forward={type: Experts, n_experts: 3}"],
}


def check(folder: Path, size: str, options: Sequence[str]) -> int:
    every = ("distributed.strategy=fsdp2", f"distributed.{size}=2", *options)
    return main(["check", str(write_config(folder)), *(word for it in every for word in ("--set", it))])


@pytest.mark.parametrize("message", [*REFUSED, *REFUSED_EXPERTS])
def test_check_refuses_what_cannot_be_divided(message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    size = "context" if message in REFUSED else "expert"
    assert check(tmp_path, size, {**REFUSED, **REFUSED_EXPERTS}[message]) == 2
    said = " ".join("".join(capsys.readouterr()).split())
    assert re.search(message, said), said


NEAR = {"llama": 1e-6}  # transformers' norm sums in float32
UNCUT = {
    "no list": "can be cut before each of its blocks, of which there are too few: none",
    "no module": "distributed.stages.0: the model has no module 'narow'; did you mean 'narrow'",
    "skips": "the loss depends on parameters of an earlier stage",
    "twice": "calls a model once for a batch",
    "too many stages": "is to be cut into 4 stages",
    "float16": "training.precision: expected bfloat16 or float32 with a pipeline",
    "compiled": "training.compile: expected false with a pipeline",
    "fit compiled": "training.compile: expected false with a pipeline",
}


@pytest.mark.weekly
@pytest.mark.parametrize("case", [it for it in pipeline_worker.CASES if it not in UNCUT])
def test_a_pipeline_trains_as_one_process_does(case: str, pipelined: list[dict[str, Any]]) -> None:
    assert max(it[case] for it in pipelined) <= (0.0 if "resumed" in case else NEAR.get(case, 1e-12))


@pytest.mark.weekly
@pytest.mark.parametrize("case", UNCUT)
def test_what_can_not_be_cut_is_an_error_on_all_processes(case: str, pipelined: list[dict[str, Any]]) -> None:
    for it in pipelined:
        assert UNCUT[case] in it[case]


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
