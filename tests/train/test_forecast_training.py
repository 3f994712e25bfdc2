"""Forecasts of trainings: their numbers are those of formulas, and of steps that are taken."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from burnlike.cli.commands import forecast
from burnlike.errors import ArgumentError, ConfigError
from burnlike.train import TrainConfig
from burnlike.train.job.forecast import parse_mesh, usual_meshes
from burnlike.train.job.forecast_step import ForecastBatch, StepForecast, forecast_step
from burnlike.train.parallel.configs import DistributedConfig
from tools import parallel_costs

from ..cli.commands import run
from ..marks import slow, weekly
from ..models.by_path.directories import llama
from ..processes import assert_succeed, launched
from .distributed.measured_step import measured
from .samples import write_config

CLOSE = 0.15
ONE_CPU = ["device=cpu", "threads=1"]
CONFIGS = Path(__file__).parents[2] / "burnlike" / "configs"
CHAR_GPT = CONFIGS / "char_gpt.yaml"
PARAMETERS = 256 * 16 + 16 + 2 * 16 + 4 * 16 * 16 + 3 * 16 * 32
"""Of the small config: table, norm at the end; of the block two norms, attention and feed-forward part."""


def forecast_of(config: TrainConfig, world_size: int = 1, **distributed: Any) -> StepForecast:
    config = config.replace(distributed=DistributedConfig(**distributed))
    return forecast_step(config, ForecastBatch(config), world_size)


def exchanged(found: StepForecast) -> dict[tuple[str, str], tuple[int, int]]:
    return {(it.kind, it.among): (it.exchanges, it.bytes) for it in found.communication}


@pytest.fixture
def config(tmp_path: Path) -> TrainConfig:
    return TrainConfig.load(write_config(tmp_path), ["model.d_ff=32"])


@pytest.mark.slow
def test_a_step_of_1024_processes_exchanges_what_the_formula_says(config: TrainConfig) -> None:
    """Of whole parameters in float32; each group of parameters is gathered twice, but for what lies in no block."""
    sizes = {"replicate": 64, "shard": 16}
    found = forecast_of(config, 1024, strategy="fsdp2", **sizes)
    of_block = 4 * (2 * 16 + 4 * 16 * 16 + 3 * 16 * 32)
    whole = 4 * PARAMETERS
    got = exchanged(found)
    assert got["all-gather", "shard"] == (3, whole + of_block)
    assert got["reduce-scatter", "shard"] == (2, whole)
    assert got["all-reduce", "replicate"][1] - whole // 16 < 64  # and a few numbers
    assert found.resident["optimizer states"] == 2 * whole // 16
    assert found.gradients == whole // 16
    assert (found.sizes.replicate, found.sizes.shard) == (64, 16)
    assert not dist.is_initialized()


def test_meshes_are_read_and_wrong_ones_told() -> None:
    assert parse_mesh("strategy=fsdp2,tensor=2,shard=-1") == {"strategy": "fsdp2", "tensor": 2, "shard": -1}
    for text, message in (("tensr=2", "did you mean 'tensor'"), ("tensor=a", "a number"), ("strategy=x", "none, ddp")):
        with pytest.raises(ConfigError, match=message):
            parse_mesh(text)
    assert usual_meshes(DistributedConfig(), 1) == [{"strategy": "none"}]
    own = usual_meshes(DistributedConfig(strategy="fsdp2", replicate=4), 16)
    assert own[0] == {"strategy": "fsdp2", "replicate": 4}


def test_options_of_a_training_need_its_processes(tmp_path: Path) -> None:
    config = write_config(tmp_path)
    for options, message in (
        (["--memory", "1GB"], "--memory .* give --world-size"),
        (["--mesh", "tensor=2"], "--mesh .* give --world-size"),
        (["--world-size", 0], "number of processes, got 0"),
    ):
        with pytest.raises(ArgumentError, match=message):
            run(forecast, config, *options)


@pytest.mark.slow
def test_the_command_says_which_meshes_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = write_config(tmp_path)
    meshes = ["--mesh", "strategy=ddp", "--mesh", "tensor=2", "--mesh", "tensor=4", "--mesh", "shard=3"]
    assert run(forecast, config, "--world-size", 8, "--memory", "300kB", *meshes, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["world_size"] == 8
    rows = {it["mesh"]: it for it in found["meshes"]}
    assert rows["strategy=ddp"]["fits"] is False
    assert rows["tensor=2"]["fits"] is True
    assert rows["tensor=2"]["peak"] == sum(rows["tensor=2"]["at_peak"].values())
    assert "can't share 2 heads" in rows["tensor=4"]["problem"]
    assert "need 3 processes" in rows["shard=3"]["problem"]
    assert run(forecast, config, "--world-size", 8, "--memory", "300kB", *meshes) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[0] == "mesh"
    assert [line.split()[-1] for line in lines[2:4]] == ["no", "yes"]
    assert any("all-gather among 4 (shard)" in line for line in lines)


@pytest.mark.weekly
def test_where_no_mesh_fits_ways_to_take_less_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each is as much as its forecast says, and the last one fits."""
    config = write_config(tmp_path)
    options = ["--world-size", 2, "--mesh", "strategy=ddp", "--mesh", "strategy=fsdp2", "--memory", "140kB"]
    assert run(forecast, config, *options, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert [it["fits"] for it in found["meshes"]] == [False, False]
    assert [it["fits"] for it in found["remedies"]][-1]
    last = found["remedies"][-1]
    assert last["set"][:2] == ["training.activation_checkpointing=full", "training.batch_size=1"]
    again = TrainConfig.load(config, ["distributed.strategy=fsdp2", *last["set"]])
    assert forecast_step(again, ForecastBatch(again), 2).peak == last["peak"]
    assert run(forecast, config, *options[:-1], "1kB") == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("  beside these: more processes")


@pytest.mark.slow
def test_a_batch_is_known_without_the_files_of_the_data(tmp_path: Path) -> None:
    path = write_config(tmp_path)
    config = TrainConfig.load(path)
    there = forecast_of(config, 8, strategy="fsdp2")
    (tmp_path / "corpus.txt").unlink()
    assert forecast_of(config, 8, strategy="fsdp2") == there


@pytest.mark.slow
def test_options_take_what_they_say(config: TrainConfig) -> None:
    plain = forecast_of(config, 8, strategy="fsdp2")
    half = forecast_of(config, 8, strategy="fsdp2", precision={"params": "bfloat16", "reduce": "bfloat16"})
    assert exchanged(half)["all-gather", "shard"][1] * 2 == exchanged(plain)["all-gather", "shard"][1]
    assert exchanged(half)["reduce-scatter", "shard"][1] * 2 == exchanged(plain)["reduce-scatter", "shard"][1]
    kept = forecast_of(config, 8, strategy="fsdp2", reshard_after_forward=False)
    assert exchanged(kept)["all-gather", "shard"] == (2, 4 * PARAMETERS)
    host = forecast_of(config, 8, strategy="fsdp2", offload="cpu")
    assert host.host >= sum(plain.resident.values())
    assert set(host.at_peak) == {"gathered", "activations"}
    average = TrainConfig.load(config_path(config), ["training.ema={decay: 0.9}"])
    assert forecast_of(average, 8, strategy="fsdp2").resident["average"] == plain.gradients
    tensor = forecast_of(config, 8, strategy="fsdp2", tensor=2)
    activations = 4 * 4 * 16 * 16  # [items, positions, d_model] in float32
    # Before attention and feed-forward part the whole sequence is gathered, and again for their weights' gradients.
    gathers, bytes = exchanged(tensor)["all-gather", "tensor"]
    assert bytes == gathers * activations
    ddp = forecast_of(config, 8, strategy="ddp")
    assert exchanged(ddp)["all-reduce", "replicate"][1] - 4 * PARAMETERS < 64


def config_path(config: TrainConfig) -> Path:
    path = Path(config.data.path).parent / "again.yaml"  # pyright: ignore[reportAttributeAccessIssue]
    config.save(path)
    return path


SMALL = "{type: DecoderLm, vocab_size: 256, max_sequence_length: 128, d_model: 64, n_layers: 2, n_heads: 4, d_ff: 128}"
VISION = "num_classes: 10, image_size: 8, patch_size: 2, channels: 1, d_model: 32, n_layers: 2, n_heads: 2, d_ff: 64"
SHORT = {"char_gpt", "lora"}
CASES = {
    "char_gpt": ("char_gpt", []),
    "options": (
        "char_gpt",
        [
            *("training.precision=bfloat16", "training.activation_checkpointing=true"),
            *("training.accumulation_steps=2", "training.ema={decay: 0.9}"),
        ],
    ),
    "experts": ("char_gpt", ["model.feed_forward={type: Experts, n_experts: 4, n_selected: 2}"]),
    "encoder": ("digits", [f"model={{type: VisionTransformer, {VISION}}}"]),
    "lora": ("char_gpt", [f"model={{type: LoRA, rank: 4, of: {SMALL}}}"]),
    "float8": ("char_gpt", [f"model={SMALL}", "training.float8={emulate: true}"]),
    "convolutions": ("digits", []),
    "resnet": (
        "digits",
        [
            "model={type: ResNet, num_classes: 10, channels: 1, depths: [1, 1], widths: [32, 64], stem_channels: 32,"
            " stem: Small}"
        ],
    ),
}


@pytest.mark.parametrize("name", [*slow(*sorted(SHORT)), *weekly(*sorted({*CASES, "transformers", "nf4"} - SHORT))])
def test_a_forecast_is_close_to_a_step_of_one_process(name: str, tmp_path: Path) -> None:
    """Those of transformers are fused, where torch's own ops would take a third more, and build no masks."""
    file, overrides = CASES.get(name, ("char_gpt", []))
    if name in ("transformers", "nf4"):
        sizes = {"hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 128, "vocab_size": 256}
        given = f"{{type: Pretrained, path: {llama(tmp_path / 'llama', **sizes)}, fuse: true}}"
        overrides = [f"model={given if name == 'transformers' else f'{{type: LoRA, of: {given}, quantize: nf4}}'}"]
    config = TrainConfig.load(CONFIGS / f"{file}.yaml", [*overrides, "training.batch_size=8", *ONE_CPU])
    found = forecast_of(config, strategy="none")
    resident, peak = measured(config)
    assert sum(found.resident.values()) == resident
    assert found.peak == pytest.approx(peak, rel=CLOSE)


FSDP2: dict[str, Any] = {"strategy": "fsdp2"}
EXPERTS = "model.feed_forward={type: Experts, n_experts: 4, n_selected: 2}"
MESHES: list[tuple[dict[str, Any], list[str]]] = [
    ({"strategy": "ddp"}, []),
    ({"strategy": "ddp", "pipeline": 2}, []),
    ({**FSDP2, "pipeline": 2, "schedule": "InterleavedZeroBubble", "microbatches": 2}, ["model.n_layers=4"]),
    ({**FSDP2, "tensor": 2}, ["training.activation_checkpointing={save: [mm, sdpa, collectives]}"]),
    ({**FSDP2, "context": 2}, []),
    ({**FSDP2, "replicate": 2}, ["training.accumulation_steps=2"]),
    ({**FSDP2, "expert": 2}, [EXPERTS]),
    ({**FSDP2, "precision": {"params": "bfloat16", "reduce": "float32"}}, ["training.ema={decay: 0.9}"]),
]


@pytest.mark.weekly
def test_forecasts_are_close_to_steps_of_two_processes(tmp_path: Path) -> None:
    """Of the first process; in a forecast all experts get as many rows, so that it is that of both for `expert`."""
    common = ["training.batch_size=4", "model.n_layers=2", "data.context_length=64", *ONE_CPU]
    cases = [[*common, *more, f"distributed={json.dumps(mesh)}"] for mesh, more in MESHES]
    logs = [tmp_path / f"log-{rank}" for rank in range(2)]
    program = ["-m", "tests.train.distributed.measured_step", str(CHAR_GPT), str(tmp_path / "out"), json.dumps(cases)]
    assert_succeed(launched(program, logs), logs)
    first, second = (json.loads((tmp_path / f"out-{rank}").read_text()) for rank in range(2))
    for overrides, (resident, peak), (_, other) in zip(cases, first, second, strict=True):
        peak = (peak + other) / 2 if EXPERTS in overrides else peak
        config = TrainConfig.load(CHAR_GPT, overrides)
        found = forecast_step(config, ForecastBatch(config), 2)
        assert sum(found.resident.values()) == resident, overrides
        assert found.peak == pytest.approx(peak, rel=CLOSE), overrides


@pytest.mark.weekly
def test_the_table_in_the_docs_is_what_is_forecast() -> None:
    """Two rows of it; the program writes all."""
    config = TrainConfig.load(parallel_costs.CONFIG, parallel_costs.OPTIONS)
    worlds = {64: ["strategy=fsdp2,replicate=8"], 1024: ["strategy=fsdp2,tensor=8"]}
    docs = (CONFIGS.parents[1] / "docs" / "parallelism" / "cost.md").read_text()
    for line in parallel_costs.table(config, worlds):
        assert line in docs
