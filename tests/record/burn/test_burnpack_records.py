"""What burnpack files say of optimizers, schedulers, tied tensors and values, and in which other files the same is."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from burnlike.errors import RecordFormatError
from burnlike.module import ParamId
from burnlike.record import (
    BinFileRecorder,
    BurnpackRecorder,
    NamedMpkFileRecorder,
    Record,
    SafetensorsRecorder,
    open_record,
)

from .packs import descriptor, made, read

GOLDENS = Path(__file__).parents[2] / "golden"
OPTIMIZERS = sorted(path.stem for path in (GOLDENS / "v0.22").glob("optim_*.bpk"))
STATES = {
    "optim_adafactor": {"weight": ["time", "second_moment", "column_second_moment"], "bias": ["time", "second_moment"]},
    "optim_adagrad": ["lr_decay.time", "lr_decay.sum"],
    "optim_adam": ["momentum.time", "momentum.moment_1", "momentum.moment_2"],
    "optim_adam_amsgrad": ["momentum.time", "momentum.moment_1", "momentum.moment_2", "momentum.max_moment_2"],
    "optim_adamw": ["momentum.time", "momentum.moment_1", "momentum.moment_2"],
    "optim_adamw_clip": ["momentum.time", "momentum.moment_1", "momentum.moment_2"],
    "optim_adan": [
        "momentum.time",
        "momentum.exp_avg",
        "momentum.exp_avg_sq",
        "momentum.exp_avg_diff",
        "momentum.neg_pre_grad",
    ],
    "optim_groups": {
        "weight": ["momentum.velocity"],
        "bias": ["momentum.time", "momentum.moment_1", "momentum.moment_2"],
    },
    "optim_lamb": ["time", "moment_1", "moment_2"],
    "optim_lion": ["momentum"],
    "optim_rmsprop": ["square_avg.square_avg", "centered.grad_avg", "centered.avg", "momentum.buf"],
    "optim_sgd": [],
    "optim_sgd_momentum": ["momentum.velocity"],
}
"""The leaves of the states in the files, by Burn's field names and in their order."""

ID = ParamId(123456)
ID_2 = ParamId(2**64 - 1)


def ordered(value: Any) -> str:
    """The same text for equal values, NaN and the sign of zero told apart, in whatever order maps are."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key!r}: {ordered(value[key])}" for key in sorted(value)) + "}"
    return "[" + ", ".join(map(ordered, value)) + "]" if isinstance(value, list) else repr(value)


def same(one: Record, other: Record) -> None:
    """Assert that two records hold the same."""
    assert set(one.tensors) == set(other.tensors)
    for name in one.tensors:
        assert one.tensors[name].dtype == other.tensors[name].dtype
        assert torch.equal(one.tensors[name], other.tensors[name])
    assert ordered(one.values) == ordered(other.values)
    assert one.ids == other.ids
    assert one.aliases == other.aliases
    assert set(one.states) == set(other.states)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_of_burn_have_their_states_by_id_and_the_paths_beside(name: str) -> None:
    record = open_record(GOLDENS / "v0.22" / f"{name}.bpk")
    told = json.loads((GOLDENS / "v0.22" / f"{name}.values.json").read_text())
    ids = {it["path"]: it["id"] for it in told["params"]}
    states = STATES[name]
    expected = [
        f"{it}.{leaf}" for path, it in ids.items() for leaf in (states if isinstance(states, list) else states[path])
    ]
    assert record.values["paths"] == {it: path for path, it in ids.items()}
    assert {*record.tensors, *record.values["states"]} == set(expected)
    assert record.ids == {}
    steps = {value for path, value in record.values["states"].items() if path.endswith("time")}
    assert steps in (set(), {len(told["steps_before_save"])})
    assert {it: state["rank"] for it, state in record.layout.items()} == {
        it["id"]: len(it["shape"]) for it in told["params"]
    }


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_go_from_burnpack_to_messagepack_and_bincode_and_back(name: str, tmp_path: Path) -> None:
    source = GOLDENS / "v0.22" / f"{name}.bpk"
    record = open_record(source)
    item = open_record(NamedMpkFileRecorder().save(record, tmp_path / "optim"))
    assert BurnpackRecorder().to_bytes(item) == source.read_bytes()
    same(item, record)
    positional = open_record(BinFileRecorder().save(record, tmp_path / "optim"), record.layout)
    assert dict(positional.values["states"]) == dict(record.values["states"])
    assert set(positional.tensors) == set(record.tensors)


@pytest.mark.parametrize("path", sorted((GOLDENS / "v0.21").glob("optim_*.mpk")), ids=lambda path: path.name)
def test_optimizers_go_from_messagepack_to_burnpack_and_back(path: Path, tmp_path: Path) -> None:
    saved = BurnpackRecorder().save(open_record(path), tmp_path / "optim")
    again = open_record(saved)
    same(again, open_record(path))
    assert NamedMpkFileRecorder().to_bytes(again) == path.read_bytes()
    assert b"burnlike" not in Path(saved).read_bytes(), "Burn's own names say it all"


def test_an_optimizer_is_named_as_burn_names_it() -> None:
    record = Record(
        {f"{ID}.momentum": torch.ones(2, 3), f"{ID_2}.momentum": torch.ones(1)},
        {"states": {}, "paths": {str(ID): "linear.weight", str(ID_2): "linear.bias"}},
    )
    numbers = (123456, 18446744073709551615)
    assert BurnpackRecorder().to_bytes(record) == made(
        {
            "tensors": {
                f"{numbers[0]}.momentum": descriptor(0, 24, shape=[2, 3], param_id=numbers[0]),
                f"{numbers[1]}.momentum": descriptor(256, 260, param_id=numbers[1]),
            },
            "metadata": {str(numbers[0]): "linear.weight", str(numbers[1]): "linear.bias"},
            "scalars": {f"{numbers[0]}.__rank": {"UInt": 2}, f"{numbers[1]}.__rank": {"UInt": 1}},
        },
        torch.ones(6).numpy().tobytes() + bytes(232) + torch.ones(1).numpy().tobytes(),
    )


def test_states_of_other_optimizers_come_back_with_lists_and_types() -> None:
    metadata = {
        "tensors": {
            "7.history.0": descriptor(0, 4, param_id=7),
            "7.history.1": descriptor(256, 260, param_id=7),
        },
        "metadata": {"7": "weight"},
        "scalars": {
            "7.__rank": {"UInt": 1},
            "7.direction": {"Int": 4},
            "7.done": {"Bool": True},
            "7.history.len": {"UInt": 2},
            "7.loss": {"Float": 3.0},
        },
    }
    data = made(metadata, bytes(260))
    found = read(data)
    name = str(ParamId(7))
    assert found.values == {
        "states": {f"{name}.direction": 4, f"{name}.done": True, f"{name}.loss": 3.0},
        "paths": {name: "weight"},
    }
    assert list(found.tensors) == [f"{name}.history.0", f"{name}.history.1"]
    assert BurnpackRecorder().to_bytes(found) == data
    item = NamedMpkFileRecorder().from_bytes(NamedMpkFileRecorder().to_bytes(found))
    same(item, found)


def test_a_state_without_its_rank_has_that_of_its_tensors() -> None:
    metadata = {
        "tensors": {
            "7.momentum": descriptor(0, 4, param_id=7),
            "8.momentum": descriptor(256, 264, shape=[2, 1], param_id=8),
        },
        "scalars": {"7.__rank": {"UInt": 1}},
    }
    found = read(made(metadata, bytes(264)))
    assert {it: state["rank"] for it, state in found.layout.items()} == {str(ParamId(7)): 1, str(ParamId(8)): 2}


def test_states_without_ids_are_plain_tensors_and_values() -> None:
    metadata = {
        "tensors": {"d": descriptor(0, 4), "history_s.0": descriptor(256, 260)},
        "scalars": {"g_iter": {"UInt": 3}, "history_s.len": {"UInt": 1}, "prev_loss": {"Float": 0.5}},
    }
    data = made(metadata, bytes(260))
    found = read(data)
    assert found.values == {"g_iter": 3, "history_s": {"len": 1}, "prev_loss": 0.5}
    assert set(found.tensors) == {"d", "history_s.0"}
    assert BurnpackRecorder().to_bytes(found) == data


SCHEDULERS: dict[str, tuple[Any, Any]] = {
    "lr_constant": ({}, None),
    "lr_linear": ({"0": {"remaining_iters": 4}}, {"0": {"remaining_iters": "u64"}}),
    "lr_cosine": ({"0": {"current_iter": 4}}, {"0": {"current_iter": "u64"}}),
    "lr_exponential": ({"0": {"previous_lr": 0.24009999999999992}}, {"0": {"previous_lr": "f64"}}),
    "lr_noam": ({"0": {"step": 5.0}}, {"0": {"step": "f64"}}),
    "lr_step": ({"0": {"iter_idx": 4}}, {"0": {"iter_idx": "i64"}}),
    "lr_composed": (
        {"0": {"0": {"remaining_iters": 0}, "1": {"current_iter": 4}, "2": {"previous_lr": 0.6561000000000001}}},
        {"0": {"0": {"remaining_iters": "u64"}, "1": {"current_iter": "u64"}, "2": {"previous_lr": "f64"}}},
    ),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_have_their_values_nested_and_typed(name: str) -> None:
    values, layout = SCHEDULERS[name]
    record = open_record(GOLDENS / "v0.22" / f"{name}.bpk")
    assert repr(record.values) == repr(values)
    assert record.layout == layout
    by_hand = Record(values=values, layout=layout)
    assert BurnpackRecorder().to_bytes(by_hand) == (GOLDENS / "v0.22" / f"{name}.bpk").read_bytes()


def test_numbers_without_a_type_get_one_that_holds_them() -> None:
    values = {"a": {"b": 2**64 - 1, "c": -1, "d": 1.0, "e": False}, "f": 3}
    scalars = {"a.b": {"UInt": 2**64 - 1}, "a.c": {"Int": -1}, "a.d": {"Float": 1.0}, "a.e": {"Bool": False}}
    data = BurnpackRecorder().to_bytes(Record(values=values))
    assert data == made({"tensors": {}, "scalars": {**scalars, "f": {"UInt": 3}}})
    assert repr(read(data).values) == repr(values)


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
    with pytest.raises(RecordFormatError, match=r"'b\.weight' has the param_id of 'a\.weight', but other values"):
        read(data[:-1] + b"\x40")


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
