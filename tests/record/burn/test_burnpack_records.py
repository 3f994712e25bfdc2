"""Whose records files of Burn's formats hold: optimizers, schedulers, states, and clones with equal ids."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import burnlike as bl
import burnlike.record
from burnlike.cli.main import main
from burnlike.errors import RecordFormatError
from burnlike.module import Module, ParamId, params
from burnlike.record import (
    BinFileRecorder,
    BurnpackRecorder,
    NamedMpkFileRecorder,
    PrettyJsonFileRecorder,
    Record,
    open_record,
)
from tests.record.test_module_layout import MODULES

from .packs import descriptor, made, read, same

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


@pytest.mark.parametrize("name", ["optim_adamw", "optim_adamw_clip"])
def test_an_optimizer_that_goes_on_from_burns_file_writes_burns_file(name: str) -> None:
    path = GOLDENS / "v0.22" / f"{name}.bpk"
    optimizer = bl.optim.AdamWConfig().init().load_record(open_record(path))
    assert BurnpackRecorder().to_bytes(optimizer.to_record()) == path.read_bytes()


def test_an_optimizer_without_states_is_an_empty_file() -> None:
    data = BurnpackRecorder().to_bytes(bl.optim.AdamWConfig().init().to_record())
    assert data == (GOLDENS / "v0.22" / "empty.bpk").read_bytes()
    assert bl.optim.AdamWConfig().init().load_record(read(data)).to_record().values == {"states": {}, "paths": {}}


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


GOLDEN = Path(__file__).parents[2] / "golden" / "v0.22"
FORMATS = ["NamedMpkFileRecorder", "PrettyJsonFileRecorder", "JsonGzFileRecorder", "BurnpackRecorder"]
TENSORS = {
    "norm.running_mean": torch.zeros(2),
    "count": torch.tensor([1]),
    "weight": torch.zeros(2),
    "mask": torch.ones(1),
}
IDS = {name: ParamId(index) for index, name in enumerate(["norm.running_mean", "count", "weight"])}


@pytest.mark.parametrize("name", MODULES)
def test_modules_with_states_are_saved_as_burn_saves_them(name: str, tmp_path: Path) -> None:
    path = GOLDEN / f"{name}.bpk"
    module = MODULES[name]()
    bl.record.load(module, path, dtype="as_saved")
    assert Path(bl.record.save(module, tmp_path / "saved.bpk")).read_bytes() == path.read_bytes()


def test_burns_files_tell_statistics_and_whole_numbers() -> None:
    assert bl.record.open_record(GOLDEN / "tree.bpk").states == {"norm.running_mean", "norm.running_var"}
    assert bl.record.open_record(GOLDEN.parent / "v0.21" / "kinds-full.mpk").states == {"i", "b"}


@pytest.mark.parametrize("states", [(), ("mask",), ("norm.running_mean", "count"), ("weight", "count", "mask")])
@pytest.mark.parametrize("name", FORMATS)
def test_states_come_back_even_if_the_names_say_otherwise(name: str, states: tuple[str, ...]) -> None:
    recorder = getattr(burnlike.record, name)()
    record = Record(TENSORS, ids=IDS, states=states)
    assert set(recorder.from_bytes(recorder.to_bytes(record)).states) == set(states)


def test_states_that_are_not_there_are_refused() -> None:
    data = PrettyJsonFileRecorder().to_bytes(Record(TENSORS, ids=IDS, states=["mask"]))
    with pytest.raises(RecordFormatError, match="states"):
        PrettyJsonFileRecorder().from_bytes(data.replace(b'"mask"\n', b'"task"\n'))
    data = BurnpackRecorder().to_bytes(Record(TENSORS, ids=IDS, states=["mask"]))
    with pytest.raises(RecordFormatError, match="states"):
        BurnpackRecorder().from_bytes(data.replace(b'["mask"]', b'["task"]'))


@pytest.mark.parametrize("name", FORMATS)
def test_optimizers_without_states_stay_records_of_optimizers(name: str) -> None:
    record = Record(values={"states": {}, "paths": {str(ParamId(5)): "layer.weight"}})
    recorder = getattr(burnlike.record, name)()
    once = recorder.from_bytes(recorder.to_bytes(record))
    assert once.values == recorder.from_bytes(recorder.to_bytes(once)).values == record.values


OLDER = Path(__file__).parents[2] / "golden" / "older"


class Networks(Module):
    def __init__(self) -> None:
        super().__init__()
        self.online = bl.nn.LinearConfig(d_input=3, d_output=2).init()
        self.target = bl.nn.LinearConfig(d_input=3, d_output=2).init()


def entries() -> list[dict[str, Any]]:
    return json.loads((OLDER / "target_net.values.json").read_text())


def values_of(entry: dict[str, Any]) -> torch.Tensor:
    return torch.frombuffer(bytearray.fromhex(entry["hex"]), dtype=torch.float32).reshape(entry["shape"])


def test_a_target_network_is_loaded_and_gets_ids_of_its_own() -> None:
    model = Networks()
    before = {param.path: param.id for param in params(model)}
    report = bl.record.load(model, OLDER / "target_net.bpk")
    for entry in entries():
        torch.testing.assert_close(model.get_parameter(entry["path"]).data, values_of(entry), rtol=0, atol=0)
    ids = {param.path: param.id for param in params(model)}
    given = {entry["path"]: ParamId.parse(entry["id"]) for entry in entries()}
    assert {path: ids[path] for path in ("online.weight", "online.bias")} == {
        path: given[path] for path in ("online.weight", "online.bias")
    }
    assert ids["target.weight"] == before["target.weight"]
    assert report.clones == ["target.weight"]
    assert "with an id of its own, as the record's is that of another tensor: target.weight" in str(report)


def test_each_network_is_loaded_alone_with_its_ids() -> None:
    record = bl.record.open_record(OLDER / "target_net.bpk")
    for name in ("online", "target"):
        model = bl.nn.LinearConfig(d_input=3, d_output=2).init()
        report = record[name].load_into(model)
        ids = {entry["path"]: entry["id"] for entry in entries()}
        assert {f"{name}.{param.path}": str(param.id) for param in params(model)}.items() <= ids.items()
        assert not report.clones


@pytest.mark.parametrize("through", ["mpk", "json.gz", "safetensors"])
def test_it_is_written_again_byte_for_byte_through_every_format(through: str, tmp_path: Path) -> None:
    source = OLDER / "target_net.bpk"
    record = bl.record.open_record(bl.record.save(bl.record.open_record(source), tmp_path / f"x.{through}"))
    assert Path(bl.record.save(record, tmp_path / "again.bpk")).read_bytes() == source.read_bytes()


def test_a_clone_of_a_lazy_parameter_in_messagepack_comes_back(tmp_path: Path) -> None:
    source = OLDER / "v0.21" / "tree-full.mpk"
    record = bl.record.open_record(source)
    assert record.values == {"$ids": {"tied.weight": str(record.ids["lin.weight"])}}
    assert not record.tensors["tied.weight"].equal(record.tensors["lin.weight"])
    assert Path(bl.record.save(record, tmp_path / "again.mpk")).read_bytes() == source.read_bytes()


def test_inspect_says_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(OLDER / "target_net.bpk")]) == 0
    text = capsys.readouterr().out
    assert "note: 1 tensors have the id of another, with other values, as clones in Burn do: target.weight" in text
    assert text.count("bqts6j7ndjsqq") == 2


def test_damaged_ids_of_clones_are_refused() -> None:
    record = bl.record.Record({"a": torch.ones(1)}, {"$ids": {"a": "no id"}})
    with pytest.raises(RecordFormatError, match="no map from names to ids"):
        bl.record.BurnpackRecorder().to_bytes(record)
