"""Forecasts of trainings: their numbers are those of formulas, and of steps that are taken."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from burnlike.cli.commands import forecast
from burnlike.errors import ArgumentError, ConfigError
from burnlike.train import TrainConfig
from burnlike.train.job.forecast_batch import ForecastBatch
from burnlike.train.job.forecast_meshes import parse_mesh, usual_meshes
from burnlike.train.job.forecast_step import StepForecast, forecast_step
from burnlike.train.parallel.configs import DistributedConfig
from tools import parallel_costs

from ..cli.commands import run
from ..processes import assert_succeed, launched
from .distributed.measured_step import measured
from .samples import write_config

CLOSE = 0.15
ONE_CPU = ["device=cpu", "threads=1"]
CONFIGS = Path(__file__).parents[2] / "burnlike" / "configs"
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
    "convolutions": ("digits", []),
    "resnet": (
        "digits",
        ["model={type: ResNet, num_classes: 10, channels: 1, depths: [1, 1], widths: [32, 64], stem_channels: 32}"],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_a_forecast_is_close_to_a_step_of_one_process(name: str) -> None:
    file, overrides = CASES[name]
    config = TrainConfig.load(CONFIGS / f"{file}.yaml", [*overrides, "training.batch_size=8", *ONE_CPU])
    found = forecast_of(config, strategy="none")
    resident, peak = measured(config)
    assert sum(found.resident.values()) == resident
    assert found.peak == pytest.approx(peak, rel=CLOSE)


MESHES = [
    {"strategy": "fsdp2"},
    {"strategy": "ddp"},
    {"strategy": "fsdp2", "tensor": 2},
    {"strategy": "ddp", "pipeline": 2},
]


@pytest.mark.slow
@pytest.mark.parametrize("mesh", MESHES)
def test_a_forecast_is_close_to_a_step_of_two_processes(mesh: dict[str, Any], tmp_path: Path) -> None:
    overrides = ["training.batch_size=4", "model.n_layers=2", "device=cpu", f"distributed={json.dumps(mesh)}"]
    config = TrainConfig.load(CONFIGS / "char_gpt.yaml", overrides)
    logs, outs = ([tmp_path / f"{kind}-{rank}" for rank in range(2)] for kind in ("log", "out"))
    program = ["-m", "tests.train.distributed.measured_step", str(CONFIGS / "char_gpt.yaml"), str(tmp_path / "out")]
    assert_succeed(launched([*program, *overrides], logs), logs)
    resident, peak = json.loads(outs[0].read_text())
    found = forecast_of(config, 2, **mesh)
    assert sum(found.resident.values()) == resident
    assert found.peak == pytest.approx(peak, rel=CLOSE)


@pytest.mark.slow
def test_the_table_in_the_docs_is_what_is_forecast() -> None:
    """Two rows of it; the program writes all."""
    config = TrainConfig.load(parallel_costs.CONFIG, parallel_costs.OPTIONS)
    worlds = {64: ["strategy=fsdp2,replicate=8"], 1024: ["strategy=fsdp2,tensor=8"]}
    docs = (CONFIGS.parents[1] / "docs" / "parallelism.md").read_text()
    for line in parallel_costs.table(config, worlds):
        assert line in docs
