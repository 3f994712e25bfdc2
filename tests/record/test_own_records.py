"""What a module's class defines is honoured: `into_record` and `load_record`, its own and those of its parts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import RecordError, RecordMismatchError
from burnlike.record import Record, open_record
from burnlike.train import TrainingState


class Counting(bl.Module):
    """A burnlike Module that adds a number to the record that it would have."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.seen = value

    def into_record(self, group: Any = None) -> Record:
        return replace(super().into_record(group), values={"seen": self.seen})

    def load_record(self, record: Any, **options: Any) -> Any:
        report = super().load_record(replace(record, values={}), **options)
        self.seen = record.values["seen"]
        return report


class Halved(nn.Module):
    """A plain module whose record has other names and values than its parameters."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.full((2,), value))

    def into_record(self) -> Record:
        return Record({"half": self.weight.detach() / 2})

    def load_record(self, record: Record) -> None:
        self.weight = nn.Parameter(record.tensors["half"] * 2)


class Net(bl.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.first = Counting(value)
        self.layers = [Halved(value), nn.BatchNorm1d(2)]


def state(module: nn.Module) -> list[Any]:
    """All that it knows, read without records."""
    found: list[Any] = [(name, it.tolist()) for name, it in module.state_dict().items()]
    return [*found, *(it.seen for it in module.modules() if isinstance(it, Counting))]


def by_functions(source: nn.Module, target: nn.Module, path: Path) -> None:
    bl.record.load(target, bl.record.save(source, path))


def by_a_training(source: nn.Module, target: nn.Module, path: Path) -> None:
    TrainingState(model=target).load(TrainingState(model=source).save(path))


def by_a_training_in_one_record(source: nn.Module, target: nn.Module, path: Path) -> None:
    TrainingState(model=target).load_record(TrainingState(model=source).into_record())


def in_the_background(source: nn.Module, target: nn.Module, path: Path) -> None:
    bl.record.load(target, bl.record.save_async(source, path).wait())


def in_a_wrapper(source: nn.Module, target: nn.Module, path: Path) -> None:
    compiled: Any = torch.compile(target, backend="eager")
    bl.record.load(compiled, bl.record.save(torch.compile(source, backend="eager"), path))


def in_a_map(source: nn.Module, target: nn.Module, path: Path) -> None:
    record = open_record(bl.record.save({"net": source}, path))
    bl.record.load(target, bl.record.save(record.net, f"{path} alone"))


WAYS = [by_functions, by_a_training, by_a_training_in_one_record, in_the_background, in_a_wrapper, in_a_map]


@pytest.mark.parametrize("kind", [Counting, Halved, Net])
@pytest.mark.parametrize("way", WAYS)
def test_everything_that_saves_and_loads_asks_the_class(kind: Any, way: Callable[..., None], tmp_path: Path) -> None:
    source, target = kind(3.0), kind(1.0)
    assert state(source) != state(target)
    way(source, target, tmp_path / "saved")
    assert state(source) == state(target)
    assert [it.id for it in bl.module.params(source)][:2] == [it.id for it in bl.module.params(target)][
        :2
    ] or kind is Halved


@pytest.mark.parametrize("extension", [".safetensors", ".mpk", ".json", ".bpk"])
def test_records_of_parts_are_in_the_record_of_the_whole(extension: str, tmp_path: Path) -> None:
    source = Net(3.0)
    record = open_record(bl.record.save(source, tmp_path / f"net{extension}"))
    assert record.first.seen == 3.0
    assert record.layers[0].half.tolist() == [1.5, 1.5]
    assert "layers.0.weight" not in record.tensors
    alone = Counting(1.0)
    alone.load_record(Record.of(record.first))
    assert state(alone) == state(source.first)
    target = Net(1.0)
    target.load(tmp_path / f"net{extension}")
    assert state(target) == state(source)
    built = bl.record.init_from(lambda: Net(0.0), tmp_path / f"net{extension}")
    assert state(built) == state(source)


class Refusing(Halved):
    def load_record(self, record: Record) -> None:
        super().load_record(record)
        raise ValueError("not today")


def test_a_part_that_refuses_leaves_the_whole_as_it_was(tmp_path: Path) -> None:
    path = bl.record.save(Net(3.0), tmp_path / "net")
    target = Net(1.0)
    target.layers[0] = Refusing(1.0)
    optimizer = torch.optim.SGD(target.parameters(), lr=0.1)
    before = state(target)
    with pytest.raises(ValueError, match="not today"):
        target.load(path)
    assert state(target) == before
    saved = TrainingState(model=Net(3.0), optimizer=torch.optim.SGD([torch.ones(1)], lr=0.2))
    with pytest.raises(RecordError):
        TrainingState(model=target, optimizer=optimizer).load(saved.save(tmp_path / "training"))
    assert state(target) == before


def test_a_part_whose_rest_does_not_fit_is_put_back(tmp_path: Path) -> None:
    record = Record.of(Net(3.0))
    lacking = replace(record, tensors={k: it for k, it in record.tensors.items() if k != "layers.1.bias"}, ids={})
    target = Net(1.0)
    before = state(target)
    with pytest.raises(RecordMismatchError, match=r"missing in the record: layers\.1\.bias"):
        target.load_record(lacking)
    assert state(target) == before
    without = replace(record, tensors={"layers.1.bias": torch.ones(2)}, ids={}, values={}, aliases={}, states=())
    with pytest.raises(RecordMismatchError, match="Net"):
        target.load_record(without)
    assert target.load_record(without, strict=False).missing[-2:] == ["first", "layers.0"]
    with pytest.raises(RecordMismatchError, match=r"'first' of Net has a load_record of its own"):
        target.load_record(record, remap=[("^x", "y")])


class Tied(bl.Module):
    def __init__(self, inside_first: bool) -> None:
        super().__init__()
        part, outside = Part(), nn.Linear(2, 2, bias=False)
        outside.weight = part.weight
        self.one, self.two = (part, outside) if inside_first else (outside, part)


class Part(bl.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(2, 2))
        self.kept = True

    def into_record(self, group: Any = None) -> Record:
        record = super().into_record(group)
        return record if self.kept else Record(values={"nothing": 1})

    def load_record(self, record: Any, **options: Any) -> Any:
        return super().load_record(record, **options)


@pytest.mark.parametrize("inside_first", [True, False])
def test_a_tie_across_the_border_of_a_part_holds(inside_first: bool, tmp_path: Path) -> None:
    source, target = Tied(inside_first), Tied(inside_first)
    record = Record.of(source)
    assert len(record.tensors) == 1
    assert len(record.aliases) == 1
    target.load(bl.record.save(source, tmp_path / "x"))
    assert torch.equal(target.one.weight, source.one.weight)
    assert target.one.weight is target.two.weight


def test_a_tie_that_would_be_lost_is_refused() -> None:
    source = Tied(inside_first=True)
    source.one.kept = False
    with pytest.raises(RecordError, match=r"'two\.weight' is tied to 'one\.weight', which the into_record of its"):
        source.into_record()
