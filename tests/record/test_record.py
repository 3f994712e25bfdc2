"""Records are reached by attributes and hold parameters only; those made by hand, own recorders and precisions work."""

import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.errors import RecordError, RecordMismatchError, RecordPathError
from burnlike.optim import AdamWConfig, CosineAnnealingConfig, GradientsParams
from burnlike.record import EXTENSIONS, Record, Recorder, SafetensorsRecorder, open_record

SENTINEL = 7.25e11


class Head(bl.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = bl.Param.from_tensor(torch.arange(6.0).view(2, 3))
        self.scale = SENTINEL
        self.secret = "sentinel-7250"
        self.table = torch.full((3,), SENTINEL)


class Model(bl.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = [Head(), Head()]
        self.norm = nn.BatchNorm1d(3)
        self.count = 7250


def test_what_is_in_a_record_is_reached_by_attributes() -> None:
    model = Model()
    record = model.into_record()
    assert record.layers[1].weight.data_ptr() == model.layers[1].weight.data_ptr()
    assert record.norm.running_mean is not None
    assert list(record.norm) == ["weight", "bias", "running_mean", "running_var", "num_batches_tracked"]
    assert len(record.layers) == 2
    with pytest.raises(RecordPathError, match=r"'layers.1' of the record of Model has no 'wieght'.*'weight'"):
        _ = record.layers[1].wieght
    assert not hasattr(record, "head")


def test_plain_modules_have_records_reached_the_same_way() -> None:
    module = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    record = Record.from_module(module)
    assert torch.equal(record["2"].weight, module[2].weight)
    assert record["0"].bias.data_ptr() == module[0].bias.data_ptr()


def test_values_and_tied_tensors_are_reached_too() -> None:
    record = Record(
        {"a.b": torch.ones(2)}, {"run": {"step": 3, "lrs": [0.1, 0.2]}, "tensors": None}, aliases={"c": "a.b"}
    )
    assert record.run.step == 3
    assert record.run.lrs[1] == 0.2
    assert record.c is record.a.b
    assert record["tensors"] is None  # the attribute is the mapping


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_no_constant_of_a_module_reaches_a_record(extension: str, tmp_path: Path) -> None:
    path = bl.record.save(Model(), tmp_path / f"model{extension}")
    record = open_record(path, layout=Model().into_record().layout)
    assert not record.values
    assert not [name for name in record.tensors if not name.endswith(("weight", "bias", "mean", "var", "tracked"))]
    content = Path(path).read_bytes() if not extension.endswith("gz") else gzip.decompress(Path(path).read_bytes())
    assert b"7250" not in content
    assert np.float32(SENTINEL).tobytes() not in content
    assert np.float64(SENTINEL).tobytes() not in content


def test_records_made_by_hand_load() -> None:
    linear = nn.Linear(2, 2)
    weight = np.arange(4, dtype=np.float32).reshape(2, 2)
    Record({"weight": weight, "bias": torch.ones(2)}).load_into(linear)
    assert linear.weight.tolist() == [[0, 1], [2, 3]]
    Record.of({"weight": weight[::-1], "bias": weight[0].astype(np.float64)}).load_into(linear)
    assert linear.weight.tolist() == [[2, 3], [0, 1]]
    assert linear.bias.dtype == torch.float32


def test_arrays_share_their_memory() -> None:
    array = np.zeros(3, np.float32)
    record = Record({"a": array})
    array[1] = 5
    assert record.a.tolist() == [0, 5, 0]


def test_field_left_out_is_an_error_that_names_it() -> None:
    linear = nn.Linear(2, 2)
    before = linear.weight.detach().clone()
    with pytest.raises(RecordMismatchError, match="missing in the record: bias"):
        Record({"weight": torch.zeros(2, 2)}).load_into(linear)
    assert torch.equal(linear.weight, before)


@pytest.mark.parametrize("value", [3, "text", np.array(["a"]), np.array([None]), np.ones(2, ">f4"), {"b": np.ones(2)}])
def test_what_is_no_tensor_is_refused(value: Any) -> None:
    with pytest.raises(RecordError, match=r"Record\.tensors: .*'a'"):
        Record({"a": value})


class MemoryRecorder(Recorder):
    """A user's own: keeps records in a dict."""

    def __init__(self) -> None:
        self.kept: dict[str, dict[str, Tensor]] = {}

    def save(self, record: Record, path: str | os.PathLike[str]) -> str:
        self.kept[os.fspath(path)] = {name: tensor.clone() for name, tensor in record.tensors.items()}
        return os.fspath(path)

    def load(self, path: str | os.PathLike[str], layout: Any = None) -> Record:
        return Record(self.kept[os.fspath(path)])


@dataclass
class Seen:
    mean: Tensor
    count: int


def test_whatever_has_a_record_is_saved_in_one_call(tmp_path: Path) -> None:
    linear = nn.Linear(2, 1)
    linear(torch.ones(2)).backward()
    optimizer = AdamWConfig().init()
    optimizer.step(0.1, linear, GradientsParams.from_module(linear))
    path = bl.record.save(optimizer, tmp_path / "optimizer.mpk")
    assert len(AdamWConfig().init().load_record(open_record(path), linear).to_record().tensors) == 4
    scheduler = CosineAnnealingConfig(initial_lr=0.1, num_iters=9).init()
    rates = [scheduler.step() for _ in range(3)]
    path = bl.record.save(scheduler, tmp_path / "scheduler")
    resumed = CosineAnnealingConfig(initial_lr=0.1, num_iters=9).init().load_record(open_record(path))
    assert resumed.step() == scheduler.step() != rates[-1]
    path = bl.record.save_async(Seen(torch.ones(2), 3), tmp_path / "seen.json").wait()
    assert open_record(path).into(Seen).count == 3
    path = bl.record.save({"a": torch.ones(2)}, tmp_path / "map", bl.HalfPrecision)
    assert open_record(path).a.dtype == torch.float16


def test_own_recorder_saves_and_loads_modules() -> None:
    recorder, model, other = MemoryRecorder(), Model(), Model()
    with torch.no_grad():
        model.layers[0].weight.mul_(2)
    model.save("here", recorder)
    bl.record.save(model, "there", recorder=recorder)
    recorder.load("here").load_into(other)
    assert torch.equal(other.layers[0].weight, model.layers[0].weight)
    assert recorder.kept["there"].keys() == recorder.kept["here"].keys()


class HalfMatrices:
    """A user's own precision: matrices in half, the rest as it is."""

    def stored_dtype(self, name: str, dtype: torch.dtype) -> torch.dtype:
        return torch.float16 if name.endswith("weight") and dtype.is_floating_point else dtype


class ToInts:
    def stored_dtype(self, name: str, dtype: torch.dtype) -> torch.dtype:
        return torch.int32


def test_own_precision_is_asked_for_each_tensor(tmp_path: Path) -> None:
    model = nn.Linear(3, 2)
    path = bl.record.save(model, tmp_path / "x", precision=HalfMatrices())
    record = open_record(path)
    assert record.weight.dtype == torch.float16
    assert torch.equal(record.weight, model.weight.detach().half())
    assert record.bias.dtype == torch.float32


def test_own_precision_that_changes_the_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(bl.errors.DTypeError, match=r"'weight' .float32. as int32, which is of another kind"):
        bl.record.save(nn.Linear(3, 2), tmp_path / "x", precision=ToInts())
    with pytest.raises(RecordError, match="expected a Precision"):
        SafetensorsRecorder(torch.float16)  # pyright: ignore[reportArgumentType]
