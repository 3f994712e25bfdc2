"""Sequences and experts that several processes share: which models, with which data, and what is refused."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from burnlike.cli.main import main

from ...processes import assert_succeed, launched
from ..samples import write_config
from .division_worker import CHECKS, IN_FLOAT32


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, float | str]]:
    folder = tmp_path_factory.mktemp("division")
    logs = [folder / f"{rank}.log" for rank in range(2)]
    assert_succeed(launched(["-m", "tests.train.distributed.division_worker", str(folder), *CHECKS], logs), logs)
    return [json.loads((folder / f"found{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize("name", CHECKS)
def test_two_processes_that_share_sequences_compute_what_one_does(
    name: str, found: list[dict[str, float | str]]
) -> None:
    for each in found:
        error = each[name]
        assert isinstance(error, float), error
        assert error <= (1e-5 if name in IN_FLOAT32 else 1e-12)


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
