"""Formats with names: Burn's files from 0.14 on both ways, random records, and records that are hard to nest."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import Tensor

import burnlike as bl
from burnlike.cli.main import main
from burnlike.config import ModuleConfig
from burnlike.errors import DTypeError, RecordError, RecordFormatError, RecordMismatchError
from burnlike.module import Module, ModuleEnum, ParamId, params
from burnlike.record import (
    FileRecorder,
    JsonGzFileRecorder,
    NamedMpkBytesRecorder,
    NamedMpkFileRecorder,
    NamedMpkGzFileRecorder,
    PrettyJsonFileRecorder,
    Record,
    layout_of,
    open_record,
    recorder_for,
)
from tests.burn_configs import scheduler_config

from .samples import (
    GOLDEN,
    VALUES,
    assert_same,
    goldens,
    optimizer_records,
    params_of,
    records,
    same,
    unpacked,
    values_of,
)

RECORDERS: dict[str, type[FileRecorder]] = {
    ".mpk": NamedMpkFileRecorder,
    ".mpk.gz": NamedMpkGzFileRecorder,
    ".mpkbytes": NamedMpkBytesRecorder,
    ".json": PrettyJsonFileRecorder,
    ".json.gz": JsonGzFileRecorder,
}
NAMES = goldens(*RECORDERS)
each_recorder = pytest.mark.parametrize(
    "recorder", [NamedMpkFileRecorder(), PrettyJsonFileRecorder(), JsonGzFileRecorder()]
)


def recorder_of(name: str) -> FileRecorder:
    return RECORDERS[name[name.index(".") :]]()


def test_there_are_files_of_every_recorder() -> None:
    assert {name[name.index(".") :] for name in NAMES} == RECORDERS.keys()
    assert len(NAMES) > 150


@pytest.mark.parametrize("name", NAMES)
def test_burns_files_are_written_again_byte_for_byte(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    recorder = recorder_of(name)
    assert unpacked(recorder.to_bytes(recorder.from_bytes(data))) == unpacked(data)


@pytest.mark.parametrize("name", [name for name in NAMES if not name.startswith(("optim_", "lr_"))])
def test_burns_files_hold_what_burn_says(name: str) -> None:
    record = recorder_of(name).from_bytes((GOLDEN / name).read_bytes())
    expected = params_of(name)
    assert list(record.tensors) == [path for path, _, _ in expected]
    assert {path: str(param_id) for path, param_id in record.ids.items()} == {path: text for path, text, _ in expected}
    for path, _, values in expected:
        transposed = name.startswith("linear_col") and path == "weight"  # by Burn's save mapper
        assert same(record.tensors[path], values.t() if transposed else values), path
    assert record.values == {}


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("lr_")])
def test_schedulers_are_values(name: str) -> None:
    item = json.loads((GOLDEN / f"{name.split('-')[0]}-full.json").read_text())["item"]
    expected = {} if item is None else item if isinstance(item, dict) else {"": item}
    assert recorder_of(name).from_bytes((GOLDEN / name).read_bytes()).values == expected


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("optim_")])
def test_optimizers_are_states_by_ids(name: str) -> None:
    """The states of all parameters that Burn says the optimizer was for; JSON's own reader says which those are."""
    record = recorder_of(name).from_bytes((GOLDEN / name).read_bytes())
    ids = {param["id"] for param in values_of(name)["params"]}
    text = (GOLDEN / f"{name.split('.')[0]}.json").read_text()
    tensors, scalars = {}, {}
    for param_id, state in json.loads(text)["item"].items():
        assert param_id in ids
        ((rank, fields),) = state["V1"].items()
        for path, value in _leaves(fields, param_id):
            if isinstance(value, dict):
                tensors[path] = bytes(value["bytes"]), value["shape"]
                assert rank == f"Rank{len(value['shape'])}"
            elif value is not None:
                scalars[path] = value
    assert record.values == {"states": scalars, "paths": {}}
    found = {path: (_bytes(tensor), list(tensor.shape)) for path, tensor in record.tensors.items()}
    assert found == tensors


def _bytes(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def _leaves(value: Any, path: str) -> list[tuple[str, Any]]:
    if isinstance(value, dict) and "shape" not in value:
        return [leaf for key, below in value.items() for leaf in _leaves(below, f"{path}.{key}")]
    return [(path, value)]


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith((".mpk", ".json.gz")) and "tree" in name])
def test_formats_turn_into_each_other(name: str) -> None:
    record = recorder_of(name).from_bytes((GOLDEN / name).read_bytes())
    precision = name.split(".")[0]
    for extension, recorder in RECORDERS.items():
        if (GOLDEN / f"{precision}{extension}").exists():
            assert unpacked(recorder().to_bytes(record)) == unpacked((GOLDEN / f"{precision}{extension}").read_bytes())


@each_recorder
@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan"), 0.1, -0.0])
def test_floats_with_a_place_in_the_tree_come_back(recorder: FileRecorder, value: float) -> None:
    record = Record(values={"rate": value, "steps": 3}, layout={"rate": "f64", "steps": "usize"})
    assert_same(recorder.from_bytes(recorder.to_bytes(record)), record)


@each_recorder
@pytest.mark.parametrize(
    ("layout", "value"),
    [
        ("usize", -1),
        ("usize", 2**64),
        ("i64", 2**63),
        ("u32", 2**32),
        ("f64", 1),
        ("bool", 1),
        ("str", None),
        ("i32", 0.5),
    ],
)
def test_values_that_are_not_what_the_layout_says_are_refused(recorder: FileRecorder, layout: str, value: Any) -> None:
    with pytest.raises(RecordError, match=f"place for {layout}"):
        recorder.to_bytes(Record(values={"x": value}, layout={"x": layout}))


@each_recorder
@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), 0])
def test_integers_of_64_bits_have_a_place(recorder: FileRecorder, value: int) -> None:
    record = Record(values={"x": value}, layout={"x": "usize" if value >= 0 else "i64"})
    assert recorder.from_bytes(recorder.to_bytes(record)).values == {"x": value}


@each_recorder
def test_an_empty_list_beside_other_values_is_kept(recorder: FileRecorder) -> None:
    record = Record(values={"x": 3, "more": [], "none": {}}, layout={"x": "usize"})
    assert_same(recorder.from_bytes(recorder.to_bytes(record)), record)


@each_recorder
def test_keys_with_dots_keep_their_place(recorder: FileRecorder) -> None:
    record = Record(values={"a.b": 3, "c": {"": 4}}, layout={"a.b": "usize", "c": {"": "usize"}})
    found = recorder.from_bytes(recorder.to_bytes(record))
    assert_same(found, record)
    assert unpacked(recorder.to_bytes(found)) == unpacked(recorder.to_bytes(record))


@each_recorder
def test_two_values_of_one_path_are_refused(recorder: FileRecorder) -> None:
    record = Record(values={"a.b": 3, "a": {"b": 4}}, layout={"a.b": "usize", "a": {"b": "usize"}})
    with pytest.raises(RecordError, match=r"two values .* 'a\.b'"):
        recorder.to_bytes(record)


@each_recorder
@pytest.mark.parametrize("name", ["$vec", "a.$option.b", ".a", "a..b", "a.", ".".join("a" * 200), "a" * 5000])
def test_names_that_can_not_nest_are_refused(recorder: FileRecorder, name: str) -> None:
    with pytest.raises(RecordError, match="rename it"):
        recorder.to_bytes(Record({name: torch.ones(1)}))


@each_recorder
def test_a_name_that_begins_another_is_refused(recorder: FileRecorder) -> None:
    with pytest.raises(RecordError, match="can't both be in one tree"):
        recorder.to_bytes(Record({"a": torch.ones(1), "a.b": torch.ones(1)}))


@each_recorder
@pytest.mark.parametrize("record", [Record({"\ud800": torch.ones(1)}), Record(values={"x": "\udfff"})])
def test_texts_that_no_file_can_hold_are_refused(recorder: FileRecorder, record: Record) -> None:
    with pytest.raises(RecordError, match="half of a surrogate pair"):
        recorder.to_bytes(record)


@each_recorder
@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.complex64])
def test_types_that_burn_has_not_are_refused(recorder: FileRecorder, dtype: torch.dtype) -> None:
    with pytest.raises(DTypeError, match="Burn's formats can't hold"):
        recorder.to_bytes(Record({"x": torch.ones(2).to(dtype)}))


@each_recorder
def test_tied_parameters_are_written_at_each_place(recorder: FileRecorder) -> None:
    one = ParamId(7)
    record = Record({"a": torch.arange(50_000.0)}, ids={"a": one}, aliases={"b.c": "a"})
    data = recorder.to_bytes(record)
    assert unpacked(data).count(str(one).encode()) == 2
    assert_same(recorder.from_bytes(data), record)


@each_recorder
def test_tied_buffers_with_a_place_each_come_back_tied(recorder: FileRecorder) -> None:
    record = Record({"a": torch.ones(2)}, aliases={"b": "a"}, layout={"a": "tensor", "b": "tensor"})
    found = recorder.from_bytes(recorder.to_bytes(record))
    assert_same(found, record)
    assert unpacked(recorder.to_bytes(found)) == unpacked(recorder.to_bytes(record))


@pytest.mark.parametrize("name", ["two-full.mpk", "two-full.json", "two-full.json.gz", "two-full.mpk.gz"])
def test_a_file_that_is_cut_anywhere_is_refused(name: str) -> None:
    data = (GOLDEN / name).read_bytes()
    for length in range(len(data)):
        with pytest.raises(RecordFormatError):
            recorder_of(name).from_bytes(data[:length])


@pytest.mark.parametrize("name", ["two-full.mpk", "two-full.json", "two-full.json.gz", "two-full.mpk.gz"])
def test_formats_are_told_by_their_content(name: str, tmp_path: Any) -> None:
    (tmp_path / "record").write_bytes((GOLDEN / name).read_bytes())
    record = open_record(tmp_path / "record")
    for path, _, values in params_of(name):
        assert same(record.tensors[path], values)


_FILES = [
    name
    for name in goldens(".mpk", ".json", ".mpk.gz", ".json.gz")
    if name.startswith(("two", "kinds", "optim_adamw-", "lr_composed"))
]


@each_recorder
@settings(derandomize=True, max_examples=30, deadline=None)
@given(record=records())
def test_random_records_come_back(recorder: FileRecorder, record: Record) -> None:
    data = recorder.to_bytes(record)
    found = recorder.from_bytes(data)
    assert_same(found, record)
    assert unpacked(recorder.to_bytes(found)) == unpacked(data)


@each_recorder
@settings(derandomize=True, max_examples=30, deadline=None)
@given(record=optimizer_records())
def test_random_optimizer_records_come_back(recorder: FileRecorder, record: Record) -> None:
    found = recorder.from_bytes(recorder.to_bytes(record))
    assert_same(found, record)


@each_recorder
@settings(derandomize=True, max_examples=30, deadline=None)
@given(values=VALUES)
def test_values_beside_tensors_come_back(recorder: FileRecorder, values: dict[str, Any]) -> None:
    record = Record({"w": torch.ones(1)}, values)
    assert_same(recorder.from_bytes(recorder.to_bytes(record)), record)


@settings(derandomize=True, max_examples=150, deadline=None)
@given(data=st.data())
def test_damaged_files_are_refused_or_read(data: st.DataObject) -> None:
    """Never another error; whatever is read can be asked for its tensors."""
    name = data.draw(st.sampled_from(_FILES))
    recorder = recorder_for(name)
    content = bytearray((GOLDEN / name).read_bytes())
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(content) - 1))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "double"])):
            case "flip":
                content[place] = data.draw(st.integers(0, 255))
            case "cut":
                del content[place : place + data.draw(st.integers(1, 20))]
            case "insert":
                content[place:place] = data.draw(st.binary(min_size=1, max_size=10))
            case "double":
                content[place:place] = content[place : place + 40]
        content = content or bytearray(b"{")
    try:
        record = recorder.from_bytes(bytes(content))
        for tensor in record.tensors.values():
            assert tensor.numel() >= 0
    except RecordError:
        pass


FOLDER = Path(__file__).parents[2] / "golden" / "older"
VERSIONS = ("v0.14", "v0.16", "v0.20")


class Choice(ModuleEnum):
    Linear: bl.nn.Linear
    Conv: bl.nn.Conv2d


class Tree(Module):
    some: bl.nn.Linear | None
    none: bl.nn.Linear | None

    def __init__(self) -> None:
        super().__init__()

        def linear(d_input: int, d_output: int, bias: bool = True) -> bl.nn.Linear:
            return bl.nn.LinearConfig(d_input=d_input, d_output=d_output, bias=bias).init()

        self.lin, self.tied = linear(3, 3), linear(3, 3)
        self.tied.weight = self.lin.weight
        self.conv = bl.nn.Conv2dConfig(channels=(2, 3), kernel_size=(3, 2)).init()
        self.bn = bl.nn.BatchNormConfig(num_features=2).init()
        self.choice = Choice(Conv=bl.nn.Conv2dConfig(channels=(1, 2), kernel_size=(1, 1)).init())
        self.some = linear(2, 1)
        self.none = None
        self.list = [linear(1, 2), linear(2, 1, bias=False), linear(1, 1)]
        self.pair = (linear(2, 2), bl.nn.LayerNormConfig(d_model=2).init())
        self.drop = bl.nn.DropoutConfig(prob=0.5).init()
        self.register_buffer("ints", torch.zeros(3, dtype=torch.int32))
        self.raw, self.width, self.rate, self.flag = None, 3, 0.5, True


class Recurrent(Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = bl.nn.LstmConfig(d_input=2, d_hidden=3, bias=True).init()
        self.last = bl.nn.LinearConfig(d_input=3, d_output=1).init()


def parameters_of(version: str, name: str) -> Any:
    return json.loads((FOLDER / version / f"{name}.values.json").read_text())


def by_id(entries: list[dict[str, Any]]) -> dict[ParamId, Tensor]:
    return {
        ParamId.parse(it["id"]): torch.tensor(it.get("values", it.get("ints"))).reshape(it["shape"]) for it in entries
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", ["tree-full.mpk", "tree-full.bin", "tree-half.bin", "rec-full.bin"])
def test_modules_are_read_and_written_again(version: str, file: str, tmp_path: Path) -> None:
    name, _, rest = file.partition("-")
    path = FOLDER / version / file
    if not path.exists():
        pytest.skip("not among the files")
    model = Tree() if name == "tree" else Recurrent()
    bl.record.load(model, path)
    expected = by_id(parameters_of(version, name))
    found = {param.id: param.tensor for param in params(model)}
    assert found.keys() == expected.keys()
    for param_id, tensor in found.items():
        rtol = 1e-3 if rest.startswith("half") else 0
        torch.testing.assert_close(tensor, expected[param_id].to(tensor.dtype), rtol=rtol, atol=0)
    if rest.endswith(".bin") and version != "v0.14":  # whose ids are shorter
        record = bl.record.open_record(path, layout=layout_of(model, (0, int(version[3:]))))
        assert Path(bl.record.save(record, tmp_path / file)).read_bytes() == path.read_bytes()


def test_a_layout_of_another_version_is_refused_and_the_version_told() -> None:
    with pytest.raises(RecordFormatError, match=r"\(Burn 0\.20\.1 wrote it\)|layout"):
        bl.record.open_record(FOLDER / "v0.20" / "tree-full.bin", layout=layout_of(Tree(), (0, 21)))


def linear_of(entries: list[dict[str, Any]]) -> bl.nn.Linear:
    model = bl.nn.LinearConfig(d_input=3, d_output=2).init()
    (weight, bias) = by_id(entries).items()
    tensors = {"weight": weight[1], "bias": bias[1]}
    bl.record.Record(tensors, ids={"weight": weight[0], "bias": bias[0]}).load_into(model)
    return model


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("file", ["optim_adam-full.bin", "optim_adam-full.mpk", "optim_sgd_momentum-full.mpk"])
def test_optimizers_are_read(version: str, file: str, tmp_path: Path) -> None:
    name = file.partition("-")[0]
    optimizer = (
        bl.optim.AdamConfig() if "adam" in name else bl.optim.SgdConfig(momentum=bl.optim.MomentumConfig())
    ).init()
    model = linear_of(parameters_of(version, name)["before"])
    optimizer.load(FOLDER / version / file, module=model)
    record = optimizer.into_record()
    in_json = bl.record.open_record(FOLDER / version / f"{name}-full.mpk")
    assert record.values["states"] == in_json.values["states"]
    assert record.tensors.keys() == in_json.tensors.keys()
    for key, tensor in record.tensors.items():
        torch.testing.assert_close(tensor, in_json.tensors[key], rtol=0, atol=0)
    if "adam" in name:
        assert {key.partition(".")[2]: it for key, it in record.values["states"].items()} == {"momentum.time": 3}
    # What a conversion writes is an optimizer's file of Burn 0.22.
    path = bl.record.save(in_json, tmp_path / "optimizer.bpk")
    assert bl.record.open_record(path).values["states"] == in_json.values["states"]
    assert b"__rank" in Path(path).read_bytes()


SCHEDULES: dict[str, Callable[[], bl.optim.LrScheduler]] = {
    "lr_cosine": lambda: bl.optim.CosineAnnealingConfig(initial_lr=0.1, num_iters=7, min_lr=0.01, restart=True).init(),
    "lr_noam": lambda: bl.optim.NoamLrConfig(factor=0.1, warmup_steps=5, model_size=16).init(),
}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", SCHEDULES)
@pytest.mark.parametrize("extension", ["mpk", "bin"])
def test_schedules_go_on(version: str, name: str, extension: str) -> None:
    schedule, path = SCHEDULES[name](), FOLDER / version / f"{name}-full.{extension}"
    if (version, name) == ("v0.14", "lr_cosine"):
        message = "Burn 0.14" if extension == "bin" else r"a number, .* of Burn 0\.14: call step\(\)"
        with pytest.raises(RecordMismatchError if extension == "mpk" else RecordFormatError, match=message):
            bl.record.load(schedule, path)
        return
    rates = parameters_of(version, name)
    assert [schedule.step() for _ in rates["first"]] == pytest.approx(rates["first"], rel=1e-12)
    again = SCHEDULES[name]()
    bl.record.load(again, path)
    assert [again.step() for _ in rates["next"]] == pytest.approx(rates["next"], rel=1e-12)


@pytest.mark.parametrize("name", ["lr_noam", "lr_composed"])
def test_bincode_of_noam_and_composed_schedules_goes_on(name: str) -> None:
    folder = FOLDER.parent / "v0.21"
    values = json.loads((folder / f"{name}.values.json").read_text())
    fields = {key: it for key, it in values["config"].items() if key != "type"}
    schedule = scheduler_config(values["config"]["type"], fields, restart=True).init()
    bl.record.load(schedule, folder / f"{name}-full.bin")
    assert [schedule.step() for _ in values["lr_after_load"]] == pytest.approx(values["lr_after_load"], rel=1e-12)


@pytest.mark.parametrize("name", ["lr_noam", "lr_composed", "lr_cosine"])
def test_bincode_of_burnlikes_own_schedules_goes_on(name: str, tmp_path: Path) -> None:
    values = json.loads((FOLDER.parent / "v0.21" / f"{name}.values.json").read_text())
    fields = {key: it for key, it in values["config"].items() if key != "type"}
    schedule = scheduler_config(values["config"]["type"], fields, restart=True).init()
    rates = [schedule.step() for _ in range(3)]
    again = scheduler_config(values["config"]["type"], fields, restart=True).init()
    bl.record.load(again, bl.record.save(schedule, tmp_path / "schedule.bin"))
    assert rates
    assert [again.step() for _ in range(4)] == [schedule.step() for _ in range(4)]


@pytest.mark.parametrize("file", ["older/v0.20/lr_cosine-full.mpk", "v0.21/lr_composed-full.mpk"])
def test_a_schedule_without_names_does_not_become_a_burnpack(file: str, tmp_path: Path) -> None:
    record = bl.record.open_record(FOLDER.parent / file)
    with pytest.raises(RecordError, match=r"begin anew; load it into the schedule, by scheduler\.load\(path\)"):
        bl.record.save(record, tmp_path / "schedule.bpk")
    assert not (tmp_path / "schedule.bpk").exists()


@pytest.mark.parametrize("version", VERSIONS)
def test_inspect_finds_the_states_of_an_optimizer_without_a_layout(
    version: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["inspect", str(FOLDER / version / "optim_adam-full.bin")]) == 0
    text = capsys.readouterr().out
    record = bl.record.open_record(FOLDER / version / "optim_adam-full.mpk")
    for param_id in {name.partition(".")[0] for name in record.tensors}:
        assert text.count(f"{param_id}.?") == 2


LAYERS: dict[str, ModuleConfig] = {
    "gru": bl.nn.GruConfig(d_input=3, d_hidden=4, bias=True),
    "bilstm": bl.nn.BiLstmConfig(d_input=3, d_hidden=2, bias=True),
    "conv3d": bl.nn.Conv3dConfig(channels=(1, 2), kernel_size=(2, 2, 2)),
    "conv_transpose1d": bl.nn.ConvTranspose1dConfig(channels=(2, 3), kernel_size=3),
    "conv_transpose2d": bl.nn.ConvTranspose2dConfig(channels=(2, 4), kernel_size=(3, 2)),
    "deform_conv2d": bl.nn.DeformConv2dConfig(channels=(2, 2), kernel_size=(2, 2)),
    "mha": bl.nn.MultiHeadAttentionConfig(d_model=8, n_heads=2),
    "feed_forward": bl.nn.PositionWiseFeedForwardConfig(d_model=4, d_ff=6),
}


@pytest.mark.parametrize("version", VERSIONS[1:])
@pytest.mark.parametrize("name", LAYERS)
def test_layers_in_bincode_are_those_in_messagepack(version: str, name: str, tmp_path: Path) -> None:
    path, one, other = FOLDER / version / f"{name}-full.bin", LAYERS[name].init(), LAYERS[name].init()
    bl.record.load(one, path)
    bl.record.load(other, path.with_suffix(".mpk"))
    for (key, tensor), expected in zip(one.state_dict().items(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(tensor, expected, rtol=0, atol=0, msg=key)
    assert [param.id for param in params(one)] == [param.id for param in params(other)]
    record = bl.record.open_record(path, layout=layout_of(one, (0, int(version[3:]))))
    assert Path(bl.record.save(record, tmp_path / "again.bin")).read_bytes() == path.read_bytes()
