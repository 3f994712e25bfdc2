"""Records as bytes in memory, in every format that writes one file."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import burnlike.record
from burnlike.errors import RecordError, RecordFormatError
from burnlike.record import FileRecorder, HalfPrecision, Record, SafetensorsRecorder

from ..processes import HANGS_S

RECORDERS = {
    name: found
    for name in burnlike.record.__all__
    if isinstance(found := getattr(burnlike.record, name), type)
    and issubclass(found, FileRecorder)
    and found is not FileRecorder
}
each_recorder = pytest.mark.parametrize("recorder", [found() for found in RECORDERS.values()], ids=list(RECORDERS))


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))


def test_burns_recorders_are_all_there() -> None:
    burns = {
        *("NamedMpkFileRecorder", "NamedMpkGzFileRecorder", "NamedMpkBytesRecorder", "PrettyJsonFileRecorder"),
        *("JsonGzFileRecorder", "BinFileRecorder", "BinGzFileRecorder", "BinBytesRecorder", "BurnpackRecorder"),
    }
    assert burns <= RECORDERS.keys()


@each_recorder
def test_bytes_are_those_of_the_file(recorder: FileRecorder, tmp_path: Path) -> None:
    record = Record.from_module(model())
    assert recorder.to_bytes(record) == Path(recorder.save(record, tmp_path / "x")).read_bytes()


@each_recorder
def test_bytes_fill_a_module(recorder: FileRecorder) -> None:
    one, other = model(), model()
    record = Record.from_module(one)
    data = recorder.to_bytes(record)
    recorder.from_bytes(memoryview(bytearray(data)), layout=record.layout).load_into(other)
    assert all(torch.equal(left, right) for left, right in zip(one.parameters(), other.parameters(), strict=True))
    assert Record.from_module(other).ids == record.ids
    assert recorder.to_bytes(Record.from_module(other)) == data


@each_recorder
def test_bytes_are_converted_to_the_precision(recorder: FileRecorder) -> None:
    record = Record.from_module(model())
    found = type(recorder)(HalfPrecision).from_bytes(type(recorder)(HalfPrecision).to_bytes(record), record.layout)
    assert {tensor.dtype for tensor in found.tensors.values()} == {torch.float16}


@each_recorder
def test_bytes_that_are_no_record_are_refused(recorder: FileRecorder) -> None:
    layout = Record.from_module(model()).layout
    for data in (b"", b"\0", b"{", b"no record at all", bytes(100)):
        with pytest.raises(RecordFormatError):
            recorder.from_bytes(data, layout)
    with pytest.raises(RecordError):
        recorder.to_bytes(model())  # type: ignore[arg-type]


def test_a_record_outlives_the_name_of_its_bytes() -> None:
    data = bytearray(SafetensorsRecorder().to_bytes(Record({"x": torch.ones(2)})))
    record = SafetensorsRecorder().from_bytes(data)
    del data
    assert record.tensors["x"].tolist() == [1.0, 1.0]


CHILD = """
import json, sys, torch
import burnlike.record
from benchmarks._memory import with_extra_bytes
from burnlike.record import Record

record = Record({f"w{i}": torch.randn(4 << 20) for i in range(4)}, layout={f"w{i}": "tensor" for i in range(4)})
sizes = {}
for name in sys.argv[1:]:
    recorder = getattr(burnlike.record, name)()
    recorder.to_bytes(Record({"w": torch.ones(9)}, layout={"w": "tensor"}))
    data, sizes[name] = with_extra_bytes(lambda: recorder.to_bytes(record))
    del data
print(json.dumps(sizes))
"""


def test_64_mb_in_memory_take_little_more_than_that() -> None:
    names = ["SafetensorsRecorder", "NamedMpkBytesRecorder"]
    result = subprocess.run(
        [sys.executable, "-c", CHILD, *names], capture_output=True, text=True, check=True, timeout=HANGS_S
    )
    for name, extra in json.loads(result.stdout).items():
        assert extra < 1.25 * (64 << 20), name
