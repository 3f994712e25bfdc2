"""Cases of Burn's module records: through memory, files and bytes, whole and in part."""

from pathlib import Path

import pytest
import torch
from torch import nn

from burnlike.errors import RecordMismatchError
from burnlike.module import Module, Param, ParamGroup, params
from burnlike.record import Record, SafetensorsRecorder, save
from tests.module.cases import case


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
