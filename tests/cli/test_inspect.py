"""`burnlike inspect`: the header as a table and as JSON, without torch."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

from burnlike.cli.commands import inspect
from burnlike.errors import RecordFormatError, RecordIOError
from burnlike.module import ParamId
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder

from .commands import run

HERE = Path(__file__).parent
GOLDEN = HERE.parent / "golden"


def inspected(path: Path | str, *options: object) -> int:
    return run(inspect, path, *options)


@pytest.fixture
def found(capsys: pytest.CaptureFixture[str]):
    """What `--json` prints."""

    def found(path: Path | str, *options: object) -> dict[str, Any]:
        assert inspected(path, "--json", *options) == 0
        return json.loads(capsys.readouterr().out)

    return found


@pytest.fixture
def path(tmp_path: Path) -> str:
    record = Record(
        {"layer.weight": torch.ones(2, 3), "step": torch.tensor(7)},
        {"rate": float("inf"), "words": "x" * 300},
        {"layer.weight": ParamId(123456)},
        {"head.weight": "layer.weight"},
    )
    return SafetensorsRecorder(BFloat16Precision).save(record, tmp_path / "x")


def test_table_is_aligned_and_complete(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert inspected(path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith(f"{path}: safetensors, burnlike format 2, ")
    assert lines[2].split() == ["tensor", "dtype", "shape", "bytes", "id", "tied", "to"]
    assert lines[3].split() == ["step", "I64", "[]", "8", "-"]
    assert lines[4].split() == ["layer.weight", "BF16", "[2,", "3]", "12", "83h0200000000", "head.weight"]
    assert lines[3].index("I64") == lines[4].index("BF16") == lines[2].index("dtype")
    assert "2 tensors, 20 bytes" in lines
    assert '  rate: {"$float": "inf"}' in lines
    assert lines[-1].endswith("... (300 characters)")


def test_json_holds_the_same(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    inspected(path, "--json")
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["version"]) == ("safetensors", "2")
    assert found["tensors"][1] == {
        "path": "layer.weight",
        "id": "83h0200000000",
        "id_u64": "123456",
        "kind": "float",
        "dtype": "BF16",
        "shape": [2, 3],
        "bytes": 12,
        "role": "weight",
        "aliases": ["head.weight"],
    }
    assert found["values"]["rate"] == {"$float": "inf"}
    assert found["file_bytes"] == Path(path).stat().st_size


def test_file_of_another_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safetensors.torch.save_file({"a\x1b[31m": torch.ones(1)}, tmp_path / "x", metadata={"author": "me"})
    inspected(tmp_path / "x")
    text = capsys.readouterr().out
    assert "written by another program" in text
    assert "  author: me" in text
    assert "\x1b" not in text
    inspected(tmp_path / "x", "--json")
    assert json.loads(capsys.readouterr().out)["version"] is None


def test_wrong_files_are_errors(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match="no such file"):
        inspected(tmp_path / "none")
    (tmp_path / "x").write_bytes(b"garbage, not a record")
    with pytest.raises(RecordFormatError, match="expected a record"):
        inspected(tmp_path / "x")


def test_torch_is_not_imported(path: str) -> None:
    assert without_torch(path)


def without_torch(path: Path | str) -> bool:
    """Whether a process that inspects the file does not import torch."""
    code = "import sys; from burnlike.cli.main import main; main(sys.argv[1:]); sys.exit('torch' in sys.modules)"
    command = [sys.executable, "-c", code, "inspect", str(path)]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def expected(name: str) -> list[tuple[Any, ...]]:
    """Path, id, kind, dtype and shape of each tensor that Burn says is in its file."""
    params = json.loads((GOLDEN / f"{name}.values.json").read_text())["params"]
    dtypes = {"float": "F32", "int": "I32", "bool": "BOOL"}
    return sorted(
        (it["path"], it["id"], str(it["id_u64"]), it["kind"].lower(), dtypes[it["kind"].lower()], it["shape"])
        for it in params
    )


def told(summary: dict[str, Any]) -> list[tuple[Any, ...]]:
    return sorted(
        tuple(it[key] for key in ("path", "id", "id_u64", "kind", "dtype", "shape")) for it in summary["tensors"]
    )


@pytest.mark.parametrize("extension", ["mpk", "mpk.gz", "json", "json.gz"])
@pytest.mark.parametrize("name", ["linear", "two"])
def test_burns_files_of_version_21(found, name: str, extension: str) -> None:
    path = GOLDEN / "v0.21" / f"{name}-full.{extension}"
    summary = found(path)
    assert told(summary) == expected(f"v0.21/{name}")
    assert summary["version"] == "0.21.0"
    assert summary["metadata"]["settings"] == "FullPrecisionSettings"
    assert summary["file_bytes"] == path.stat().st_size


@pytest.mark.parametrize("name", ["linear", "batch_norm", "tree", "kinds", "train_run-end"])
def test_burnpack(found, name: str) -> None:
    values = f"v0.22/{name.removesuffix('-end')}"
    summary = found(GOLDEN / "v0.22" / f"{name}.bpk")
    assert [row[:4] for row in told(summary)] == [row[:4] for row in expected(values)]


def test_an_optimizers_record_tells_the_ids(found) -> None:
    ids = {it["id"] for it in json.loads((GOLDEN / "v0.21" / "optim_adamw.values.json").read_text())["params"]}
    for extension in ("mpk", "json", "bin"):
        summary = found(GOLDEN / "v0.21" / f"optim_adamw-full.{extension}")
        assert {it["id"] for it in summary["tensors"]} == ids
        assert [it["role"] for it in summary["tensors"]] == [None] * 4


def test_bincode_without_a_layout_tells_what_stands_out(found, capsys: pytest.CaptureFixture[str]) -> None:
    for extension in ("bin", "bin.gz", "binbytes"):
        summary = found(GOLDEN / "v0.21" / f"linear-full.{extension}")
        named = {row[1:] for row in map(tuple, map(str_shapes, told(summary)))}
        assert named == {row[1:] for row in map(tuple, map(str_shapes, expected("v0.21/linear")))}
        assert [it["path"] for it in summary["tensors"]] == ["?0", "?1"]
        assert "--layout or --model" in summary["notes"][0]
    inspected(GOLDEN / "v0.21" / "linear-full.bin")
    assert "note: bincode carries no names" in capsys.readouterr().out


def str_shapes(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(str(it) for it in row)


def test_bincode_with_a_layout_or_a_model_has_names(tmp_path: Path, found) -> None:
    (tmp_path / "layout.yaml").write_text("weight: param\nbias: {$option: param}\n")
    (tmp_path / "layout.json").write_text('{"weight": "param", "bias": {"$option": "param"}}')
    (tmp_path / "model.yaml").write_text("type: Linear\nd_input: 3\nd_output: 2\n")
    for options in (("--layout", "layout.yaml"), ("--layout", "layout.json"), ("--model", "model.yaml")):
        summary = found(GOLDEN / "v0.21" / "linear-full.bin", options[0], tmp_path / options[1])
        assert told(summary) == expected("v0.21/linear")
        assert summary["notes"] == []


def test_layout_of_another_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "layout.json").write_text('{"weight": "param"}')
    with pytest.raises(RecordFormatError, match="layout"):
        inspected(GOLDEN / "v0.21" / "linear-full.bin", "--layout", tmp_path / "layout.json")


def test_running_statistics_are_told_from_weights(tmp_path: Path, found) -> None:
    path = SafetensorsRecorder().save(Record.from_module(torch.nn.BatchNorm1d(2)), tmp_path / "x")
    assert {it["path"]: it["role"] for it in found(path)["tensors"]} == {
        "weight": "weight",
        "bias": "weight",
        "running_mean": "state",
        "running_var": "state",
        "num_batches_tracked": "state",
    }


@pytest.mark.parametrize("extension", ["mpk", "mpk.gz", "json", "json.gz", "bin", "bin.gz"])
def test_no_format_needs_torch(extension: str) -> None:
    assert without_torch(GOLDEN / "v0.21" / f"linear-full.{extension}")


def test_burnpack_needs_no_torch() -> None:
    assert without_torch(GOLDEN / "v0.22" / "linear.bpk")


def test_sets_of_files_and_files_of_torch_save_need_no_torch(tmp_path: Path, found) -> None:
    record = Record({"a": torch.ones(3), "b": torch.ones(2)}, {"step": 1}, {"b": ParamId(1)}, {"c": "a"})
    index = SafetensorsRecorder(shard_bytes=8).save(record, tmp_path)
    for path in (tmp_path, index):
        summary = found(path)
        assert [(it["path"], it["id"], it["aliases"]) for it in summary["tensors"]] == [
            ("a", None, ["c"]),
            ("b", "0400000000000", []),
        ]
        assert summary["file_bytes"] == sum(it.stat().st_size for it in tmp_path.glob("*.safetensors"))
        assert without_torch(path)
    torch.save({"weight": torch.ones(2, 3)}, tmp_path / "x.pt")
    summary = found(tmp_path / "x.pt")
    assert (summary["format"], summary["tensors"][0]["shape"]) == ("pt", [2, 3])
    assert without_torch(tmp_path / "x.pt")


def test_versions_and_names_of_files_are_printed_without_codes_for_terminals(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "x\x1b[2J.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}.")
        archive.writestr("a/version", "3\x1b[31m")
    assert inspected(path) == 0
    assert "\x1b" not in capsys.readouterr().out
