"""A module's own records and states are honoured, its own and those of its parts, and come back by its methods."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import burnlike as bl
from burnlike.errors import RecordError, RecordMismatchError
from burnlike.module import ParamGroup
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder, init_from, load, open_record, save
from burnlike.record.tools.renaming import rename
from burnlike.train import TrainingState

from .own_modules import MODULES, Extra, ExtraTensor, OwnEntries, Renamed, Transposed, filled, is_same, quantized


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


EACH = pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in MODULES.items()])


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
@EACH
@pytest.mark.parametrize("extension", ["safetensors", "bpk", "mpk", "mpk.gz", "json", "json.gz"])
def test_a_fresh_module_gets_the_whole_state_dict(extension: str, make: Callable[[], Any], tmp_path: Path) -> None:
    module, fresh = filled(make()), make()
    load(fresh, save(module, tmp_path / f"x.{extension}"))
    assert is_same(fresh.state_dict(), module.state_dict())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
@EACH
@pytest.mark.parametrize("zipped", [True, False])
def test_files_of_torch_load_strictly(zipped: bool, make: Callable[[], Any], tmp_path: Path) -> None:
    module, fresh = filled(make()), make()
    torch.save(module.state_dict(), tmp_path / "x.pt", _use_new_zipfile_serialization=zipped)
    load(fresh, tmp_path / "x.pt")
    assert is_same(fresh.state_dict(), module.state_dict())
    converted = save(open_record(tmp_path / "x.pt"), tmp_path / "converted")
    load(again := make(), converted)
    assert is_same(again.state_dict(), module.state_dict())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
@EACH
def test_a_training_state_has_it(make: Callable[[], Any], tmp_path: Path) -> None:
    module, fresh = filled(make()), make()
    TrainingState(model=module).save(tmp_path / "x")
    TrainingState(model=fresh).load(tmp_path / "x")
    assert is_same(fresh.state_dict(), module.state_dict())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
@pytest.mark.parametrize("dtype", [torch.qint8, torch.float16])
def test_a_quantized_module_computes_the_same(dtype: torch.dtype, tmp_path: Path) -> None:
    module, fresh = quantized(dtype), quantized(dtype)
    load(fresh, save(module, tmp_path / "x"))
    inputs = torch.randn(4, 8)
    assert torch.equal(fresh(inputs), module(inputs))


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
@pytest.mark.parametrize("make", [Extra, OwnEntries, Renamed])
def test_plain_copies_of_state_dicts_load(make: Callable[[], Any], tmp_path: Path) -> None:
    module, fresh = filled(make()), make()
    torch.save({**module.state_dict()}, tmp_path / "x.pt")
    load(fresh, tmp_path / "x.pt")
    assert is_same(fresh.state_dict(), module.state_dict())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
@pytest.mark.parametrize(("source", "target"), [(nn.Linear(2, 2), OwnEntries()), (OwnEntries(), nn.Linear(2, 2))])
def test_what_one_side_lacks_is_an_error(source: nn.Module, target: nn.Module) -> None:
    before = [it.clone() for it in target.parameters()]
    with pytest.raises(RecordMismatchError, match=r"[nN]othing was loaded"):
        Record.from_module(source).load_into(target)
    assert all(map(torch.equal, before, target.parameters()))


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_a_missing_and_an_unexpected_entry_are_named() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(2))

    with pytest.raises(RecordMismatchError, match="missing in the record: _extra_state"):
        Record.from_module(Plain()).load_into(Extra())
    with pytest.raises(RecordMismatchError, match=r"unexpected: _extra_state\n"):
        Record.from_module(Extra()).load_into(Plain())
    assert Record.from_module(Plain()).load_into(Extra(), strict=False).missing == ["_extra_state"]
    assert Record.from_module(Extra()).load_into(Plain(), strict=False).unexpected == ["_extra_state"]


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_the_report_tells_of_entries() -> None:
    report = Record.from_module(filled(OwnEntries())).load_into(OwnEntries())
    assert (report.applied, report.entries) == (["inner.weight", "inner.bias"], ["count", "table"])
    assert str(report) == "2 tensors loaded, and 2 entries of the modules' own"


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_objects_are_refused_with_their_name(tmp_path: Path) -> None:
    module: Any = nn.Sequential(Extra())
    module[0].seen = {"clock": object()}
    with pytest.raises(
        RecordError, match=r"'0\._extra_state'.*'seen\.clock'.*object, which can't be stored without code"
    ):
        save(module, tmp_path / "x")
    assert not list(tmp_path.iterdir())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_sets_of_files_have_it(tmp_path: Path) -> None:
    module, fresh = nn.Sequential(filled(Extra()), quantized()), nn.Sequential(Extra(), quantized())
    SafetensorsRecorder(shard_bytes=40).save(Record.from_module(module), tmp_path / "x")
    assert len([*(tmp_path / "x").glob("*.safetensors")]) > 2
    load(fresh, tmp_path / "x")
    assert is_same(fresh.state_dict(), module.state_dict())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_bincode_has_no_place_for_entries(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"bincode has no place for '0\._extra_state'.*safetensors"):
        save(nn.Sequential(Extra()), tmp_path / "x.bin")


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_tensors_of_entries_keep_their_types_whatever_the_precision(tmp_path: Path) -> None:
    module, fresh = filled(Extra()), Extra()
    load(fresh, save(module, tmp_path / "x", BFloat16Precision))
    assert torch.equal(fresh.mean, module.mean)
    assert torch.equal(fresh.weight, module.weight.bfloat16().float())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_options_of_a_load_count_for_entries(tmp_path: Path) -> None:
    module = nn.ModuleDict({"old": filled(Extra())})
    path = save(module, tmp_path / "x")
    new: Any = nn.ModuleDict({"new": Extra()})
    load(new, path, remap=[("^old", "new")])
    assert is_same(new["new"].state_dict(), module["old"].state_dict())
    same: Any = nn.ModuleDict({"old": Extra()})
    assert load(same, path, filter="weight$").skipped == ["old._extra_state"]
    assert same["old"].seen == {}
    entries, part = filled(OwnEntries()), OwnEntries()
    part.count = 5
    load(part, save(entries, tmp_path / "entries"), filter="inner")
    assert torch.equal(part.inner.weight, entries.inner.weight)
    assert part.count == 5


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_wrappers_are_looked_through(tmp_path: Path) -> None:
    compiled: Any = torch.compile(filled(Extra()))
    module, fresh = nn.Sequential(compiled), nn.Sequential(Extra())
    load(fresh, save(torch.compile(module), tmp_path / "x"))
    assert is_same(fresh.state_dict(), nn.Sequential(compiled._orig_mod).state_dict())
    torch.save(module.state_dict(), tmp_path / "x.pt")
    load(again := nn.Sequential(Extra()), tmp_path / "x.pt")
    assert is_same(again[0].state_dict(), fresh[0].state_dict())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_a_record_of_a_group_has_parameters_only() -> None:
    record = Record.from_module(filled(Extra()), ParamGroup.from_path("weight"))
    assert [*record.tensors] == ["weight"]
    assert not record.values


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_modules_on_the_meta_device_are_filled(tmp_path: Path) -> None:
    def make() -> Any:
        return nn.Sequential(Extra(), OwnEntries(), Transposed(), nn.BatchNorm1d(2))

    module = filled(make())
    path = save(module, tmp_path / "x")
    with torch.device("meta"):
        found = make()
    assert not load(found, path, device="cpu").unset
    for it in (found, init_from(make, path)):
        assert is_same(it.state_dict(), module.state_dict())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_plain_modules_write_nothing_of_it(tmp_path: Path) -> None:
    record = open_record(save(nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)), tmp_path / "x"))
    assert not record.values
    assert not {it for it in record.metadata if it.startswith("burnlike")}


class RefusingState(nn.Module):
    """Changes what it has before it refuses its state."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(2))
        self.seen: dict[str, Any] = {"kept": 1}
        self.refuses = False

    def get_extra_state(self) -> Any:
        return dict(self.seen)

    def set_extra_state(self, state: Any) -> None:
        self.seen.clear()
        self.seen.update(state)
        if self.refuses and "kept" not in state:
            with torch.no_grad():
                self.weight.zero_()
            raise ValueError("a state of another time")


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
@pytest.mark.parametrize("refuses", [True, False], ids=["by its own code", "elsewhere"])
def test_nothing_is_half_changed_if_a_load_fails(refuses: bool, tmp_path: Path) -> None:
    saved: Any = nn.Sequential(nn.Linear(2, 2), RefusingState(), nn.Linear(2, 3))
    saved[1].seen = {"new": 2}
    nn.init.zeros_(saved[1].weight)
    target: Any = nn.Sequential(nn.Linear(2, 2), RefusingState(), nn.Linear(2, 3 if refuses else 4))
    target[1].refuses = refuses
    seen, before = target[1].seen, [it.clone() for it in target.parameters()]
    for attempt in (
        lambda: Record.from_module(saved).load_into(target),
        lambda: TrainingState(first=target[0], model=target).load_records(
            TrainingState(first=saved[0], model=saved).to_records()
        ),
    ):
        with pytest.raises(RecordMismatchError, match="a state of another time" if refuses else "2.weight"):
            attempt()
        assert target[1].seen is seen
        assert seen == {"kept": 1}
        assert all(map(torch.equal, before, target.parameters()))


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_shared_modules_and_tied_weights() -> None:
    def make() -> Any:
        shared = Extra()
        module: Any = nn.Sequential(shared, OwnEntries(), shared)
        module[1].inner.bias = shared.weight
        return module

    module, fresh = filled(make()), make()
    Record.from_module(module).load_into(fresh)
    assert is_same(fresh.state_dict(), module.state_dict())
    assert fresh[0] is fresh[2]
    assert fresh[1].inner.bias is fresh[0].weight


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_a_bare_tensor_takes_the_place_of_a_parameter_of_its_name() -> None:
    module = nn.ModuleDict({"a": filled(ExtraTensor())})
    record = Record.from_module(module)
    target: Any = nn.ModuleDict({"a": nn.Module()})
    target["a"].register_buffer("_extra_state", torch.zeros(3, dtype=torch.int32))
    record.load_into(target)
    assert torch.equal(target["a"]._extra_state, module["a"].seen)


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
def test_parts_nested_and_renamed_records_have_it_too(tmp_path: Path) -> None:
    def make() -> Any:
        return nn.Sequential(Extra(), OwnEntries(), quantized())

    module, fresh, again = filled(make()), make(), make()
    save({"models": {"first": module}, "step": 3}, tmp_path / "x")
    record = open_record(tmp_path / "x.safetensors")
    record.models.first.load_into(fresh)
    assert is_same(fresh.state_dict(), module.state_dict())
    for index in range(3):
        record.models.first[index].load_into(again[index])
    assert is_same(again.state_dict(), module.state_dict())
    assert record.models.first[0]._extra_state["seen"] == module[0].seen
    assert [*record.models.first[1]] == ["inner", "table", "count"]
    renamed = rename(Record.from_module(module), [(r"^(\d)", r"layer.\1")])
    renamed.layer.load_into(last := make())
    assert is_same(last.state_dict(), module.state_dict())


@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TypedStorage:UserWarning", "ignore:torch.quantize_per_tensor:UserWarning"
)
@pytest.mark.parametrize("extension", ["safetensors", "bpk", "mpk", "json"])
def test_values_of_every_kind_come_back(extension: str, tmp_path: Path) -> None:
    state = {
        "inf": float("inf"),
        "large": 2**80,
        "$key": 1,
        3: "key",
        "nested": (1, (2, [None, {}, []])),
        "set": {1, 2},
        "bytes": b"ab",
        "of torch": [torch.float16, torch.device("cpu")],
        "quantized": torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "channels": torch.quantize_per_channel(torch.eye(2), torch.ones(2), torch.zeros(2), 0, torch.quint8),
        "bfloat16": torch.ones(2, dtype=torch.bfloat16),
    }
    module: Any = nn.Sequential(Extra())
    fresh: Any = nn.Sequential(Extra())
    module[0].seen = state
    load(fresh, save(module, tmp_path / f"x.{extension}"))
    assert is_same(fresh[0].seen, state)
