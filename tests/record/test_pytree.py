"""Objects become records and come back by what their types declare."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

import burnlike as bl
from burnlike.errors import RecordError, RecordMismatchError
from burnlike.record import Record, SafetensorsRecorder
from burnlike.record.pytree import from_leaves, layout_of_type, to_leaves


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
