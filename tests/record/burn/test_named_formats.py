"""What formats with names have in common: Burn's files both ways, and records that are hard to nest."""

import json
from typing import Any

import pytest
import torch

from burnlike.errors import DTypeError, RecordError, RecordFormatError
from burnlike.module import ParamId
from burnlike.record import (
    FileRecorder,
    JsonGzFileRecorder,
    NamedMpkBytesRecorder,
    NamedMpkFileRecorder,
    NamedMpkGzFileRecorder,
    PrettyJsonFileRecorder,
    Record,
    open_record,
)

from .samples import (
    GOLDEN,
    assert_same,
    goldens,
    params_of,
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
