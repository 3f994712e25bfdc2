"""Records made of records, and parts of records: they load where records do."""

from pathlib import Path

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import RecordMismatchError
from burnlike.record import Record, open_record
from burnlike.train import TrainingState


def layers() -> nn.Module:
    model = bl.nn.LinearConfig(d_input=3, d_output=3)
    return bl.module.ModuleVec([model.init(), nn.Linear(3, 2), nn.BatchNorm1d(2)])


@pytest.mark.parametrize("saved", [False, True])
def test_a_part_of_a_record_loads_into_a_submodule(saved: bool, tmp_path: Path) -> None:
    net = bl.module.ModuleDict({"layers": layers(), "head": nn.Linear(2, 2)})
    net["head"].weight = nn.Parameter(torch.ones(2, 2))
    record = open_record(bl.record.save(net, tmp_path / "net")) if saved else Record.from_module(net)
    linear, plain, norm = layers(), nn.Linear(3, 2), nn.BatchNorm1d(2)
    linear[0].load_record(record.layers[0])
    assert torch.equal(linear[0].weight, net["layers"][0].weight)
    record.layers[1].load_into(plain)
    assert torch.equal(plain.weight, net["layers"][1].weight)
    assert bl.module.params(plain)[0].id == net["layers"].param("1.weight").id
    assert Record.of(record.layers[2]).states == {"running_mean", "running_var", "num_batches_tracked"}
    record.layers[2].load_into(norm)
    bl.record.load(layers(), bl.record.save(record.layers, tmp_path / "layers"))
    with pytest.raises(RecordMismatchError, match=r"'layers\.0' of .* belongs to another model"):
        record.layers[0].load_into(nn.Linear(3, 2))


def test_the_part_of_a_tied_tensor_has_its_values() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    other = nn.Linear(2, 2)
    Record.from_module(model)["1"].load_into(other)
    assert torch.equal(other.weight, model[0].weight)
    assert torch.equal(other.bias, model[1].bias)


@pytest.mark.parametrize("extension", [".safetensors", ".mpk", ".bin"])
def test_records_nest_in_maps_and_keep_ids_ties_and_states(extension: str, tmp_path: Path) -> None:
    model = bl.module.ModuleVec([nn.Linear(2, 2), nn.Linear(2, 2), nn.BatchNorm1d(2)])
    model[1].weight = model[0].weight
    head = nn.Linear(2, 1)
    record = Record.of({"model": model.into_record(), "head": Record.from_module(head)})
    path = bl.record.save({"model": model, "head": head}, tmp_path / f"both{extension}")
    for found in (record, open_record(path, record.layout)):
        part = Record.of(found.model)
        assert part.ids == model.into_record().ids
        assert part.states == model.into_record().states
        assert found.head.weight.shape == (1, 2)
        if extension == ".safetensors":
            assert part.aliases == {"1.weight": "0.weight"}
        other = bl.module.clone(model, new_ids=True)
        with torch.no_grad():
            other[0].weight.zero_()
        other.load_record(found.model)
        assert torch.equal(other[0].weight, model[0].weight)


def test_records_of_files_nest_without_being_read(tmp_path: Path) -> None:
    one, two = nn.Linear(2, 2), nn.Linear(2, 2)
    parts = {name: open_record(bl.record.save(it, tmp_path / name)) for name, it in (("one", one), ("two", two))}
    record = Record.of(parts)
    assert isinstance(record.tensors, bl.record.LazyTensors)
    found = open_record(bl.record.save(record, tmp_path / "both"))
    assert torch.equal(found.two.weight, two.weight)
    beside = Record.of({**parts, "step": 3, "mean": torch.ones(2)})
    assert torch.equal(beside.one.weight, one.weight)
    assert (beside.step, beside.mean.tolist()) == (3, [1, 1])


@pytest.mark.parametrize("extension", [".safetensors", ".mpk", ".json", ".bpk"])
def test_a_module_and_its_copy_keep_their_common_ids_in_one_record(extension: str, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    average = bl.module.clone(model)
    with torch.no_grad():
        average[0].weight.add_(1)
    ids = [param.id for param in bl.module.params(model)]
    everything = {"model": model, "average": average, "again": model, "in": [{"average": average}]}
    record = open_record(bl.record.save(everything, tmp_path / f"both{extension}"))
    for part, expected in (
        (record.model, model),
        (record.average, average),
        (record.again, model),
        (record["in"][0].average, average),
    ):
        other = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
        part.load_into(other)
        assert torch.equal(other[0].weight, expected[0].weight)
        assert [param.id for param in bl.module.params(other)] == ids
    assert "$ids" not in dir(record)


def test_a_training_of_a_model_and_its_average_is_one_file(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    average = bl.module.clone(model)
    with torch.no_grad():
        average.weight.add_(1)
    path = TrainingState(model=model, average=average).save(tmp_path / "all.safetensors")
    one, other = nn.Linear(2, 2), nn.Linear(2, 2)
    TrainingState(model=one, average=other).load(path)
    assert torch.equal(one.weight, model.weight)
    assert torch.equal(other.weight, average.weight)
    assert bl.module.params(other)[0].id == bl.module.params(model)[0].id
