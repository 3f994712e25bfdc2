"""A flipped bit of a tensor is noticed: safetensors files have a checksum of each, other formats have their own."""

import json
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import burnlike as bl
from burnlike.cli.main import main
from burnlike.errors import CheckpointError, RecordFormatError
from burnlike.record import BFloat16Precision, DcpRecorder, Record, SafetensorsRecorder, open_record, verify
from burnlike.record.bytes.checksums import combined
from burnlike.train import Checkpointer, TrainingState

from ..processes import HANGS_S

KEY = "burnlike.checksums"


def tensors() -> dict[str, torch.Tensor]:
    """Small, empty, strided, of several types, and one of more than two blocks."""
    torch.manual_seed(3)
    return {
        "small": torch.arange(3),
        "large": torch.randn(2_000_003),
        "empty": torch.ones(0, 4),
        "turned": torch.randn(300, 70).t(),
        "flags": torch.tensor([True, False, True]),
        "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
    }


def header(data: bytes) -> dict[str, Any]:
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def expected(data: bytes) -> str:
    """The checksums of a file, computed by zlib from the bytes that its header names."""
    found, start = header(data), 8 + int.from_bytes(data[:8], "little")
    places = [it["data_offsets"] for name, it in found.items() if name != "__metadata__"]
    written = found["__metadata__"][KEY].encode()
    head = data[8:start].replace(written, b"0" * len(written))
    return "".join(
        f"{zlib.crc32(it):08x}" for it in (head, *(data[start + begin : start + end] for begin, end in places))
    )


def flipped(path: Path, place: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(first=st.binary(max_size=300), second=st.binary(max_size=300), zeros=st.integers(0, 70_000))
def test_checksums_of_two_blocks_are_that_of_both(first: bytes, second: bytes, zeros: int) -> None:
    second += bytes(zeros)
    assert combined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def test_program_without_torch_compares_them_without_it(tmp_path: Path) -> None:
    path = SafetensorsRecorder().save(Record(tensors()), tmp_path / "x")
    code = (
        "import sys\n"
        "from burnlike.cli.main import main\n"
        f"main(['inspect', {str(path)!r}, '--verify'])\n"
        "print('torch' in sys.modules)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=HANGS_S
    ).stdout
    assert "all 6 tensors" in shown
    assert shown.endswith("False\n")


@pytest.mark.parametrize("precision", [None, BFloat16Precision])
def test_each_tensor_has_the_checksum_of_its_bytes(precision: Any, tmp_path: Path) -> None:
    record, recorder = Record(tensors()), SafetensorsRecorder(precision)
    data = Path(recorder.save(record, tmp_path / "x")).read_bytes()
    assert header(data)["__metadata__"][KEY] == expected(data)
    assert recorder.to_bytes(record) == data, "in memory, from front to back"
    assert Path(recorder.save_async(record, tmp_path / "y").wait()).read_bytes() == data
    assert verify(tmp_path / "x.safetensors") == verify(recorder.from_bytes(data)) == 6


def test_files_with_checksums_are_read_by_the_safetensors_library(tmp_path: Path) -> None:
    path = SafetensorsRecorder().save(Record(tensors()), tmp_path / "x")
    found = safetensors.torch.load_file(path)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors().items())


def test_each_file_of_a_set_has_its_own(tmp_path: Path) -> None:
    SafetensorsRecorder(shard_bytes=100_000).save(Record(tensors()), tmp_path / "set")
    for path in (tmp_path / "set").glob("*.safetensors"):
        assert header(path.read_bytes())["__metadata__"][KEY] == expected(path.read_bytes())
    assert verify(tmp_path / "set") == 6
    flipped(next((tmp_path / "set").glob("*1-of-*.safetensors")))
    with pytest.raises(RecordFormatError, match="are not those that were saved"):
        verify(tmp_path / "set")


def test_what_is_converted_from_a_file_that_is_read_in_order_has_them(tmp_path: Path) -> None:
    record = Record(tensors(), ids={})
    bl.record.save(record, tmp_path / "x.mpk.gz")
    path = Path(bl.record.save(open_record(tmp_path / "x.mpk.gz"), tmp_path / "y.safetensors"))
    assert header(path.read_bytes())["__metadata__"][KEY] == expected(path.read_bytes())


def test_texts_that_look_like_the_place_of_the_checksums_stay_as_they_are(tmp_path: Path) -> None:
    values = {f'"{KEY}":"': f'"{KEY}":"00000000', KEY: KEY}
    record = Record({"w": torch.ones(3)}, values)
    path = Path(SafetensorsRecorder().save(record, tmp_path / "x"))
    assert open_record(path).values == values
    assert header(path.read_bytes())["__metadata__"][KEY] == expected(path.read_bytes())


def test_files_without_checksums_load_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safetensors.torch.save_file({"weight": torch.ones(2, 2), "bias": torch.ones(2)}, tmp_path / "x.safetensors")
    assert verify(tmp_path / "x.safetensors") == 0
    bl.record.load(torch.nn.Linear(2, 2), tmp_path / "x.safetensors", verify=True)
    assert main(["inspect", str(tmp_path / "x.safetensors"), "--verify"]) == 0
    assert "0 of 2 tensors" in capsys.readouterr().out


def test_a_flipped_bit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = torch.nn.Linear(3, 2)
    path = Path(bl.record.save(module, tmp_path / "x"))
    assert main(["inspect", str(path), "--verify"]) == 0
    assert "all 2 tensors" in capsys.readouterr().out
    flipped(path)
    other = torch.nn.Linear(3, 2)
    before = other.bias.clone()
    with pytest.raises(RecordFormatError, match=r"the values of 'bias' are not those that were saved"):
        bl.record.load(other, path, verify=True)
    assert torch.equal(other.bias, before)
    bl.record.load(other, path)
    assert main(["inspect", str(path), "--verify"]) == 2
    assert "'bias'" in capsys.readouterr().err
    assert main(["inspect", str(path)]) == 0


@pytest.mark.parametrize("text", ["", "0", "zz" * 12, "0" * 16, "0" * 32, " " * 24, "00" * 11 + " 0"])
def test_checksums_that_are_none_are_refused(text: str) -> None:
    entries = {name: {"dtype": "U8", "shape": [1], "data_offsets": [at, at + 1]} for at, name in enumerate("ab")}
    content = json.dumps({"__metadata__": {"burnlike.format": "2", KEY: text}, **entries}).encode()
    with pytest.raises(RecordFormatError, match="another program has changed the file"):
        SafetensorsRecorder().from_bytes(struct.pack("<Q", len(content)) + content + b"xy")


def test_a_changed_header_is_noticed(tmp_path: Path) -> None:
    path = Path(SafetensorsRecorder().save(Record({"w": torch.ones(3)}, {"step": 7}), tmp_path / "x"))
    path.write_bytes(path.read_bytes().replace(b'step\\":7', b'step\\":3'))
    record = open_record(path)
    assert record.values == {"step": 3}, "only whoever asks for it reads all"
    with pytest.raises(RecordFormatError, match="the header, which has names, ids and plain values, is not the one"):
        verify(record)


def test_a_record_without_tensors_has_a_checksum_of_its_header(tmp_path: Path) -> None:
    path = Path(SafetensorsRecorder().save(Record(values={"step": 7}), tmp_path / "x"))
    assert header(path.read_bytes())["__metadata__"][KEY] == expected(path.read_bytes())
    assert verify(path) == 0


def state(value: float) -> TrainingState:
    model = torch.nn.Linear(3, 2)
    torch.nn.init.constant_(model.weight, value)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return TrainingState(model=model, optimizer=optimizer)


@pytest.mark.parametrize("name", ["model", "optimizer", "training"])
def test_a_training_is_not_resumed_with_a_flipped_bit(name: str, tmp_path: Path) -> None:
    path = state(1.0).save(tmp_path / "saved")
    flipped(path / f"{name}.safetensors")
    resumed = state(2.0)
    before = resumed.parts["model"].weight.clone()
    with pytest.raises(RecordFormatError, match="not those that were saved"):
        resumed.load(path)
    assert torch.equal(resumed.parts["model"].weight, before)
    checkpoint = Checkpointer(tmp_path / "run", keep=1).save(1, state(1.0).to_records())
    flipped(checkpoint.path / f"{name}.safetensors")
    with pytest.raises(CheckpointError, match="to resume from the checkpoint before it"):
        checkpoint.load(name)


def test_a_flipped_bit_in_a_file_of_torch_save_is_an_error(tmp_path: Path) -> None:
    large = torch.arange(1000.0)
    torch.save(
        {"part": large[10:20], "turned": large[100:200].view(10, 10).t(), "other": torch.ones(5)}, tmp_path / "x.pt"
    )
    record = open_record(tmp_path / "x.pt")
    assert verify(record) == 3
    data = (tmp_path / "x.pt").read_bytes()
    flipped(tmp_path / "x.pt", data.index(struct.pack("<f", 777.0)))
    record = open_record(tmp_path / "x.pt")
    for name in ("part", "turned"):
        with pytest.raises(RecordFormatError, match=r"'data/0' are not those that were saved.*CRC-32"):
            _ = record.tensors[name]
    assert record.tensors["other"].tolist() == [1] * 5
    with pytest.raises(RecordFormatError, match="CRC-32"):
        verify(record)


def test_flipped_bits_of_what_is_beside_tensors_in_files_of_torch_are_errors(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 2))
    DcpRecorder().save(Record.of(model), tmp_path / "x.dcp")
    torch.save({"step": 7, "name": "some text", "weight": torch.ones(3)}, tmp_path / "x.pt")
    for path, file, begins in (("x.dcp", "x.dcp/__0_0.distcp", "burnlike.id"), ("x.pt", "x.pt", "some text")):
        expected = content_of(tmp_path / path)
        data = (tmp_path / file).read_bytes()
        start, refused = data.index(begins.encode()), 0
        for place in range(start - 20, start + 80, 3):
            flipped(tmp_path / file, place)
            try:
                verify(tmp_path / path)
                assert content_of(tmp_path / path) == expected  # the bit was in no content
            except RecordFormatError:
                refused += 1
            (tmp_path / file).write_bytes(data)
        assert refused > 15


def content_of(path: Path) -> object:
    record = open_record(path)
    return record.ids, record.values, {name: it.tolist() for name, it in record.tensors.items()}


def test_files_that_torch_saved_without_checksums_are_read(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"weight": torch.ones(3)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert open_record(tmp_path / "x.pt").tensors["weight"].tolist() == [1, 1, 1]
    assert verify(tmp_path / "x.pt") == 0


def test_gzipped_files_have_the_checksum_of_gzip(tmp_path: Path) -> None:
    record = Record({"w": torch.zeros(100_000)})
    path = Path(bl.record.save(record, tmp_path / "x.mpk.gz"))
    assert verify(path) == 1
    flipped(path, -6)
    with pytest.raises(RecordFormatError, match="damaged"):
        verify(path)
