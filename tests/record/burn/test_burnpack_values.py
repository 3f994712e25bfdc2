"""Tied tensors, values, names and layouts in burnpack files, and records of any kind there and back."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from burnlike.module import ParamId
from burnlike.record import BurnpackRecorder, NamedMpkFileRecorder, Record, SafetensorsRecorder, open_record

from .packs import descriptor, made, read, same

GOLDENS = Path(__file__).parents[2] / "golden"
ID = ParamId(123456)


def test_what_burn_has_no_place_for_comes_back() -> None:
    record = Record(
        {"weight": torch.ones(2), "mean": torch.zeros(2)},
        {"text": "x", "none": None, "list": [1, {"a": math.inf}], "": 4, "a.b": 1, "empty": {}, "large": 2**70, "n": 5},
        {"weight": ID},
        {"other": "mean"},
        states={"mean"},
        layout={"weight": "param", "mean": "param", "other": "param", "act": "constant"},
        metadata={"producer": "me"},
    )
    found = read(BurnpackRecorder().to_bytes(record))
    assert {key: repr(found.values[key]) for key in record.values} == {
        key: repr(it) for key, it in record.values.items()
    }
    assert found.ids == record.ids
    assert found.aliases == record.aliases
    assert set(found.states) == {"mean"}
    assert found.layout == record.layout
    assert found.metadata == {"producer": "me"}


def test_tied_parameters_are_stored_once_under_all_their_names() -> None:
    record = Record({"decoder": torch.ones(64), "b": torch.zeros(1)}, ids={"decoder": ID}, aliases={"a": "decoder"})
    data = BurnpackRecorder().to_bytes(record)
    tied = descriptor(0, 256, param_id=ID.value)
    metadata = {"burnlike.aliases": '{"a":"decoder"}', "burnlike.format": "2"}
    tensors = {"a": tied, "b": descriptor(256, 260), "decoder": tied}
    assert data == made({"tensors": tensors, "metadata": metadata}, torch.ones(64).numpy().tobytes() + bytes(4))
    same(read(data), record)
    assert read(made({"tensors": tensors}, data[-260:])).aliases == {"decoder": "a"}, "the first by name has it"


def test_tied_parameters_that_burn_stored_twice_are_one_and_are_written_twice_again() -> None:
    tied = [descriptor(start, start + 4, param_id=5) for start in (0, 512)]
    metadata = {"tensors": {"a.weight": tied[0], "b.bias": descriptor(256, 260, param_id=6), "b.weight": tied[1]}}
    data = made(metadata, b"\0\0\x80\x3f" + bytes(508) + b"\0\0\x80\x3f")
    found = read(data)
    assert list(found.tensors) == ["a.weight", "b.bias"]
    assert found.aliases == {"b.weight": "a.weight"}
    assert found.ids == {"a.weight": ParamId(5), "b.bias": ParamId(6)}
    assert BurnpackRecorder().to_bytes(found) == data
    item = NamedMpkFileRecorder().from_bytes(NamedMpkFileRecorder().to_bytes(found))
    assert BurnpackRecorder().to_bytes(item) == data


def test_a_layout_made_for_other_formats_stays_out_of_the_file() -> None:
    path = GOLDENS / "v0.22" / "tree.bpk"
    item = NamedMpkFileRecorder().from_bytes(NamedMpkFileRecorder().to_bytes(open_record(path)))
    assert item.layout is not None
    assert BurnpackRecorder().to_bytes(item) == path.read_bytes()


@pytest.mark.parametrize("name", ["tree", "kinds", "batch_norm", "net"])
def test_modules_of_burn_0_21_go_to_burnpack_and_back(name: str) -> None:
    path = GOLDENS / "v0.21" / f"{name}-full.mpk"
    found = read(BurnpackRecorder().to_bytes(open_record(path)))
    assert NamedMpkFileRecorder().to_bytes(found) == path.read_bytes()


def test_values_that_look_like_an_optimizer_stay_values() -> None:
    record = Record(values={"7": {"__rank": 1}})
    same(read(BurnpackRecorder().to_bytes(record)), record)


def test_a_safetensors_file_takes_an_optimizer_both_ways(tmp_path: Path) -> None:
    source = GOLDENS / "v0.22" / "optim_adam.bpk"
    saved = SafetensorsRecorder().save(open_record(source), tmp_path / "optim")
    assert BurnpackRecorder().to_bytes(open_record(saved)) == source.read_bytes()


NAMES = st.lists(st.text("ab0_\u00fc\U0001f600", min_size=1, max_size=3), min_size=1, max_size=3).map(".".join)
DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint16, torch.float64])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**66), 2**66) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a.$0", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Records with ids, tied tensors, states and all kinds of values."""
    shapes = draw(st.dictionaries(NAMES, st.lists(st.integers(0, 3), max_size=3), max_size=5))
    tensors = {
        name: torch.ones(shape).cumsum(0).to(draw(DTYPES)) if shape else torch.tensor(2.5)
        for name, shape in shapes.items()
    }
    names = list(tensors)
    some = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    ids = {name: ParamId(draw(st.integers(0, 2**64 - 8)) // 8 * 8 + index) for index, name in enumerate(some)}
    new = draw(st.lists(NAMES.filter(lambda name: name not in tensors), max_size=3, unique=True)) if names else []
    aliases = {name: draw(st.sampled_from(names)) for name in new}
    values = draw(st.dictionaries(st.text("a.$0", max_size=3), VALUES, max_size=4))
    return Record(tensors, values, ids, aliases, states=frozenset(names) - ids.keys())


@settings(derandomize=True, max_examples=150, deadline=None)
@given(records())
def test_records_come_back(record: Record) -> None:
    assume(record.tensors or isinstance(record.values.get(""), str | None) or "" not in record.values)  # no schedule
    data = BurnpackRecorder().to_bytes(record)
    found = read(data)
    assert {key: repr(found.values[key]) for key in found.values} == {
        key: repr(it) for key, it in record.values.items()
    }
    same(Record(found.tensors, record.values, found.ids, found.aliases, states=found.states), record)
    if all(it.numel() for it in record.tensors.values()):  # those without values have no place that could tell
        assert list(found.tensors) == list(record.tensors)
        assert BurnpackRecorder().to_bytes(found) == data


LEAVES = st.sampled_from(["momentum", "step.time", "a.b.c", "a.d"])


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.sets(LEAVES), min_size=1, max_size=4),
    st.booleans(),
    st.integers(-5, 5) | st.floats() | st.booleans() | st.none() | st.text(max_size=2),
)
def test_optimizers_come_back(ids: dict[int, set[str]], with_paths: bool, value: Any) -> None:
    texts = {number: str(ParamId(number)) for number in ids}
    tensors = {f"{texts[it]}.{leaf}": torch.ones(2) for it, leaves in ids.items() for leaf in sorted(leaves)}
    states = {f"{text}.time": value for text in texts.values()}
    paths = {text: f"layers.{index}" for index, text in enumerate(texts.values())} if with_paths else {}
    record = Record(tensors, {"states": states, "paths": paths})
    found = read(BurnpackRecorder().to_bytes(record))
    assert set(found.tensors) == set(tensors)
    assert {key: repr(it) for key, it in found.values["states"].items()} == {
        key: repr(it) for key, it in states.items()
    }
    assert found.values["paths"] == paths
