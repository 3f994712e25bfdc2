"""Records: their attributes, parts and nesting; Burn's cases of module records and of formats with names."""

import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.errors import RecordError, RecordFormatError, RecordMismatchError, RecordPathError
from burnlike.module import Module, Param, ParamGroup, constant, params
from burnlike.optim import AdamWConfig, CosineAnnealingConfig, GradientsParams
from burnlike.record import (
    EXTENSIONS,
    BinFileRecorder,
    FileRecorder,
    FullPrecision,
    HalfPrecision,
    JsonGzFileRecorder,
    NamedMpkBytesRecorder,
    NamedMpkFileRecorder,
    PrettyJsonFileRecorder,
    Record,
    Recorder,
    SafetensorsRecorder,
    layout_of,
    load,
    open_record,
    save,
)
from burnlike.train import TrainingState
from tests.module.cases import case

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


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_name_that_no_reader_would_take_is_not_written(extension: str, tmp_path: Path) -> None:
    path, tensor = tmp_path / f"x{extension}", torch.ones(1)
    names: Any = ("x" * 4097, 1, ("a", "b"))
    for record in (*(Record({name: tensor}) for name in names), Record({"x": tensor}, aliases={"x" * 4097: "x"})):
        with pytest.raises(RecordError, match="expected a text of at most 4096 characters as a name; rename it"):
            save(record, path)
    assert not path.exists()
    if not extension.startswith(".bin"):
        save(Record({"x" * 4096: tensor}), path)
        assert open_record(path).tensors["x" * 4096].tolist() == [1]


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


def refused(module: nn.Module, record: Record) -> str:
    with pytest.raises(RecordMismatchError) as caught:
        record.load_into(module)
    return str(caught.value)


class Tiny(Module):
    """Burn's test module: a weight [[1, 2], [3, 4]] and a bias [5, 6], or zeros."""

    def __init__(self, scale: float = 1.0, start: float = 1.0) -> None:
        super().__init__()
        self.weight = Param.from_tensor(scale * torch.arange(start, start + 4).view(2, 2))
        self.bias = Param.from_tensor(scale * torch.arange(start + 4, start + 6))


class TinyWide(Tiny):
    """The same with a gamma."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__(scale)
        self.gamma = Param.from_tensor(scale * torch.tensor([7.0, 8.0]))


class Mlp(Module):
    """Two of them."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.first = Tiny(scale)
        self.second = Tiny(scale, 7.0)


def values(module: nn.Module) -> dict[str, list[float]]:
    return {param.path: param.val().flatten().tolist() for param in params(module)}


TINY = {"weight": [1, 2, 3, 4], "bias": [5, 6]}
MLP = {"first.weight": [1, 2, 3, 4], "first.bias": [5, 6], "second.weight": [7, 8, 9, 10], "second.bias": [11, 12]}


def through_bytes(record: Record, folder: Path) -> Record:
    """The record read from a copy of the bytes it was saved as."""
    content = Path(SafetensorsRecorder().save(record, folder / "saved")).read_bytes()
    (folder / "copy.safetensors").write_bytes(content)
    return SafetensorsRecorder().load(folder / "copy.safetensors")


@case("module_record/round_trip_in_memory", "module_record/preserves_id")
def test_values_and_ids_go_through_a_record_and_its_bytes(tmp_path: Path) -> None:
    source = Tiny()
    for record in (source.into_record(), through_bytes(source.into_record(), tmp_path)):
        target = Tiny(scale=0)
        assert len(record.tensors) == 2
        target.load_record(record)
        assert values(target) == TINY
        assert [param.id for param in params(target)] == [param.id for param in params(source)]


@case("module_record/mlp_file", "module_record/mlp_bytes")
def test_nested_modules_go_through_files_and_bytes(tmp_path: Path) -> None:
    source = Mlp()
    assert len(source.into_record().tensors) == 4
    target = Mlp(scale=0)
    target.load(save(source, tmp_path / "x"))
    assert values(target) == MLP
    target = Mlp(scale=0)
    through_bytes(source.into_record(), tmp_path).load_into(target)
    assert values(target) == MLP


@case("module_record/group_only")
def test_a_record_of_a_group_holds_its_parameters_only() -> None:
    record = Record.from_module(Tiny(), ParamGroup.from_path("weight"))
    assert list(record.tensors) == ["weight"]
    target = Tiny(scale=0)
    record.load_into(target, allow_partial=True)
    assert values(target) == {"weight": [1, 2, 3, 4], "bias": [0, 0]}


@case("module_record/unused_refused")
def test_what_the_module_lacks_is_refused_unless_allowed() -> None:
    record, target = TinyWide().into_record(), Tiny(scale=0)
    assert "unexpected: gamma" in refused(target, record)
    record.load_into(target, allow_unused=True)
    assert values(target) == TINY


@case("module_record/missing_requires_partial")
def test_what_the_record_lacks_is_refused_unless_allowed() -> None:
    record, target = Tiny().into_record(), TinyWide(scale=0)
    assert "missing in the record: gamma" in refused(target, record)
    record.load_into(target, allow_partial=True)
    assert values(target) == {**TINY, "gamma": [0, 0]}


@case("module_record/mlp_partial")
def test_a_record_of_one_part_is_refused_unless_allowed() -> None:
    record = Record.from_module(Mlp(), ParamGroup.from_predicate("first"))
    target = Mlp(scale=0)
    assert "missing in the record: second.weight" in refused(target, record)
    record.load_into(target, allow_partial=True)
    assert values(target) == {**MLP, "second.weight": [0, 0, 0, 0], "second.bias": [0, 0]}


@case("module_record/dtype_cast_to_module")
def test_values_are_loaded_in_the_module_s_type() -> None:
    target = Tiny(scale=0).to(torch.float64)
    Tiny().into_record().load_into(target)
    assert target.weight.dtype == torch.float64
    assert values(target) == TINY


class SimpleLinear(Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 32))
        self.bias = nn.Parameter(torch.randn(32))


class TwoLinears(Module):
    """Of its fields, only the first is no constant."""

    def __init__(self) -> None:
        super().__init__()
        self.linear1 = SimpleLinear()
        self.tensor = constant(torch.zeros(2))
        self.arr = [2, 2]
        self.int = 0
        self.ignore = "Same"


@case("record/file/JsonGzFileRecorder", "record/file/PrettyJsonFileRecorder", "record/file/NamedMpkFileRecorder")
@pytest.mark.parametrize("recorder", [JsonGzFileRecorder, PrettyJsonFileRecorder, NamedMpkFileRecorder])
def test_constants_are_in_no_file(recorder: type[FileRecorder], tmp_path: Path) -> None:
    before = TwoLinears()
    before.tensor = constant(torch.full([4], 2.0))
    before.arr, before.int, before.ignore = [3, 3], 1, "Valid"
    path = recorder(FullPrecision).save(Record.from_module(before), tmp_path / "model")
    after = TwoLinears()
    recorder(FullPrecision).load(path).load_into(after)
    assert (after.arr, after.int, after.ignore, after.tensor.tolist()) == ([2, 2], 0, "Same", [0.0, 0.0])
    memory = NamedMpkBytesRecorder(FullPrecision)
    assert memory.to_bytes(Record.from_module(after)) == memory.to_bytes(Record.from_module(before))


@case("record/memory/NamedMpkBytesRecorder")
def test_a_record_in_memory_carries_values_and_ids() -> None:
    recorder = NamedMpkBytesRecorder(FullPrecision)
    one, two = SimpleLinear(), SimpleLinear()
    first, second = (recorder.to_bytes(Record.from_module(it)) for it in (one, two))
    assert first != second
    recorder.from_bytes(first).load_into(two)
    assert recorder.to_bytes(Record.from_module(two)) == first


@case("record/err_when_invalid_item")
def test_an_item_that_is_something_else_is_an_error() -> None:
    """Burn's readers expect the type that the recorder's precision has; here a file says what it holds."""
    data = NamedMpkBytesRecorder(FullPrecision).to_bytes(Record(values={"": 16.0}, layout="f32"))
    record = NamedMpkBytesRecorder(HalfPrecision).from_bytes(data)
    assert record.values == {"": 16.0}
    with pytest.raises(RecordError, match="weight"):
        record.load_into(SimpleLinear())


@case("record/serialize_nested")
def test_values_nest_as_the_layout_says() -> None:
    values = {"a": {"x": "Hello", "y": "World"}, "b": {"a": 1, "c": "Hello", "d": "World"}}
    text = {"$option": "str"}
    layout = {"a": {"x": "str", "y": "str"}, "b": {"a": "i32", "b": text, "c": "str", "d": text}}
    written = json.loads(PrettyJsonFileRecorder().to_bytes(Record(values=values, layout=layout)))
    assert written["item"] == {"a": {"x": "Hello", "y": "World"}, "b": {"a": 1, "b": None, "c": "Hello", "d": "World"}}
    assert list(written["item"]["b"]) == ["a", "b", "c", "d"]


class Old(Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(20, 20)
        self.second = nn.Linear(20, 20)


class WithOption(Old):
    removed: Tensor | None

    def __init__(self) -> None:
        super().__init__()
        self.removed = None


class Reordered(Module):
    def __init__(self) -> None:
        super().__init__()
        self.second = nn.Linear(20, 20)
        self.first = nn.Linear(20, 20)


def carried_over(recorder: FileRecorder, before: nn.Module, after: nn.Module, tmp_path: Path) -> None:
    path = recorder.save(Record.from_module(before), tmp_path / "model")
    recorder.load(path).load_into(after)
    for name, values in before.state_dict().items():
        assert torch.equal(after.state_dict()[name], values), name


@case("resilience/default_file_recorder/removed_optional_field", "resilience/pretty_json/removed_optional_field")
@pytest.mark.parametrize("recorder", [NamedMpkFileRecorder(), PrettyJsonFileRecorder()])
def test_a_field_that_was_none_may_be_removed(recorder: FileRecorder, tmp_path: Path) -> None:
    carried_over(recorder, WithOption(), Old(), tmp_path)


@case("resilience/default_file_recorder/new_field_order")
@pytest.mark.parametrize("recorder", [NamedMpkFileRecorder(), PrettyJsonFileRecorder()])
def test_fields_may_come_in_another_order(recorder: FileRecorder, tmp_path: Path) -> None:
    carried_over(recorder, Old(), Reordered(), tmp_path)


@case("resilience/pretty_json/new_optional_field")
@pytest.mark.parametrize("recorder", [NamedMpkFileRecorder(), PrettyJsonFileRecorder()])
def test_a_field_that_is_none_may_be_new(recorder: FileRecorder, tmp_path: Path) -> None:
    carried_over(recorder, Old(), WithOption(), tmp_path)


class WithConstant(Old):
    def __init__(self) -> None:
        super().__init__()
        self.size = 3


@case("resilience/bin_file_recorder/new_optional_field", "resilience/bin_file_recorder/removed_constant_field")
@pytest.mark.parametrize(("before", "after"), [(Old, WithOption), (WithConstant, Old)])
def test_bincode_of_a_module_that_changed_is_read_by_the_layout_that_it_had(
    before: type[Old], after: type[Old], tmp_path: Path
) -> None:
    """Burn says nothing where the file ends early or late; here that is an error until the layout is told."""
    source, target = before(), after()
    path = BinFileRecorder(FullPrecision).save(Record.from_module(source), tmp_path / "model")
    with pytest.raises(RecordFormatError):
        load(target, path)
    load(target, path, layout=layout_of(source))
    for name, values in source.state_dict().items():
        assert torch.equal(target.state_dict()[name], values), name


@case("resilience/bin_file_recorder/new_field_order")
def test_bincode_of_a_module_with_its_fields_in_another_order_goes_where_it_belongs(tmp_path: Path) -> None:
    """Burn gives each layer the values of the other one; here they follow the names of the layout."""
    source, target = Old(), Reordered()
    path = BinFileRecorder(FullPrecision).save(Record.from_module(source), tmp_path / "model")
    load(target, path, layout=layout_of(source))
    for name, values in source.state_dict().items():
        assert torch.equal(target.state_dict()[name], values), name


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
