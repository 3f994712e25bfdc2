"""`forecast`, `train --find`, `profile` and `verify-resume`: their figures, and what they leave unwritten."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.cli.commands import forecast
from burnlike.cli.main import main
from burnlike.errors import ConfigError, RecordError, RecordIOError
from burnlike.nn import DecoderLmConfig
from burnlike.optim import AdamWConfig, GradientsParams
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder
from burnlike.record.recorder import recorder_for
from burnlike.train import TrainConfig
from burnlike.train.job.finding import find_batch_size, find_rate
from burnlike.train.job.profiling import profile_steps
from burnlike.train.job.verify import Leg, legs_of, shortened

from ..train.samples import load_config, write_config
from .commands import run

MODEL = """
type: DecoderLm
vocab_size: 16
max_sequence_length: 8
d_model: 8
n_layers: 1
n_heads: 2
d_ff: 16
"""
SAMPLE = Path(__file__).parents[1] / "record" / "data" / "sample.safetensors"


@pytest.fixture
def figures(capsys: pytest.CaptureFixture[str]):
    """What `--json` prints."""

    def figures(*arguments: object) -> dict[str, Any]:
        assert run(forecast, *arguments, "--json") == 0
        return json.loads(capsys.readouterr().out)

    return figures


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "model.yaml").write_text(MODEL)
    return tmp_path / "model.yaml"


@pytest.fixture
def model() -> nn.Module:
    return DecoderLmConfig(vocab_size=16, max_sequence_length=8, d_model=8, n_layers=1, n_heads=2, d_ff=16).init()


def numbers(count: int) -> Record:
    return Record(
        {"layers.0.weight": torch.rand(count, 3), "empty": torch.zeros(0), "steps": torch.tensor(2**50)},
        {"rate": 0.5, "list": ["a", None]},
    )


@pytest.mark.parametrize("extension", [".safetensors", ".mpk", ".bpk"])
@pytest.mark.parametrize("precision", ["", "bf16", "f64"])
def test_size_of_a_files_conversion_is_exact(tmp_path: Path, figures, extension: str, precision: str) -> None:
    path = SafetensorsRecorder().save(numbers(100), tmp_path / "a")
    options = ["--precision", precision] if precision else []
    found = figures(path, "--format", extension, *options)
    from burnlike.cli.commands import convert

    run(convert, path, tmp_path / f"b{extension}", *options)
    assert found["file_bytes"] == (tmp_path / f"b{extension}").stat().st_size
    assert found["file_bytes_exact"] is True


def test_size_of_a_file_as_it_is(figures) -> None:
    found = figures(SAMPLE)
    assert (found["format"], found["tensors"], found["tensor_bytes"]) == ("safetensors", 4, 43)


@pytest.mark.parametrize("extension", [".mpk.gz", ".json", ".json.gz"])
@pytest.mark.parametrize("count", [0, 1, 2000, 100_000])
def test_text_and_compressed_data_stay_below_what_is_told(tmp_path: Path, figures, extension: str, count: int) -> None:
    if extension.startswith(".json") and count > 2000:
        count = 5000
    record = numbers(count)
    path = SafetensorsRecorder().save(record, tmp_path / "a")
    found = figures(path, "--format", extension[1:])
    assert found["file_bytes_exact"] is False
    written = len(recorder_for(extension).to_bytes(record))
    assert written <= found["file_bytes"] < 4 * written + 1000


@pytest.mark.parametrize("longest", [0, 255])
def test_the_longest_text_is_what_is_told(tmp_path: Path, figures, longest: int) -> None:
    record = Record({"x": torch.full((100,), longest, dtype=torch.uint8)})
    path = SafetensorsRecorder().save(record, tmp_path / "a")
    written = len(recorder_for("x.json").to_bytes(record))
    told = figures(path, "--format", "json")["file_bytes"]
    assert told == written if longest == 255 else told > written


@pytest.mark.parametrize("extension", [".safetensors", ".mpk", ".bpk", ".bin"])
@pytest.mark.parametrize(("precision", "options"), [(None, ()), (BFloat16Precision, ("--precision", "bf16"))])
def test_size_of_a_configs_file_is_exact(
    tmp_path: Path, figures, config: Path, model, extension: str, precision, options
) -> None:
    path = recorder_for(extension, precision).save(Record.from_module(model), tmp_path / f"x{extension}")
    assert figures(config, "--format", extension, *options)["file_bytes"] == Path(path).stat().st_size


def test_memory_of_training_is_what_the_tensors_take(tmp_path: Path, figures, config: Path, model) -> None:
    parameters = sum(parameter.nbytes for parameter in model.parameters())
    found = figures(config, "--optimizer")
    assert found["tensor_bytes"] == parameters
    # torch rounds each tensor up to 512 bytes.
    rounded = sum(-(-parameter.nbytes // 512) * 512 for parameter in model.parameters())
    gpu = found["gpu_bytes"]
    assert (gpu["tensors"], gpu["gradients"], gpu["optimizer"]) == (rounded, rounded, 2 * rounded)
    assert gpu["total"] == sum(gpu[name] for name in ("tensors", "save", "buffers", "gradients", "optimizer"))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimizer = AdamWConfig().init()
    optimizer.step(1e-3, model, GradientsParams.from_module(model))
    path = SafetensorsRecorder().save(optimizer.to_record(), tmp_path / "optimizer")
    assert found["optimizer_file_bytes"] == Path(path).stat().st_size


def test_a_files_optimizer_is_adamw(tmp_path: Path, figures, model) -> None:
    path = SafetensorsRecorder().save(Record.from_module(model), tmp_path / "a")
    (tmp_path / "model.yaml").write_text(MODEL)
    by_file, by_config = (figures(it, "--optimizer") for it in (path, tmp_path / "model.yaml"))
    assert by_file["optimizer_file_bytes"] == by_config["optimizer_file_bytes"]
    assert by_file["gpu_bytes"]["optimizer"] == by_config["gpu_bytes"]["optimizer"]


def test_a_config_of_a_run_names_the_optimizer(figures) -> None:
    path = Path(__file__).parents[2] / "burnlike" / "configs" / "char_gpt.yaml"
    found = figures(path, "--optimizer")
    assert found["gpu_bytes"]["optimizer"] == 2 * found["gpu_bytes"]["tensors"]


def test_async_saves_take_a_copy_in_the_precision(figures) -> None:
    plain, half = figures(SAMPLE), figures(SAMPLE, "--precision", "bf16")
    copies = [found["host_bytes"]["save_async"] - found["host_bytes"]["save"] for found in (plain, half)]
    assert copies == [43, 27]  # 32 of the bytes are float32


def test_sets_and_files_of_torch_save_are_forecast_as_one_file(tmp_path: Path, figures) -> None:
    record = numbers(100)
    single = SafetensorsRecorder().save(record, tmp_path / "single")
    SafetensorsRecorder(shard_bytes=500).save(record, tmp_path)
    assert figures(tmp_path)["file_bytes"] == Path(single).stat().st_size
    torch.save({"x": torch.ones(2)}, tmp_path / "x.pt")
    assert figures(tmp_path / "x.pt")["format"] == "safetensors"


def test_text_says_what_is_on_disk_and_in_memory(capsys: pytest.CaptureFixture[str]) -> None:
    run(forecast, SAMPLE)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{SAMPLE}:"
    names = [line[2:].split("  ")[0] for line in lines[1:]]
    assert names == [
        *("tensors", "disk", "host, save", "host, save from GPU", "host, save_async", "host, load"),
        *("GPU, tensors", "GPU, save", "GPU, total"),
    ]
    run(forecast, SAMPLE, "--format", "json.gz")
    assert "  at most " in capsys.readouterr().out


def test_wrong_input_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match="no such file"):
        run(forecast, tmp_path / "none.mpk")
    with pytest.raises(ConfigError, match="can't be read"):
        run(forecast, tmp_path / "none.yaml")
    (tmp_path / "x.yaml").write_text("type: DecoderLm\nvocab: 3")
    with pytest.raises(ConfigError, match="vocab"):
        run(forecast, tmp_path / "x.yaml")
    with pytest.raises(RecordError, match="did you mean 'json'"):
        run(forecast, SAMPLE, "--format", "jsn")


LINE = """
data: {type: Csv, path: t.csv, target: y, kind: numbers, validation_fraction: 0.2}
model: {type: Mlp, sizes: [1, 64, 1]}
task: {type: Regression}
optimizer: {type: Sgd}
lr_scheduler: {type: ConstantLr, lr: 0.1}
training: {epochs: 1, batch_size: 12, accumulation_steps: 2}
device: cpu
"""


@pytest.fixture
def line_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    rows = [f"{x / 100},{3 * x / 100 - 1}" for x in range(200)]
    Path("t.csv").write_text("\n".join(["x,y", *rows]))
    Path("c.yaml").write_text(LINE)
    return "c.yaml"


def test_a_range_test_suggests_a_rate_that_trains(line_config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", line_config, "--find", "lr", "--out", "found.json"]) == 0
    out = capsys.readouterr().out
    suggested = float(re.search(r"--set lr_scheduler\.lr=(\S+), where", out)[1])  # pyright: ignore[reportOptionalSubscript]
    found = json.loads(Path("found.json").read_text())
    assert found["suggested"] == pytest.approx(suggested, rel=0.1)
    assert found["rates"][:2] == pytest.approx([1e-7, 1e-7 * 1e8 ** (1 / 99)])
    assert len(found["rates"]) == len(found["losses"]) == len(found["smoothed"]) <= 100
    assert sorted(path.name for path in Path().iterdir()) == ["c.yaml", "found.json", "t.csv"]
    # The losses are those of a training by hand with the same rates: they fall, and then grow without an end.
    lowest = min(found["smoothed"])
    assert lowest < 0.9 * found["smoothed"][0]
    at = found["rates"].index(found["suggested"])
    assert found["rates"][at] < found["rates"][found["smoothed"].index(lowest)]
    assert found["smoothed"][-1] > 1.1 * lowest


def test_a_rate_is_suggested_as_a_setting_where_the_config_leaves_it_out(
    line_config: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(line_config).write_text(LINE.replace("lr_scheduler: {type: ConstantLr, lr: 0.1}\n", ""))
    assert main(["train", line_config, "--find", "lr"]) == 0
    _, word, setting = shlex.split(capsys.readouterr().out.splitlines()[-1].partition(", where")[0])
    assert word == "--set"
    assert main(["check", line_config, "--set", setting]) == 0


def test_the_rates_are_those_of_the_steps(line_config: str) -> None:
    found = find_rate(TrainConfig.load(line_config, ["training.epochs=5"]), steps=30)
    assert found.rates[-1] <= 10.0
    assert found.rates == sorted(found.rates)
    smoothed = 0.0
    for number, (loss, average) in enumerate(zip(found.losses, found.smoothed, strict=True), 1):
        smoothed = 0.9 * smoothed + 0.1 * loss
        assert average == pytest.approx(smoothed / (1 - 0.9**number))


def test_the_largest_batch_is_found_by_memory_that_is_measured(
    line_config: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A forward and backward pass of an item keeps at least 64 floats.
    monkeypatch.setattr("burnlike.train.job.finding.available_memory", lambda: 60_000)
    found = find_batch_size(TrainConfig.load(line_config))
    assert found.per_item > 64 * 4
    largest = found.sizes[-1]
    assert found.free == int(0.7 * 60_000)
    assert largest.size == int((found.free - found.fixed) / found.per_item) < 160
    assert found.batch_size * found.accumulation_steps == 24
    assert found.batch_size <= largest.size
    tried = [it for it in found.sizes if it.rate is not None]
    assert len(tried) >= 3
    for it in tried:
        assert it.memory == pytest.approx(found.fixed + found.per_item * it.size, rel=0.2)
    monkeypatch.setattr("burnlike.train.job.finding.available_memory", lambda: 10**9)
    assert main(["train", line_config, "--find", "batch-size"]) == 0
    assert "--set training.batch_size=24 --set training.accumulation_steps=1" in capsys.readouterr().out
    monkeypatch.setattr("burnlike.train.job.finding.available_memory", lambda: 1000)
    assert main(["train", line_config, "--find", "batch-size"]) == 2
    assert "and one item takes more; lower the model's sizes" in capsys.readouterr().err


def test_what_does_not_go_with_a_search_is_refused(line_config: str, capsys: pytest.CaptureFixture[str]) -> None:
    for options, message in (
        (["--find", "lr", "--sweep", "seed=1,2"], "leave --sweep out"),
        (["--find", "lr", "--resume"], "leave --resume out"),
        (["--out", "x"], "--out is for --find"),
    ):
        assert main(["train", line_config, *options]) == 2
        assert message in capsys.readouterr().err
    assert main(["profile", line_config, "--steps", "0"]) == 2


@pytest.mark.filterwarnings("ignore")  # torch's profiler warns of itself
def test_a_profile_says_where_time_and_memory_go(line_config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", line_config, "--steps", "2", "--out", "prof"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^forward +[\d.]+ ms +[\d.]+ %$", out, re.MULTILINE)
    assert re.search(r"^aten::\S+ +[\d.]+ ms +[\d.]+ % +\d+ ", out, re.MULTILINE)
    trace = json.loads(Path("prof/trace.json").read_text())["traceEvents"]
    assert {"data", "forward", "backward", "optimizer"} <= {it.get("name") for it in trace}
    assert sorted(path.name for path in Path().iterdir()) == ["c.yaml", "prof", "t.csv"]
    found = profile_steps(TrainConfig.load(line_config), 1)
    assert found.resident == 4 * (64 + 64 + 64 + 1)
    assert found.peak > 2 * 12 * 64
    names = {it.name: it.calls for it in found.operations}
    assert names["aten::mm"] + names["aten::addmm"] >= 2 * 4  # two batches, two layers forward and backward
    assert not torch.is_inference_mode_enabled()


NOISY = """
import torch
from burnlike.config import TaskConfig
from burnlike.train import Task, next_token_loss


class NoisyConfig(TaskConfig, tag="Noisy"):
    def init(self):
        return Noisy()


class Noisy(Task):
    def __init__(self):
        self.generator = torch.Generator().manual_seed(1)

    def train_step(self, model, batch):
        output = next_token_loss(model, batch)
        return output._replace(loss=output.loss * (1 + torch.rand(1, generator=self.generator).item()))
"""


@pytest.mark.weekly
def test_a_job_is_proved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--set", "training.accumulation_steps=2", "--set", "training.ema={}", "--keep", str(tmp_path / "kept")]
    assert main(["verify-resume", str(write_config(tmp_path)), "--steps", "8", *options]) == 0
    out = capsys.readouterr().out
    assert "8 steps in two epochs, in one go" in out
    assert "stopped after step 2 and killed in step 5" in out
    assert "equal: weights" in out
    assert sorted(it.name for it in (tmp_path / "kept").iterdir()) == ["resumed", "whole"]


@pytest.mark.weekly
def test_a_generator_of_the_tasks_own_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "noisy.py").write_text(NOISY)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    config = write_config(tmp_path)
    arguments = ["verify-resume", str(config), "--steps", "4", "--import", "noisy", "--set", "task={type: Noisy}"]
    assert main(arguments) == 1
    out = capsys.readouterr().out
    assert "different:\n  model: " in out
    assert "random numbers of a generator of its own" in out


def test_the_proof_has_the_end_of_an_epoch_and_a_kill_in_it(tmp_path: Path) -> None:
    config = shortened(load_config(tmp_path, "lr_scheduler.warmup_steps=40"), 12)
    assert config.training.steps_per_epoch == 6
    assert config.training.epochs * 6 == 60
    assert legs_of(config) == [Leg(3), Leg(8, is_killed=True), Leg(12)]
    assert legs_of(shortened(config, 4)) == [Leg(1), Leg(3, is_killed=True), Leg(4)]


def test_wrong_arguments_are_one_message(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["verify-resume", str(write_config(tmp_path)), "--steps", "3"])
    assert "at least 4 steps" in capsys.readouterr().err
    config = str(write_config(tmp_path))
    assert main(["verify-resume", config, "--set", "distributed.strategy=fsdp2"]) == 2
    assert "expected distributed.strategy none and no launcher, got fsdp2 in one of 1" in capsys.readouterr().err
