"""Which format a file is of: by its content where it is read, by its name where it is written."""

import gzip
from pathlib import Path

import pytest
import torch

from burnlike.errors import RecordError, RecordFormatError
from burnlike.record import Record, SafetensorsRecorder, open_record
from burnlike.record.files.source import BytesSource
from burnlike.record.formats import EXTENSIONS, detect, format_of_path

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("extension", [*EXTENSIONS])
def test_files_are_known_by_their_content(extension: str) -> None:
    folder = "v0.22" if extension in (".bpk", ".safetensors") else "v0.21"
    name = "linear" if folder == "v0.22" else "linear-full"
    data = (GOLDEN / folder / f"{name}{extension}").read_bytes()
    assert detect(BytesSource(data)).extension == extension


@pytest.mark.parametrize("precision", ["half", "double"])
def test_bincode_of_every_precision_is_known(precision: str) -> None:
    data = (GOLDEN / "v0.21" / f"linear-{precision}.bin").read_bytes()
    assert detect(BytesSource(data)).extension == ".bin"


def test_json_may_begin_with_blanks(tmp_path: Path) -> None:
    text = (GOLDEN / "v0.21" / "linear-full.json").read_bytes()
    (tmp_path / "x").write_bytes(b"\n  " + text)
    found, expected = open_record(tmp_path / "x"), open_record(GOLDEN / "v0.21" / "linear-full.json")
    assert torch.equal(found.tensors["weight"], expected.tensors["weight"])


@pytest.mark.parametrize("data", [b"", b"x", b"garbage, not a record", b"\x1f\x8b", gzip.compress(b"garbage")])
def test_what_is_no_record_is_told(data: bytes) -> None:
    with pytest.raises(RecordFormatError):
        detect(BytesSource(data))


def test_gzip_around_a_format_that_is_not_meant_to_be_is_told() -> None:
    data = SafetensorsRecorder().to_bytes(Record({"x": torch.ones(1)}))
    with pytest.raises(RecordFormatError, match="got a gzipped one: unpack it by gunzip"):
        detect(BytesSource(gzip.compress(data)))


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_names_say_the_format_to_write(extension: str) -> None:
    assert format_of_path(f"a.b{extension}").extension == extension


def test_other_names_are_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(RecordError, match=r"ends in one of \.safetensors, \.mpk"):
        format_of_path("model.onnx")
