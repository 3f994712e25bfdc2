"""Records that are divided among several files are read as one."""

import json
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from burnlike.errors import RecordError, RecordFormatError, RecordIOError
from burnlike.module import ParamId
from burnlike.record import Record, SafetensorsRecorder, open_record

INDEX = "model.safetensors.index.json"


def write(folder: Path, shards: dict[str, dict[str, torch.Tensor]], **weight_map: str) -> Path:
    for file, tensors in shards.items():
        safetensors.torch.save_file(tensors, folder / file)
    places = {name: file for file, tensors in shards.items() for name in tensors}
    (folder / INDEX).write_text(json.dumps({"metadata": {}, "weight_map": {**places, **weight_map}}))
    return folder


ONE, TWO = {"a": torch.arange(3.0)}, {"b": torch.ones(2, 2), "c": torch.tensor(7)}


def test_set_is_one_record_by_directory_index_and_single_name(tmp_path: Path) -> None:
    write(tmp_path, {"x-1.safetensors": ONE, "x-2.safetensors": TWO})
    for path in (tmp_path, tmp_path / INDEX, tmp_path / "model.safetensors"):
        record = open_record(path)
        assert {name: tensor.tolist() for name, tensor in record.tensors.items()} == {
            "a": [0, 1, 2],
            "b": [[1, 1], [1, 1]],
            "c": 7,
        }


def test_single_file_counts_where_both_are_there(tmp_path: Path) -> None:
    write(tmp_path, {"x-1.safetensors": ONE})
    safetensors.torch.save_file(TWO, tmp_path / "model.safetensors")
    assert set(open_record(tmp_path).tensors) == {"b", "c"}


def test_ids_aliases_and_values_come_together(tmp_path: Path) -> None:
    recorder = SafetensorsRecorder()
    recorder.save(Record(ONE, {"epoch": 3}, {"a": ParamId(1)}, {"a2": "a"}), tmp_path / "x-1.safetensors")
    recorder.save(Record(TWO, {}, {"b": ParamId(2)}), tmp_path / "x-2.safetensors")
    places = {"a": "x-1.safetensors", "b": "x-2.safetensors", "c": "x-2.safetensors"}
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": places}))
    record = open_record(tmp_path)
    assert (record.values, record.ids, record.aliases) == (
        {"epoch": 3},
        {"a": ParamId(1), "b": ParamId(2)},
        {"a2": "a"},
    )
    recorder.save(Record(TWO, {}, {"b": ParamId(1)}), tmp_path / "x-2.safetensors")
    with pytest.raises(RecordFormatError, match="have the ParamId"):
        open_record(tmp_path)


@pytest.mark.parametrize(
    ("weight_map", "error", "message"),
    [
        ({"d": "x-1.safetensors"}, RecordFormatError, "says that 'd' is in x-1.safetensors, which lacks it"),
        ({"d": "x-3.safetensors"}, RecordIOError, "no such file"),
        ({"a": "x-2.safetensors"}, RecordFormatError, "not of one save"),
        ({"d": "../x-1.safetensors"}, RecordFormatError, "expected one beside it"),
        ({"d": "/etc/passwd"}, RecordFormatError, "expected one beside it"),
        ({"d": ".."}, RecordFormatError, "expected one beside it"),
        ({"d": 3}, RecordFormatError, "expected an index with a weight_map"),
    ],
)
def test_sets_that_are_not_whole_are_refused(
    weight_map: Any, error: type[RecordError], message: str, tmp_path: Path
) -> None:
    write(tmp_path, {"x-1.safetensors": ONE, "x-2.safetensors": TWO}, **weight_map)
    with pytest.raises(error, match=message):
        open_record(tmp_path)


def test_a_tensor_in_two_files_or_not_in_the_index_is_refused(tmp_path: Path) -> None:
    write(tmp_path, {"x-1.safetensors": {**ONE, "d": torch.ones(1)}, "x-2.safetensors": {**ONE, **TWO}})
    with pytest.raises(RecordFormatError, match=r"x-1\.safetensors has 'a', but the index says that it is in x-2"):
        open_record(tmp_path)
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "x-1.safetensors", "b": "x-2.safetensors"}}))
    with pytest.raises(RecordFormatError):
        open_record(tmp_path)


@pytest.mark.parametrize("text", ["", "[]", "{", '{"weight_map": 3}', '{"weight_map": {"a": "b", "a": "c"}}', "\udc80"])
def test_damaged_indexes_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / INDEX).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordFormatError):
        open_record(tmp_path)


def test_a_set_that_is_replaced_while_it_is_read_is_read_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from burnlike.record.files import reading as sharded

    write(tmp_path, {"x-1.safetensors": ONE})
    original = sharded._places

    def replaced(text: bytes, index: str) -> dict[str, str]:
        if (tmp_path / "x-1.safetensors").exists():
            write(tmp_path, {"y-1.safetensors": TWO})
            (tmp_path / "x-1.safetensors").unlink()
        return original(text, index)

    monkeypatch.setattr(sharded, "_places", replaced)
    assert set(open_record(tmp_path).tensors) == {"b", "c"}


def test_directory_without_a_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match=r"got a directory without model\.safetensors"):
        open_record(tmp_path)


def test_sets_with_names_alike_leave_each_other_alone(tmp_path: Path) -> None:
    recorder = SafetensorsRecorder(shard_bytes=400)
    stems = ["model-100", "model-1", "model"]
    for value in (1.0, 2.0, 3.0):
        for stem in stems:
            recorder.save(Record({name: torch.full((100,), value) for name in "abc"}), tmp_path / f"{stem}.safetensors")
    for stem in stems:
        assert recorder.load(tmp_path / f"{stem}.safetensors").tensors["c"].eq(3).all()
    assert len(list(tmp_path.iterdir())) == 3 * 4, "and nothing is left"
