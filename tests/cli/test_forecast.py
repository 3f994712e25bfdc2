"""`burnlike forecast`: its figures are those of what is then written."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.cli.commands import forecast
from burnlike.errors import ConfigError, RecordError, RecordIOError
from burnlike.nn import DecoderLmConfig
from burnlike.optim import AdamWConfig, GradientsParams
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder
from burnlike.record.recorder import recorder_for

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
