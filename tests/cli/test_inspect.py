"""`burnlike inspect`: the header as a table and as JSON, without torch."""

import argparse
import json
import subprocess
import sys
from pathlib import Path

import pytest
import safetensors.torch
import torch

from burnlike.cli import inspect
from burnlike.errors import RecordFormatError, RecordIOError
from burnlike.module import ParamId
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder


def inspected(path: Path | str, *options: str) -> int:
    parser = argparse.ArgumentParser()
    inspect.add_arguments(parser)
    return inspect.run(parser.parse_args([str(path), *options]))


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
    code = (
        "import argparse, sys; from burnlike.cli import inspect; parser = argparse.ArgumentParser();"
        "inspect.add_arguments(parser); inspect.run(parser.parse_args(sys.argv[1:])); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code, path], stdout=subprocess.DEVNULL, check=False).returncode == 0
