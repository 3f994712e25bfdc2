"""Tensors that are made of others, such as torchao's quantized ones, in records."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig, quantize_

from burnlike import HalfPrecision
from burnlike.errors import DTypeError, RecordError, RecordMismatchError
from burnlike.optim import AdamWConfig
from burnlike.record import Record, load, open_record, save
from burnlike.train import TrainingState

CONFIGS: list[Any] = [Int8WeightOnlyConfig(), IntxWeightOnlyConfig(weight_dtype=torch.int4), Float8WeightOnlyConfig()]
each_config = pytest.mark.parametrize("config", CONFIGS, ids=lambda it: type(it).__name__)


def quantized(config: Any, seed: int) -> nn.Sequential:
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16, bias=False))
    quantize_(model, config)
    return model


def outputs(model: nn.Module) -> Tensor:
    return model(torch.linspace(-1, 1, 64).reshape(2, 32))


@each_config
@pytest.mark.parametrize("extension", ["safetensors", "mpk", "bpk"])
def test_parts_are_tensors_by_name_in_their_own_types(config: Any, extension: str, tmp_path: Path) -> None:
    model, other = quantized(config, 1), quantized(config, 2)
    if extension != "safetensors" and isinstance(config, Float8WeightOnlyConfig):
        with pytest.raises(DTypeError, match=r"'0\.weight\.qdata' is F8_E4M3, which Burn's formats can't hold"):
            save(model, tmp_path / f"m.{extension}")
        return
    path = save(model, tmp_path / f"m.{extension}", precision=HalfPrecision)
    names = set(open_record(path).tensors)
    assert {"0.bias", "0.weight.qdata", "0.weight.scale", "2.weight.qdata", "2.weight.scale"} <= names
    weight = other[0].weight
    assert not torch.equal(outputs(other), outputs(model))
    report = load(other, path)
    assert {*report.applied} == names
    assert other[0].weight is weight
    other[0].bias, model[0].bias = None, None  # which are float16 in the file
    assert torch.equal(outputs(other), outputs(model))


def test_a_record_in_memory_and_a_checkpoint_have_them_too(tmp_path: Path) -> None:
    model, other = quantized(CONFIGS[0], 1), quantized(CONFIGS[0], 2)
    Record.of(model).load_into(other)
    assert torch.equal(outputs(other), outputs(model))
    again = quantized(CONFIGS[0], 3)
    TrainingState(model=model, optimizer=AdamWConfig().init()).save(tmp_path / "state")
    TrainingState(model=again, optimizer=AdamWConfig().init()).load(tmp_path / "state")
    assert torch.equal(outputs(again), outputs(model))


def test_what_was_made_otherwise_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = save(quantized(CONFIGS[0], 1), tmp_path / "m.safetensors")
    plain = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 16, bias=False))
    with pytest.raises(RecordMismatchError, match=r"0\.weight"):
        load(plain, path)
    other = quantized(CONFIGS[1], 2)
    before = outputs(other)
    with pytest.raises(RecordMismatchError, match="expected a part of a IntxUnpackedToInt8Tensor, got one of a Int8"):
        load(other, path, strict=False)
    same = quantized(CONFIGS[0], 2)
    same[0].weight.scale = same[0].weight.scale.double()
    with pytest.raises(RecordMismatchError, match=r"0\.weight\.scale: expected float64, got float32"):
        load(same, path)
    assert torch.equal(outputs(other), before)


def test_parts_on_the_meta_device_are_refused(tmp_path: Path) -> None:
    model = quantized(CONFIGS[0], 1)
    path = save(model, tmp_path / "m.safetensors")
    with pytest.raises(RecordError, match=r"'0\.weight' is a Int8Tensor on the meta device"):
        load(copy.deepcopy(model).to("meta"), path)
