"""`burnlike convert`: what is kept, what is changed, and how little memory it takes."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from burnlike.cli.commands import convert
from burnlike.errors import BurnlikeError, ConfigError, PrecisionError, RecordError, RecordFormatError, RecordIOError
from burnlike.module import ParamId
from burnlike.record import Record, SafetensorsRecorder, open_record

from .commands import run

SAMPLE = Path(__file__).parents[1] / "record" / "data" / "sample.safetensors"
GOLDEN = Path(__file__).parents[1] / "golden"
NAMED = [".safetensors", ".mpk", ".mpk.gz", ".json", ".json.gz", ".bpk"]
"""Formats that carry names."""


def everything() -> Record:
    return Record(
        {
            "layers.0.weight": torch.tensor([[1.5, -2.25], [math.inf, 3.0]]),
            "layers.1.weight": torch.tensor([0.5, -0.0], dtype=torch.float16),
            "steps": torch.tensor(7),
            "mask": torch.tensor([True, False]),
            "empty": torch.zeros(0, 3),
        },
        {"rate": math.inf, "epoch": 3, "name": "é", "nothing": None, "list": [1, 2.5, {"$a": False}]},
        {"layers.0.weight": ParamId(123456), "layers.1.weight": ParamId(2**64 - 1)},
        {"head.weight": "layers.0.weight"},
        metadata={"author": "me"},
    )


def assert_same(found: Record, expected: Record) -> None:
    assert set(found.tensors) == set(expected.tensors)
    for name, tensor in expected.tensors.items():
        assert found.tensors[name].dtype == tensor.dtype
        assert torch.equal(found.tensors[name], tensor)
    assert (found.values, dict(found.ids)) == (expected.values, dict(expected.ids))
    assert dict(found.aliases) == dict(expected.aliases)
    for key, text in expected.metadata.items():
        assert found.metadata[key] == text


@pytest.mark.parametrize("extension", NAMED)
def test_there_and_back_loses_nothing(tmp_path: Path, extension: str) -> None:
    record = everything()
    SafetensorsRecorder().save(record, tmp_path / "a.safetensors")
    assert run(convert, tmp_path / "a.safetensors", tmp_path / f"b{extension}") == 0
    assert_same(open_record(tmp_path / f"b{extension}"), record)
    run(convert, tmp_path / f"b{extension}", tmp_path / "c.safetensors")
    assert_same(open_record(tmp_path / "c.safetensors"), record)


@pytest.mark.parametrize("name", ["linear-full", "optim_adamw-full", "kinds-full", "tree-full"])
@pytest.mark.parametrize("between", NAMED[:-1])
def test_burns_files_come_back_byte_for_byte(tmp_path: Path, name: str, between: str) -> None:
    original = GOLDEN / "v0.21" / f"{name}.mpk"
    run(convert, original, tmp_path / f"x{between}")
    run(convert, tmp_path / f"x{between}", tmp_path / "back.mpk")
    assert (tmp_path / "back.mpk").read_bytes() == original.read_bytes()


def test_full_file_becomes_burns_half_file(tmp_path: Path) -> None:
    run(convert, GOLDEN / "v0.21" / "linear-full.mpk", tmp_path / "x.safetensors", "--precision", "half")
    run(convert, tmp_path / "x.safetensors", tmp_path / "x.mpk")
    found, expected = (open_record(path) for path in (tmp_path / "x.mpk", GOLDEN / "v0.21" / "linear-half.mpk"))
    assert found.metadata["settings"] == expected.metadata["settings"] == "HalfPrecisionSettings"
    for name in expected.tensors:
        assert torch.equal(found.tensors[name], expected.tensors[name])


def test_precision_int_and_keep(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = SafetensorsRecorder().save(
        Record({"a.weight": torch.ones(3), "norm.gamma": torch.ones(2), "steps": torch.tensor(7)}), tmp_path / "a"
    )
    run(convert, path, tmp_path / "b.safetensors", "--precision", "bf16", "--int", "i32", "--keep", "norm")
    found = {name: tensor.dtype for name, tensor in open_record(tmp_path / "b.safetensors").tensors.items()}
    assert found == {"a.weight": torch.bfloat16, "norm.gamma": torch.float32, "steps": torch.int32}
    text = capsys.readouterr().out
    assert "1 stored as BF16 instead of F32" in text
    assert "1 stored as I32 instead of I64" in text
    assert "3 tensors, 18 bytes" in text


def test_values_too_large_are_an_error_unless_allowed(tmp_path: Path) -> None:
    path = SafetensorsRecorder().save(Record({"x": torch.tensor([1e6])}), tmp_path / "a")
    with pytest.raises(PrecisionError, match="too large for float16"):
        run(convert, path, tmp_path / "b.mpk", "--precision", "f16")
    assert not (tmp_path / "b.mpk").exists()
    run(convert, path, tmp_path / "b.mpk", "--precision", "f16", "--allow-overflow")
    assert open_record(tmp_path / "b.mpk").tensors["x"].tolist() == [math.inf]


def test_another_file_stays_where_the_new_one_can_not_be_written(tmp_path: Path) -> None:
    path = Path(SafetensorsRecorder().save(Record({"x": torch.tensor([1e6])}), tmp_path / "a"))
    other = Path(SafetensorsRecorder().save(Record({"y": torch.ones(1)}), tmp_path / "b"))
    before = other.read_bytes()
    with pytest.raises(PrecisionError):
        run(convert, path, other, "--precision", "f16", "--force")
    assert other.read_bytes() == before
    assert {*tmp_path.iterdir()} == {path, other}


def test_rename_takes_ids_and_aliases_along(tmp_path: Path) -> None:
    SafetensorsRecorder().save(everything(), tmp_path / "a")
    run(
        convert,
        *(tmp_path / "a.safetensors", tmp_path / "b.safetensors"),
        *("--rename", r"^layers\.(\d+)=h.\1", "--rename", "^h\\.0=first"),
    )
    found = open_record(tmp_path / "b.safetensors")
    assert {"first.weight", "h.1.weight"} <= set(found.tensors)
    assert found.ids == {"first.weight": ParamId(123456), "h.1.weight": ParamId(2**64 - 1)}
    assert found.aliases == {"head.weight": "first.weight"}


def test_rename_changes_the_paths_of_an_optimizers_record(tmp_path: Path) -> None:
    text = str(ParamId(123456))
    record = Record({f"{text}.moment_1": torch.ones(2)}, {"states": {f"{text}.time": 3}, "paths": {text: "a.weight"}})
    path = SafetensorsRecorder().save(record, tmp_path / "a")
    run(convert, path, tmp_path / "b.safetensors", "--rename", "^a=b", "--ids")
    found = open_record(tmp_path / "b.safetensors")
    assert list(found.tensors) == [f"{text}.moment_1"]
    assert found.values == {"states": {f"{text}.time": 3}, "paths": {text: "b.weight"}}


def test_names_that_become_one_are_an_error(tmp_path: Path) -> None:
    SafetensorsRecorder().save(everything(), tmp_path / "a")
    with pytest.raises(RecordError, match=r"both 'layers.0.weight' and 'layers.1.weight' would become 'w'"):
        run(convert, tmp_path / "a.safetensors", tmp_path / "b.mpk", "--rename", r"layers\.\d+\.weight=w")
    assert not (tmp_path / "b.mpk").exists()


def test_ids_are_drawn_for_those_without(tmp_path: Path) -> None:
    safetensors.torch.save_file({"weight": torch.ones(2), "bias": torch.ones(1)}, tmp_path / "a.safetensors")
    run(convert, tmp_path / "a.safetensors", tmp_path / "b.mpk")
    assert not open_record(tmp_path / "b.mpk").ids
    run(convert, tmp_path / "b.mpk", tmp_path / "c.mpk", "--ids")
    ids = dict(open_record(tmp_path / "c.mpk").ids)
    assert len(set(ids.values())) == 2
    run(convert, tmp_path / "c.mpk", tmp_path / "d.mpk", "--ids")
    assert dict(open_record(tmp_path / "d.mpk").ids) == ids


def test_shards_and_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record = everything()
    path = SafetensorsRecorder().save(record, tmp_path / "a")
    run(convert, path, tmp_path / "new" / "set", "--shard-size", "16")
    assert "model.safetensors.index.json" in capsys.readouterr().out
    assert len(list((tmp_path / "new" / "set").glob("model-*.safetensors"))) > 1
    run(convert, tmp_path / "new" / "set", tmp_path / "b.mpk")
    assert_same(open_record(tmp_path / "b.mpk"), record)
    run(convert, tmp_path / "b.mpk", tmp_path / "new" / "set", "--shard-size", "1GB", "--force")
    assert [it.name for it in (tmp_path / "new" / "set").iterdir()] == ["model.safetensors"]
    assert_same(open_record(tmp_path / "new" / "set"), record)


def test_files_of_torch_save(tmp_path: Path) -> None:
    torch.save({"model": {"a.weight": torch.ones(2, 3)}, "epoch": 3}, tmp_path / "a.pt")
    run(convert, tmp_path / "a.pt", tmp_path / "b.safetensors")
    found = open_record(tmp_path / "b.safetensors")
    assert (list(found.tensors), found.values) == (["model.a.weight"], {"epoch": 3})
    run(convert, tmp_path / "a.pt", tmp_path / "b.mpk", "--top-level-key", "model", "--ids")
    found = open_record(tmp_path / "b.mpk")
    assert (list(found.tensors), found.values, len(found.ids)) == (["a.weight"], {}, 1)


LINEAR = "type: Linear\nd_input: 3\nd_output: 2\n"


def test_bincode_is_written_and_read_by_a_layout(tmp_path: Path) -> None:
    (tmp_path / "model.yaml").write_text(LINEAR)
    (tmp_path / "layout.yaml").write_text("weight: param\nbias: {$option: param}\n")
    golden = GOLDEN / "v0.21"
    for name in ("model", "layout"):
        options, place = (f"--{name}", tmp_path / f"{name}.yaml"), tmp_path / name
        place.mkdir()
        run(convert, golden / "linear-full.mpk", place / "a.bin", *options)
        run(convert, place / "a.bin", place / "b.safetensors", *options)
        run(convert, place / "b.safetensors", place / "c.mpk")
        assert (place / "c.mpk").read_bytes() == (golden / "linear-full.mpk").read_bytes()
        run(convert, place / "b.safetensors", place / "d.bin")  # which keeps the layout
        run(convert, place / "b.safetensors", place / "e.mpk", "--rename", "^=old.")
        run(convert, place / "e.mpk", place / "e.bin", "--rename", r"^old\.=", *options)
        for written in ("a.bin", "d.bin", "e.bin"):
            assert (place / written).read_bytes() == (golden / "linear-full.bin").read_bytes()


def test_bincode_without_a_layout_is_told(tmp_path: Path) -> None:
    for source, target in (("linear-full.bin", "a.mpk"), ("linear-full.mpk", "a.bin")):
        with pytest.raises(RecordError, match="give --layout FILE, or --model"):
            run(convert, GOLDEN / "v0.21" / source, tmp_path / target)


def test_format_says_what_the_name_does_not(tmp_path: Path) -> None:
    run(convert, SAMPLE, tmp_path / "x.burn", "--format", "mpk")
    assert open_record(tmp_path / "x.burn").metadata["format"].startswith("burn_core::record::file::NamedMpk")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("x.mpkk",), r"ends in one of \.safetensors, .*or --format"),
        (("x",), "ends in one of"),
        (("x.mpk", "--shard-size", "1MB"), r"a directory of safetensors files, got .*x\.mpk"),
        (("x.mpk", "--precision", "bf61"), "did you mean 'bf16'"),
        (("x.mpk", "--int", "i33"), r"--int i33: expected one of .*did you mean"),
        (("x.mpk", "--format", "mpkk"), "did you mean 'mpk'"),
        (("x.mpk", "--precision", "f16", "--keep", "("), r"keep: expected a regular expression"),
        (("x.mpk", "--keep", "norm"), "give one of those"),
        (("x.mpk", "--rename", "abc"), "expected REGEX=NEW"),
        (("x.mpk", "--rename", "(=x"), "expected a regular expression"),
        (("x.mpk", "--rename", r"e=\2"), "can't replace"),
        (("x", "--shard-size", "many"), "expected a size such as 2GB"),
        (("x", "--shard-size", "0"), "expected a size such as 2GB"),
        (("x", "--shard-size", "2GB", "--format", "mpk"), "leave one out"),
        (("x.bin", "--layout", "none.json"), "the layout can't be read"),
        (("x.bin", "--model", "none.yaml"), "the config can't be read"),
        ((".",), "is a directory"),
    ],
)
def test_wrong_options_are_told_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BurnlikeError, match=message) as caught:
        run(convert, SAMPLE, *arguments)
    assert isinstance(caught.value, RecordError | ConfigError)
    assert not list(tmp_path.iterdir())


def test_input_that_is_no_record_is_told(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match="no such file"):
        run(convert, tmp_path / "none.mpk", tmp_path / "x.mpk")
    (tmp_path / "bad.mpk").write_bytes(b"not a record at all")
    with pytest.raises(RecordFormatError, match="expected a record"):
        run(convert, tmp_path / "bad.mpk", tmp_path / "x.mpk")


@pytest.mark.parametrize(
    ("text", "message"),
    [("weight: parm", "did you mean 'param'"), ("{", "as JSON or YAML"), ("a: {$vec: 3}", "expected a text or a map")],
)
def test_wrong_layouts_are_told_with_their_file(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "layout.yaml").write_text(text)
    with pytest.raises(RecordError, match=message) as caught:
        run(convert, SAMPLE, tmp_path / "x.bin", "--layout", tmp_path / "layout.yaml")
    assert str(caught.value).startswith(f"{tmp_path}/layout.yaml")


@pytest.mark.slow
def test_200_megabytes_are_converted_in_a_few(tmp_path: Path) -> None:
    count = 50_000_000
    header = json.dumps({"x": {"dtype": "F32", "shape": [count], "data_offsets": [0, 4 * count]}}).encode()
    header += b" " * (-len(header) % 8)
    with open(tmp_path / "a.safetensors", "wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + 4 * count)
    code = (
        "import sys; import torch; import burnlike.record.recorder; from burnlike.cli.main import main\n"
        "from benchmarks._memory import with_extra_bytes\n"
        "status, extra = with_extra_bytes(lambda: main(sys.argv[1:])); print(extra); sys.exit(status)"
    )
    arguments = ["convert", tmp_path / "a.safetensors", tmp_path / "b.mpk", "--precision", "bf16"]
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < 40 << 20
    assert open_record(tmp_path / "b.mpk").tensors["x"].shape == (count,)
