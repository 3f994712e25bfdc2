"""Cases of Burn's core tests of formats: constants, memory, modules that changed since they were saved."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from burnlike.errors import RecordError, RecordFormatError
from burnlike.module import Module, constant
from burnlike.record import (
    BinFileRecorder,
    FileRecorder,
    FullPrecision,
    HalfPrecision,
    JsonGzFileRecorder,
    NamedMpkBytesRecorder,
    NamedMpkFileRecorder,
    PrettyJsonFileRecorder,
    Record,
    layout_of,
    load,
)
from tests.module.cases import case


class SimpleLinear(Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(32, 32))
        self.bias = nn.Parameter(torch.randn(32))


class Model(Module):
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
    before = Model()
    before.tensor = constant(torch.full([4], 2.0))
    before.arr, before.int, before.ignore = [3, 3], 1, "Valid"
    path = recorder(FullPrecision).save(Record.from_module(before), tmp_path / "model")
    after = Model()
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
