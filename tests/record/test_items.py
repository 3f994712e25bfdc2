"""Fields of a module that are objects with `into_item` and `from_item` are saved and loaded with it."""

import copy
from pathlib import Path
from typing import Any, Self

import pytest
import torch
from torch import Tensor, nn

import burnlike as bl
from burnlike.errors import RecordMismatchError
from burnlike.record import Record, open_record
from burnlike.train import TrainingState


class Celsius:
    """Stored as a number."""

    def __init__(self, degrees: float) -> None:
        self.degrees = degrees

    def into_item(self) -> float:
        return self.degrees + 273.0

    @classmethod
    def from_item(cls, item: float) -> Self:
        return cls(item - 273.0)


class Mean:
    """Stored as a tensor."""

    def __init__(self, values: Tensor) -> None:
        self.values = values

    def into_item(self) -> Tensor:
        return self.values

    @classmethod
    def from_item(cls, item: Tensor) -> Self:
        return cls(item)


class Vocabulary:
    """Stored as a map of lists, texts and tensors."""

    def __init__(self, words: list[str], vectors: list[Tensor], by_name: dict[str, Tensor]) -> None:
        self.words, self.vectors, self.by_name = words, vectors, by_name

    def into_item(self) -> dict[str, Any]:
        return {"words": self.words, "vectors": self.vectors, "by_name": self.by_name}

    @classmethod
    def from_item(cls, item: dict[str, Any]) -> Self:
        return cls(item["words"], item["vectors"], item.get("by_name", {}))


class Net(bl.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.heat = Celsius(value)
        self.mean = Mean(torch.full((2,), value))
        self.words = Vocabulary(["a"] * int(value), [torch.ones(1) * value, torch.zeros(2)], {"x": torch.ones(1)})


class Outer(bl.Module):
    def __init__(self, value: float) -> None:
        super().__init__()
        self.inner = Net(value)
        self.parts = [Net(value + 1), nn.Linear(1, 1)]


def items(module: nn.Module) -> list[Any]:
    return [
        (it.heat.degrees, it.mean.values.tolist(), it.words.words, [v.tolist() for v in it.words.vectors])
        for it in module.modules()
        if isinstance(it, Net)
    ]


@pytest.mark.parametrize("kind", [Net, Outer])
@pytest.mark.parametrize("extension", [".safetensors", ".mpk", ".json.gz", ".bpk"])
def test_items_come_back_in_every_format_with_names(kind: Any, extension: str, tmp_path: Path) -> None:
    source, target = kind(3.0), kind(1.0)
    target.load(source.save(tmp_path / f"x{extension}"))
    assert items(target) == items(source) != items(kind(1.0))


def test_items_come_back_in_trainings_state_dicts_and_parts(tmp_path: Path) -> None:
    source = Net(3.0)
    targets = [Net(1.0) for _ in range(5)]
    TrainingState(model=targets[0]).load(TrainingState(model=source).save(tmp_path / "training"))
    torch.save(source.state_dict(), tmp_path / "x.pt")
    targets[1].load_state_dict(torch.load(tmp_path / "x.pt", weights_only=True))
    bl.record.load(targets[2], tmp_path / "x.pt")
    outer = Outer(1.0)
    outer.inner = source
    targets[3].load_record(open_record(outer.save(tmp_path / "outer")).inner)
    Record.of({"net": source}).net.load_into(targets[4])
    for target in targets:
        assert items(target) == items(source)
        assert torch.equal(target.layer.weight, source.layer.weight)


def test_copies_have_items_of_their_own_and_views_share_them() -> None:
    net = Net(3.0)
    for twin in (net.clone(), copy.deepcopy(net), bl.module.map(net, lambda param: param)):
        twin.heat = Celsius(7.0)
        assert Record.of(twin).values != Record.of(net).values
        assert net.heat.degrees == 3.0
        twin.mean = None
        assert "mean" not in twin.state_dict()
        assert "mean" in net.state_dict()
    assert items(net.valid()) == items(net)


def test_what_a_field_is_now_counts() -> None:
    net = Net(3.0)
    net.heat = 4.0
    net.mean = bl.constant(net.mean)
    del net.words
    assert [*net.state_dict()] == ["layer.weight", "layer.bias"]
    net.heat = Celsius(4.0)
    assert [*net.state_dict()] == ["heat", "layer.weight", "layer.bias"]
    constants = bl.nn.LinearConfig(d_input=2, d_output=2).init()
    constants.note = object()
    assert [*constants.state_dict()] == ["weight", "bias"]


def test_items_that_are_missing_unknown_or_refused_change_nothing(tmp_path: Path) -> None:
    class Cold(Celsius):
        @classmethod
        def from_item(cls, item: float) -> Self:
            raise ValueError("too warm")

    record = Record.of(Net(3.0))
    target = Net(1.0)
    before, weight = items(target), target.layer.weight.detach().clone()
    target.heat = Cold(1.0)
    with pytest.raises(RecordMismatchError, match=r"Cold\.from_item refused it: ValueError: too warm"):
        target.load_record(record)
    target.heat = Mean(torch.ones(1))
    with pytest.raises(RecordMismatchError, match="'heat' of Mean"):
        target.load_record(record)
    target.heat = Celsius(1.0)
    with pytest.raises(RecordMismatchError, match="missing in the record: heat"):
        target.load_record(Record({"layer.weight": weight, "layer.bias": torch.zeros(2)}))
    assert items(target) == before
    assert torch.equal(target.layer.weight, weight)
    del target.mean
    with pytest.raises(RecordMismatchError, match="mean"):
        target.load_record(record)
    assert "mean" not in vars(target)
