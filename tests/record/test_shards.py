"""Records that are divided among files: read as one, and replaced as a whole or not at all."""

import errno
import json
import os
import resource
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import nn

from burnlike import _atomic as atomic
from burnlike.errors import ArgumentError, PrecisionError, RecordError, RecordFormatError, RecordIOError
from burnlike.module import ParamId
from burnlike.record import HalfPrecision, Record, SafetensorsRecorder, load, open_record
from burnlike.record.distributed import together
from burnlike.record.distributed.together import fingerprints, not_one_directory, not_the_same_files

from ..processes import wait_until

INDEX = "model.safetensors.index.json"
KB = 1000


def record(value: float, count: int = 3) -> Record:
    return Record({f"w{number}": torch.full((100,), value) for number in range(count)}, {"value": value})


def save(folder: Path, value: float, *, files: int = 3, count: int = 3) -> str:
    """Write `count` tensors of 400 bytes among `files` files."""
    return SafetensorsRecorder(shard_bytes=400 * -(-count // files)).save(record(value, count), folder)


def read(folder: Path) -> dict[str, torch.Tensor]:
    """The set that counts, read as `transformers` does."""
    if (folder / "model.safetensors").exists():
        return safetensors.torch.load_file(folder / "model.safetensors")
    places: dict[str, str] = json.loads((folder / INDEX).read_text())["weight_map"]
    found = {file: safetensors.torch.load_file(folder / file) for file in set(places.values())}
    return {name: found[file][name] for name, file in places.items()}


def value_of(folder: Path) -> float:
    """The value that all tensors of a whole set have."""
    values = {value for tensor in read(folder).values() for value in tensor.tolist()}
    assert len(values) == 1, "a mix of two sets"
    return values.pop()


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_and_index_are_named_as_hugging_face_does(tmp_path: Path) -> None:
    path = save(tmp_path, 1.0)
    assert path == str(tmp_path / INDEX)
    assert names(tmp_path) == [
        "model-00001-of-00003.safetensors",
        "model-00002-of-00003.safetensors",
        "model-00003-of-00003.safetensors",
        INDEX,
    ]
    assert json.loads(Path(path).read_text()) == {
        "metadata": {"total_size": 1200},
        "weight_map": {f"w{number}": f"model-0000{number + 1}-of-00003.safetensors" for number in range(3)},
    }
    assert value_of(tmp_path) == 1.0


def test_record_that_fits_one_file_is_a_plain_file(tmp_path: Path) -> None:
    path = SafetensorsRecorder(shard_bytes=1200).save(record(1.0), tmp_path)
    assert path == str(tmp_path / "model.safetensors")
    assert names(tmp_path) == ["model.safetensors"]
    plain = SafetensorsRecorder().save(record(1.0), tmp_path / "plain.safetensors")
    assert Path(path).read_bytes() == Path(plain).read_bytes()


def test_file_takes_tensors_in_order_up_to_its_bytes_and_a_larger_one_alone(tmp_path: Path) -> None:
    sizes = {"a": 100, "b": 100, "c": 500, "d": 50, "e": 150, "f": 1}
    tensors = {name: torch.zeros(size, dtype=torch.int8) for name, size in sizes.items()}
    path = SafetensorsRecorder(shard_bytes=200).save(Record(tensors), tmp_path)
    groups: dict[str, str] = {}
    for name, file in json.loads(Path(path).read_text())["weight_map"].items():
        groups[file] = groups.get(file, "") + name
    assert list(groups.values()) == ["ab", "c", "de", "f"]


def test_precision_decides_what_fits(tmp_path: Path) -> None:
    path = SafetensorsRecorder(HalfPrecision, shard_bytes=600).save(record(1.0), tmp_path)
    assert Path(path).name == "model.safetensors"


def test_each_file_says_what_belongs_to_its_tensors(tmp_path: Path) -> None:
    ids = {"a": ParamId(1), "b": ParamId(2)}
    tensors = {name: torch.zeros(1) for name in "abc"}
    divided = Record(tensors, {"step": 3}, ids, {"tied": "b"}, states={"c"}, layout={"a": "param"})
    SafetensorsRecorder(shard_bytes=4).save(divided, tmp_path)
    found = [SafetensorsRecorder().load(tmp_path / f"model-0000{number}-of-00003.safetensors") for number in (1, 2, 3)]
    assert [dict(file.ids) for file in found] == [{"a": ids["a"]}, {"b": ids["b"]}, {}]
    assert [dict(file.aliases) for file in found] == [{}, {"tied": "b"}, {}]
    assert [set(file.states) for file in found] == [set(), set(), {"c"}]
    assert [dict(file.values) for file in found] == [{"step": 3}, {}, {}]
    assert [file.layout for file in found] == [{"a": "param"}, None, None]


@pytest.mark.parametrize("new", [1, 2, 3])
@pytest.mark.parametrize("old", [1, 2, 3])
def test_set_takes_the_place_of_any_other(old: int, new: int, tmp_path: Path) -> None:
    save(tmp_path, 1.0, files=old)
    save(tmp_path, 2.0, files=new)
    assert value_of(tmp_path) == 2.0
    assert len(names(tmp_path)) == (1 if new == 1 else new + 1)


def test_names_do_not_grow_with_the_number_of_saves(tmp_path: Path) -> None:
    found = set()
    for value in range(6):
        save(tmp_path, float(value))
        found.add(tuple(names(tmp_path)))
    assert len(found) == 2


def test_other_files_in_the_directory_stay(tmp_path: Path) -> None:
    others = ["config.json", "tokenizer.safetensors", "model.fp16-00001-of-00002.safetensors", "model-a.safetensors"]
    for name in others:
        (tmp_path / name).write_bytes(b"other")
    for files in (3, 1, 2):
        save(tmp_path, 1.0, files=files)
    assert set(others) < set(names(tmp_path))


def test_index_with_names_outside_the_directory_removes_nothing_there(tmp_path: Path) -> None:
    outside = tmp_path / "outside.safetensors"
    outside.write_bytes(b"precious")
    folder = tmp_path / "folder"
    folder.mkdir()
    listed = {"a": "../outside.safetensors", "b": str(outside), "c": "config.json", "d": 5}
    (folder / INDEX).write_text(json.dumps({"weight_map": listed}))
    (folder / "config.json").write_bytes(b"precious")
    save(folder, 1.0)
    assert outside.exists()
    assert (folder / "config.json").exists()


@pytest.mark.parametrize("text", ["", "[]", '{"weight_map": 3}', "[" * 100_000])
def test_damaged_index_is_replaced(text: str, tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    (tmp_path / INDEX).write_text(text)
    save(tmp_path, 2.0)
    assert value_of(tmp_path) == 2.0
    assert len(names(tmp_path)) == 4


def test_files_of_another_programs_set_go(tmp_path: Path) -> None:
    safetensors.torch.save_file({"a": torch.zeros(1)}, tmp_path / "weights.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "weights.safetensors"}}))
    save(tmp_path, 2.0, files=2)
    assert "weights.safetensors" not in names(tmp_path)


def test_new_files_get_the_permissions_of_the_old(tmp_path: Path) -> None:
    os.chmod(save(tmp_path, 1.0, files=1), 0o640)
    for files in (3, 2, 1):
        save(tmp_path, 1.0, files=files)
        assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}


CALLS = ("open", "pwrite", "fsync", "replace", "unlink", "ftruncate")


def failing(original: Callable[..., Any], steps: list[int], at: int) -> Callable[..., Any]:
    def call(*args: Any, **keywords: Any) -> Any:
        steps[0] += 1
        if steps[0] == at:
            raise OSError(errno.EIO, "I/O error")
        return original(*args, **keywords)

    return call


@pytest.mark.parametrize(("old", "new"), [(3, 3), (1, 3), (3, 1), (2, 3)])
def test_error_of_any_step_leaves_the_old_set_or_the_new_one(
    old: int, new: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_fallocate", lambda *_: False)
    at, failed = 0, True
    while failed:
        at += 1
        folder = tmp_path / f"{at}"
        folder.mkdir()
        save(folder, 1.0, files=old)
        steps = [0]
        with monkeypatch.context() as patch:
            for name in CALLS:
                patch.setattr(os, name, failing(getattr(os, name), steps, at))
            try:
                save(folder, 2.0, files=new)
                failed = steps[0] >= at
                assert value_of(folder) == 2.0
            except RecordIOError:
                failed = True
        assert value_of(folder) in (1.0, 2.0)
        save(folder, 3.0, files=new)
        assert value_of(folder) == 3.0
        assert len(names(folder)) == (1 if new == 1 else new + 1), "files were left behind"
    assert at > 12


def test_a_save_that_fails_leaves_no_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", failing(os.pwrite, [0], 1))
        for name in ("new", "there"):
            with pytest.raises(RecordIOError):
                save(tmp_path / name, 1.0)
            patch.setattr(os, "pwrite", failing(os.pwrite, [0], 0))
            patch.setattr(os, "fsync", failing(os.fsync, [0], 1))
    assert names(tmp_path) == ["there"]
    assert names(tmp_path / "there") == []


def test_value_that_does_not_fit_leaves_the_old_set(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    before = names(tmp_path)
    with pytest.raises(PrecisionError):
        SafetensorsRecorder(HalfPrecision, shard_bytes=200).save(
            Record({"a": torch.zeros(100), "b": torch.full((100,), 1e6)}), tmp_path
        )
    assert names(tmp_path) == before
    assert value_of(tmp_path) == 1.0


CHILD = """
import itertools, sys, torch
from burnlike.record import Record, SafetensorsRecorder
torch.set_num_threads(1)
for value, files in zip(range(10**9), itertools.cycle([3, 1, 3, 2])):
    tensors = {f"w{number}": torch.full((3000,), float(value)) for number in range(6)}
    SafetensorsRecorder(shard_bytes=12000 * 6 // files).save(Record(tensors), sys.argv[1])
"""


@pytest.mark.slow
def test_process_killed_at_any_moment_leaves_a_whole_set(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", CHILD, str(tmp_path)])
        wait_until(lambda: any((tmp_path / name).exists() for name in (INDEX, "model.safetensors")), process)
        time.sleep(torch.rand(1, generator=generator).item() * 0.2)
        process.kill()
        process.wait()
        value_of(tmp_path)
    save(tmp_path, 1.0)
    assert len(names(tmp_path)) == 4


def test_second_save_into_the_directory_is_refused_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace, tried = os.replace, []

    def in_between(*args: Any) -> None:
        if not tried:
            tried.append(True)
            with pytest.raises(RecordIOError, match="another save into this directory is under way"):
                save(tmp_path, 2.0)
        replace(*args)

    monkeypatch.setattr(os, "replace", in_between)
    save(tmp_path, 1.0)
    assert tried
    assert value_of(tmp_path) == 1.0
    assert len(names(tmp_path)) == 4


@pytest.mark.parametrize("path", ["", "model.safetensors", INDEX])
def test_path_names_directory_file_or_index(path: str, tmp_path: Path) -> None:
    assert SafetensorsRecorder(shard_bytes=400).save(record(1.0), tmp_path / path) == str(tmp_path / INDEX)


@pytest.mark.parametrize("path", ["new", "new/"])
def test_directory_that_is_missing_is_made(path: str, tmp_path: Path) -> None:
    written = SafetensorsRecorder(shard_bytes=400).save(record(1.0), f"{tmp_path}/{path}")
    assert written == str(tmp_path / "new" / INDEX)
    assert value_of(tmp_path / "new") == 1.0


@pytest.mark.parametrize("files", [1, 3])
@pytest.mark.parametrize("path", ["", "model", "model.safetensors"])
def test_recorder_loads_what_it_saved(path: str, files: int, tmp_path: Path) -> None:
    tensors = {name: torch.randn(100) for name in "abc"}
    ids = {"a": ParamId(1), "c": ParamId(2)}
    recorder = SafetensorsRecorder(shard_bytes=1200 // files)
    written = recorder.save(Record(tensors, {"step": 3}, ids, {"tied": "c"}, states={"b"}), tmp_path / path)
    for place in (tmp_path / path, written):
        found = recorder.load(place)
        assert list(found.tensors) == ["a", "b", "c"]
        assert all(torch.equal(found.tensors[name], tensor) for name, tensor in tensors.items())
        assert dict(found.ids) == ids
        assert dict(found.aliases) == {"tied": "c"}
        assert set(found.states) == {"b"}
        assert dict(found.values) == {"step": 3}


def test_single_file_counts_where_both_are_there(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    SafetensorsRecorder().save(record(2.0), tmp_path / "model.safetensors")
    assert SafetensorsRecorder().load(tmp_path).values == {"value": 2.0}
    save(tmp_path, 3.0)
    assert SafetensorsRecorder().load(tmp_path).values == {"value": 3.0}


def test_other_names_make_another_set(tmp_path: Path) -> None:
    save(tmp_path, 1.0)
    path = SafetensorsRecorder(shard_bytes=400).save(record(2.0), tmp_path / "ema.safetensors")
    assert Path(path).name == "ema.safetensors.index.json"
    assert value_of(tmp_path) == 1.0
    assert len(names(tmp_path)) == 8


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"ends in \.safetensors"):
        SafetensorsRecorder(shard_bytes=400).save(record(1.0), tmp_path / "x.bin")
    for wrong in (0, -1, 1.5, True, "5GB"):
        with pytest.raises(ArgumentError, match="shard_bytes: expected a positive whole number"):
            SafetensorsRecorder(shard_bytes=wrong)  # pyright: ignore[reportArgumentType]
    (tmp_path / "file").touch()
    with pytest.raises(RecordIOError, match="not saved"):
        SafetensorsRecorder(shard_bytes=400).save(record(1.0), f"{tmp_path}/file/below/")


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A set of 300 files, with 30 more open files allowed than stay open of a set."""
    names = [f"model-{number + 1:05}-of-00300.safetensors" for number in range(300)]
    for number, name in enumerate(names):
        safetensors.torch.save_file({f"{number}.weight": torch.full((2, 2), float(number))}, tmp_path / name)
    places = {f"{number}.weight": name for number, name in enumerate(names)}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return tmp_path


@pytest.fixture
def _few_files() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))) + 240, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


@pytest.mark.usefixtures("_few_files")
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_more_files_than_may_be_open_are_read(dtype: torch.dtype, many: Path) -> None:
    model = nn.ModuleList(nn.Linear(2, 2, bias=False) for _ in range(300)).to(dtype)
    load(model, many)
    record = open_record(many)
    for number, layer in enumerate(model):
        assert layer.weight[0, 0].item() == number == record.tensors[f"{number}.weight"][1, 1].item()


@pytest.mark.usefixtures("_few_files")
def test_a_late_file_of_many_that_was_replaced_is_an_error(many: Path) -> None:
    record = open_record(many)
    for number in (1, 299):
        safetensors.torch.save_file({f"{number - 1}.weight": torch.ones(2, 2)}, many / "other")
        (many / "other").replace(many / f"model-{number:05}-of-00300.safetensors")
    assert record.tensors["0.weight"][0, 0] == 0  # it stayed open
    with pytest.raises(RecordIOError, match=r"00299-of-00300.safetensors: was replaced or changed after it was opened"):
        _ = record.tensors["298.weight"]


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


def test_a_single_file_of_others_counts_where_both_are_there(tmp_path: Path) -> None:
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
    from burnlike.record.files import reading

    write(tmp_path, {"x-1.safetensors": ONE})
    original = reading._places

    def replaced(text: bytes, index: str) -> dict[str, str]:
        if (tmp_path / "x-1.safetensors").exists():
            write(tmp_path, {"y-1.safetensors": TWO})
            (tmp_path / "x-1.safetensors").unlink()
        return original(text, index)

    monkeypatch.setattr(reading, "_places", replaced)
    assert set(open_record(tmp_path).tensors) == {"b", "c"}


def test_directories_of_torch_s_files_are_opened_by_their_names(tmp_path: Path) -> None:
    index = {"weight_map": {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}}
    for number, (name, file) in enumerate(index["weight_map"].items()):
        torch.save({name: torch.full((2,), number)}, tmp_path / file)
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    assert {name: it.tolist() for name, it in open_record(tmp_path).tensors.items()} == {"a": [0, 0], "b": [1, 1]}
    torch.save({"c": torch.ones(1)}, tmp_path / "pytorch_model.bin")
    assert set(open_record(tmp_path).tensors) == {"c"}  # the single file counts, as for transformers
    SafetensorsRecorder().save(Record({"d": torch.ones(1)}), tmp_path / "model.safetensors")
    assert set(open_record(tmp_path).tensors) == {"d"}


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


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(together, "_WAITS_S", (0.0, 0.001))


def alone(value: Any) -> list[Any]:
    return [value]


def saved(value: float, directory: Path) -> None:
    directory.mkdir()
    for name in ("a", "b"):
        SafetensorsRecorder().save(Record({"x": torch.full((4,), value)}), directory / f"{name}.safetensors")


def test_files_of_another_run_with_the_same_sizes_are_told(tmp_path: Path) -> None:
    """As an old copy of a run on another node has them: its checkpoints have the same names."""
    for name in ("here", "there", "old"):
        saved(1.0 if name == "old" else 2.0, tmp_path / name)
    assert not_the_same_files(tmp_path / "there", fingerprints(tmp_path / "here"), alone) == ""
    problem = not_the_same_files(tmp_path / "old", fingerprints(tmp_path / "here"), alone)
    place = together.place_of(tmp_path / "old")
    assert f"rank 0 misses a.safetensors, b.safetensors at {place}, or has" in problem


def test_all_files_are_waited_for_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(together.time, "sleep", waits.append)
    assert "rank 0 misses 0, 1, 10" in not_the_same_files(tmp_path, {str(it): "" for it in range(1000)}, alone)
    assert waits == [0.0, 0.001]


@pytest.mark.parametrize("place", ["a file in its way", "nothing"])
def test_a_process_that_sees_no_directory_tells_what_rank_0_told(place: str, tmp_path: Path) -> None:
    """It does not fail by itself, whatever is at that path."""
    if place != "nothing":
        (tmp_path / "run").write_text("")

    def gather(value: Any) -> list[Any]:
        return [(".seen-0", "written", "") if len(value) == 3 else ([], "host:/run"), value]

    problem = not_one_directory(tmp_path / "run" / "checkpoints", 1, gather)
    assert f"rank 1 looked at {together.place_of(tmp_path / 'run' / 'checkpoints')}; all nodes need" in problem


def test_nothing_stays_of_the_proof(tmp_path: Path) -> None:
    assert not_one_directory(tmp_path / "run", 0, alone) == ""
    assert [*(tmp_path / "run").iterdir()] == []
    (tmp_path / "file").write_text("")
    assert "file can't be written: " in not_one_directory(tmp_path / "file", 0, alone)
