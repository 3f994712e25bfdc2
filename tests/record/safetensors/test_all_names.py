"""Tied tensors under all their names, for readers that know no ties."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import burnlike as bl
from burnlike.errors import ArgumentError, RecordFormatError
from burnlike.record import Record, SafetensorsRecorder, open_record


def tied() -> nn.Module:
    model = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2)})
    model["b"].weight = model["a"].weight
    return model


def test_every_name_has_its_values_and_they_are_one_tensor_again(tmp_path: Path) -> None:
    model = tied()
    path = SafetensorsRecorder(bl.HalfPrecision, ties="all").save(Record.of(model), tmp_path / "all")
    plain = load_file(path)
    assert plain.keys() == {"a.weight", "a.bias", "b.weight", "b.bias"}
    assert plain["b.weight"].equal(model.get_parameter("a.weight").detach().half())
    record = open_record(path)
    assert (list(record.tensors), record.aliases) == (["a.weight", "a.bias", "b.bias"], {"b.weight": "a.weight"})
    assert bl.record.verify(path) == 3
    once = SafetensorsRecorder().save(record, tmp_path / "once")
    assert load_file(once).keys() == {"a.weight", "a.bias", "b.bias"}
    report = bl.record.load(tied(), path)
    assert len(report.applied) == 3


def test_names_of_a_tie_with_other_values_are_refused(tmp_path: Path) -> None:
    path = Path(SafetensorsRecorder(ties="all").save(Record.of(tied()), tmp_path / "all"))
    text = path.read_bytes().replace(b'"burnlike.checksums"', b'"burnlike.checksumz"')
    path.write_bytes(text)
    with pytest.raises(RecordFormatError, match=r"ties 'b\.weight' to 'a\.weight', which the tensors contradict"):
        open_record(path)


def test_several_files_have_each_tensor_once() -> None:
    with pytest.raises(ArgumentError, match="ties: expected 'once', or without shard_bytes 'all', got 'all'"):
        SafetensorsRecorder(shard_bytes=10, ties="all")


def test_ties_of_values_without_ids(tmp_path: Path) -> None:
    record = Record({"a": torch.ones(2)}, aliases={"b": "a", "c": "a"})
    path = SafetensorsRecorder(ties="all").save(record, tmp_path / "x")
    assert open_record(path).aliases == record.aliases
    assert load_file(path).keys() == {"a", "b", "c"}
