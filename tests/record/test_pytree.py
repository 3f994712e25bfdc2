"""Objects, items of modules and trees of state_dict() as records, and back by what their types declare."""

import copy
import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor, nn

import burnlike as bl
from burnlike.errors import RecordError, RecordFormatError, RecordMismatchError
from burnlike.record import Record, SafetensorsRecorder, open_record, pytree
from burnlike.record.metadata import dump_values, load_values
from burnlike.record.pytree import from_leaves, layout_of_type, to_leaves
from burnlike.record.state_dict.module_state import decode_tree, encode_tree
from burnlike.train import TrainingState


class Kind(Enum):
    PLAIN = 1
    NORMED = "n"


@dataclass(frozen=True, slots=True)
class Moments:
    time: int
    first: Tensor
    largest: Tensor | None = None


class Point(NamedTuple):
    x: float
    label: str


@dataclass
class Celsius:
    """Joins by two methods; stored in kelvin."""

    degrees: float

    def into_item(self) -> dict[str, float]:
        return {"kelvin": self.degrees + 273.0}

    @classmethod
    def from_item(cls, item: dict[str, float]) -> Self:
        return cls(item["kelvin"] - 273.0)


@dataclass
class Everything:
    moments: Moments
    layers: list[Moments]
    pair: tuple[Tensor, int]
    many: tuple[float, ...]
    by_name: dict[str, Tensor]
    by_number: dict[int, Moments]
    kind: Kind
    point: Point
    heat: Celsius
    array: np.ndarray
    mode: Literal["sum", "mean"]
    steps: Annotated[int, "of the optimizer"]
    either: int | str
    some: Moments | None
    none: Moments | None
    nothing: None
    flags: list[bool]
    empty: list[Tensor]
    no_names: dict[str, Tensor]
    anything: Any
    computed: float = field(init=False, default=1.5)


def everything() -> Everything:
    moments = Moments(3, torch.ones(2, 3), None)
    return Everything(
        moments=moments,
        layers=[moments, Moments(4, torch.zeros(1), torch.full((1,), 7.0))],
        pair=(torch.arange(3), 5),
        many=(1.0, math.inf, -0.5),
        by_name={"layer.0.weight": torch.ones(1), "bias": torch.zeros(2)},
        by_number={7: moments},
        kind=Kind.NORMED,
        point=Point(0.25, "here"),
        heat=Celsius(20.0),
        array=np.arange(4, dtype=np.uint32),
        mode="mean",
        steps=2**70,
        either="text",
        some=moments,
        none=None,
        nothing=None,
        flags=[True, False],
        empty=[],
        no_names={},
        anything={"a": [1, {"b": torch.ones(1)}], "c": None},
    )


def plain(item: Any) -> Any:
    """Comparable: tensors and arrays as dtype and numbers, objects as their fields."""
    if isinstance(item, Tensor | np.ndarray):
        return (str(item.dtype), item.tolist())
    if hasattr(item, "__dataclass_fields__"):
        return {name: plain(getattr(item, name)) for name in item.__dataclass_fields__}
    if isinstance(item, Mapping):
        return {key: plain(part) for key, part in item.items()}
    return [type(item).__name__, *map(plain, item)] if isinstance(item, list | tuple) else item


def test_every_kind_of_field_comes_back_through_a_file(tmp_path: Path) -> None:
    source = everything()
    source.computed = 2.5
    path = SafetensorsRecorder().save(Record.of(source), tmp_path / "all")
    found = SafetensorsRecorder().load(path).into(Everything)
    assert plain(found) == plain(source)
    assert type(found.point) is Point
    assert found.kind is Kind.NORMED


def test_tensors_are_named_by_their_paths_and_not_copied_arrays_are() -> None:
    source = everything()
    tensors, values = to_leaves(source)
    assert set(tensors) == {
        "moments.first",
        "layers.0.first",
        "layers.1.first",
        "layers.1.largest",
        "pair.0",
        "by_name.layer.0.weight",
        "by_name.bias",
        "by_number.7.first",
        "array",
        "some.first",
        "anything.a.1.b",
    }
    assert values["pair"] == [None, 5]
    assert values["heat"] == {"kelvin": 293.0}
    assert values["kind"] == "NORMED"
    assert tensors["moments.first"].data_ptr() == source.moments.first.data_ptr()
    source.array[0] = 99
    assert tensors["array"].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"first": None}, r"'moments\.first' of Moments is missing in the record \(Tensor\)"),
        ({"time": None}, r"'moments\.time' of Moments is missing in the record \(int\)"),
        ({"time": "3"}, r"'moments\.time' of Moments: expected int, got '3'"),
        ({"time": True}, r"'moments\.time' of Moments: expected int, got True"),
        ({"time": torch.ones(1)}, r"'moments\.time' of Moments: expected int, got a tensor"),
        ({"extra": 1}, r"'moments\.extra' in the record, for which Holder has no place"),
        ({"extra": torch.ones(1)}, r"'moments\.extra' in the record, for which Holder has no place"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], message: str) -> None:
    parts = {"time": 3, "first": torch.ones(1), **change}
    record = Record.of({"moments": {name: part for name, part in parts.items() if part is not None}})
    with pytest.raises(RecordMismatchError, match=message):
        record.into(Holder)


@dataclass
class Holder:
    moments: Moments


def test_near_names_are_offered() -> None:
    with pytest.raises(RecordMismatchError, match=r"did you mean 'moments\.frist'"):
        Record.of({"moments": {"time": 3, "frist": torch.ones(1)}}).into(Holder)


def test_an_enum_name_that_is_not_there_and_a_refusing_type_are_errors() -> None:
    @dataclass
    class Has:
        kind: Kind

    with pytest.raises(RecordMismatchError, match=r"'kind' of Has: expected Kind, got 'OTHER'"):
        from_leaves(Has, {}, {"kind": "OTHER"})
    with pytest.raises(RecordMismatchError, match=r"Celsius.from_item refused it: KeyError: 'kelvin'"):
        Record(values={"celsius": 3.0}).into(Celsius)


def test_whole_numbers_are_taken_for_floats_and_not_the_other_way() -> None:
    assert from_leaves(Point, {}, {"x": 3, "label": "a"}) == Point(3.0, "a")
    with pytest.raises(RecordMismatchError, match=r"'label' of Point: expected str, got 3"):
        from_leaves(Point, {}, {"x": 3, "label": 3})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"a": {"f": print}}, r"'a\.f': expected a tensor, .*, got builtin_function_or_method"),
        ({"a": np.array(["x"])}, "'a' can't become a tensor"),
        ({"a.b": {"c": 1}}, r"the key 'a\.b' of something with parts has a dot"),
        ({"a.b": torch.ones(1), "a": {"b": torch.ones(1)}}, r"two tensors would be named 'a\.b'"),
        ({1.5: 2}, r"expected texts, whole numbers or enums as keys, got 1\.5"),
        (torch.ones(1), "a tensor alone needs a name"),
    ],
)
def test_what_can_not_be_stored_is_refused(source: Any, message: str) -> None:
    with pytest.raises(RecordError, match=message):
        to_leaves(source)


def test_tensors_of_burnlike_are_stored_and_come_back() -> None:
    @dataclass
    class Both:
        ours: bl.Tensor
        theirs: Tensor

    inner = torch.arange(3.0)
    record = Record.of(Both(bl.Tensor(inner), inner))
    assert record.ours.data_ptr() == inner.data_ptr()
    found = record.into(Both)
    assert isinstance(found.ours, bl.Tensor)
    assert found.ours.inner.tolist() == [0, 1, 2]
    assert Record({"a": bl.Tensor(inner)}).a is inner
    assert layout_of_type(Both) == {"ours": "tensor", "theirs": "tensor"}


def test_what_holds_itself_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(RecordError, match="nested too deeply"):
        to_leaves({"ring": ring})


def test_a_declared_type_that_says_nothing_is_an_error() -> None:
    @dataclass
    class Odd:
        what: bytes

    with pytest.raises(RecordError, match=r"'what' of Odd is declared as bytes, which can't be read"):
        from_leaves(Odd, {}, {"what": "x"})


def test_a_record_goes_through_burns_format_without_loss(tmp_path: Path) -> None:
    path = tmp_path / "all.mpk"
    source = everything()
    source.steps = 2**64 - 1
    bl.record.NamedMpkFileRecorder().save(Record.of(source), path)
    assert plain(bl.record.open_record(path).into(Everything)) == plain(source)


LEAVES = st.one_of(st.integers(), st.floats(allow_nan=False), st.text(max_size=5), st.booleans(), st.none())
TREES = st.recursive(
    LEAVES,
    lambda below: (
        st.lists(below, max_size=3) | st.dictionaries(st.text("a01", min_size=1, max_size=3), below, max_size=3)
    ),
    max_leaves=12,
)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(TREES)
def test_undeclared_trees_of_values_come_back(tree: Any) -> None:
    @dataclass
    class Has:
        tree: Any

    assert from_leaves(Has, *to_leaves(Has(tree))).tree == tree


def test_the_layout_has_the_fields_in_their_order() -> None:
    moments = {"time": "usize", "first": "tensor", "largest": {"$option": "tensor"}}
    assert layout_of_type(Moments) == moments
    assert list(layout_of_type(Moments)) == ["time", "first", "largest"]

    @dataclass
    class More:
        layers: list[Moments]
        pair: tuple[Tensor, float]
        names: dict[str, bool]
        heat: Celsius
        maybe: Moments | None

    assert layout_of_type(More) == {
        "layers": {"$vec": moments},
        "pair": {"$tuple": ["tensor", "f64"]},
        "names": {"$map": "bool"},
        "heat": {"$map": "f64"},
        "maybe": {"$option": moments},
    }
    assert layout_of_type(Everything) is None, "it has fields whose types leave open what they are"


class Temperature:
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
        self.heat = Temperature(value)
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
        twin.heat = Temperature(7.0)
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
    net.heat = Temperature(4.0)
    assert [*net.state_dict()] == ["heat", "layer.weight", "layer.bias"]
    constants = bl.nn.LinearConfig(d_input=2, d_output=2).init()
    constants.note = object()
    assert [*constants.state_dict()] == ["weight", "bias"]


def test_items_that_are_missing_unknown_or_refused_change_nothing(tmp_path: Path) -> None:
    class Cold(Temperature):
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
    target.heat = Temperature(1.0)
    with pytest.raises(RecordMismatchError, match="missing in the record: heat"):
        target.load_record(Record({"layer.weight": weight, "layer.bias": torch.zeros(2)}))
    assert items(target) == before
    assert torch.equal(target.layer.weight, weight)
    del target.mean
    with pytest.raises(RecordMismatchError, match="mean"):
        target.load_record(record)
    assert "mean" not in vars(target)


def test_trees_of_states_come_back_as_they_were() -> None:
    tree = {
        "tuple": (1, (2.5, None), [True]),
        "numbers": {1: "one", (2, 3): {"$tensor": "no tensor"}},
        "counter": Counter({5: 2}),
        "tensor": [torch.arange(3), {"x": torch.ones(())}],
        "array": np.arange(3, dtype=np.uint32),
        "scalar": np.float64(0.1),
    }
    tensors: dict[str, torch.Tensor] = {}
    found = decode_tree(encode_tree(tree, "it", tensors), tensors, "here")
    assert repr(found) == repr({**tree, "scalar": 0.1})
    assert set(tensors) == {"it.tensor.0", "it.tensor.1.x", "it.array"}


def test_tensors_of_one_name_are_kept_apart() -> None:
    tensors: dict[str, torch.Tensor] = {}
    values = encode_tree({"a.b": torch.zeros(1), "a": {"b": torch.ones(1)}}, "it", tensors)
    found = decode_tree(values, tensors, "here")
    assert found["a.b"].item() == 0
    assert found["a"]["b"].item() == 1


KEYS = st.text("$ab.", max_size=3) | st.integers() | st.booleans()
STATE_LEAVES = st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | st.booleans() | st.none()
STATE_TREES = st.recursive(
    STATE_LEAVES,
    lambda below: (
        st.lists(below, max_size=3)
        | st.lists(below, max_size=3).map(tuple)
        | st.dictionaries(KEYS, below, max_size=3)
        | st.dictionaries(st.integers(), st.integers(), max_size=2).map(Counter)
    ),
    max_leaves=12,
)


@settings(derandomize=True, max_examples=200, deadline=None)
@given(STATE_TREES)
def test_every_tree_comes_back_through_the_text_in_a_file(tree: Any) -> None:
    text = dump_values({"tree": encode_tree(tree, "tree", {})})
    assert repr(decode_tree(load_values(text, "text")["tree"], {}, "here")) == repr(tree)


@pytest.mark.parametrize(
    "damaged",
    [{"$tensor": "lost"}, {"$array": 3}, {"$tuple": 3}, {"$items": [[1]]}, {"$items": [[[], 1]]}, {"$code": "x"}],
)
def test_damaged_trees_are_refused(damaged: Any) -> None:
    with pytest.raises(RecordFormatError, match=r"here: a .* of the state is damaged"):
        decode_tree([damaged], {}, "here")


def test_what_holds_itself_or_needs_code_is_refused() -> None:
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(RecordError, match="nested too deeply, or holds itself"):
        encode_tree(ring, "ring", {})
    with pytest.raises(RecordError, match=r"'it\.f': .* got builtin_function_or_method, which can't be stored"):
        encode_tree({"f": print}, "it", {})


def test_time_grows_with_the_number_of_tensors_alone() -> None:
    class Asked(dict[str, torch.Tensor]):
        listed = 0

        def __iter__(self) -> Iterator[str]:
            self.listed += 1
            return super().__iter__()

        def keys(self) -> Any:
            self.listed += 1
            return super().keys()

    tensors = Asked()
    encode_tree([torch.ones(1) for _ in range(10)], "it", tensors)
    assert len(tensors) == 10
    assert not tensors.listed, "all names were gone through for a single one"


def test_hints_of_a_type_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    @dataclass
    class State:
        moment: Tensor
        step: int | None

    reads = Counter[Any]()
    read = pytree.get_type_hints
    monkeypatch.setattr(pytree, "get_type_hints", lambda kind: reads.update([kind]) or read(kind))
    states = {str(number): State(torch.ones(1), None) for number in range(20)}
    to_leaves(states, keeps_none=False)
    assert reads[State] == 1
    assert pytree.field_hints.cache_info().maxsize  # classes that functions define don't stay for good
