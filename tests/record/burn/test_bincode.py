"""Bincode: Burn's own files, other layouts' and older versions' files, damaged ones; files without layouts."""

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike.errors import PrecisionError, RecordError, RecordFormatError
from burnlike.record import (
    BinBytesRecorder,
    BinFileRecorder,
    BinGzFileRecorder,
    NamedMpkFileRecorder,
    Record,
    open_record,
)
from burnlike.record.burn.bincode import BIN, scan
from burnlike.record.bytes.source import BytesSource, FileSource
from burnlike.record.formats import StoredTensor
from burnlike.record.precision import HalfPrecision
from tests.golden.layouts import layout_for

FOLDER = Path(__file__).parents[2] / "golden" / "v0.21"
RECORDERS = {".bin": BinFileRecorder(), ".bin.gz": BinGzFileRecorder(), ".binbytes": BinBytesRecorder()}
FILES = sorted(path for suffix in RECORDERS for path in FOLDER.glob(f"*{suffix}"))
TWO = {"weight": "param", "bias": {"$option": "param"}}
MAP = {"$map": {"$state": {"momentum": {"time": "usize", "moment": {"$option": "tensor"}}}}}


def values_of(path: Path) -> dict[str, Any]:
    name = path.name.partition(".")[0].rpartition("-")[0]
    return json.loads((FOLDER / f"{name}.values.json").read_text())


def envelope(version: str = "0.21.0") -> bytes:
    texts = ("f32", "i32", "burn_core::record::file::BinFileRecorder", version, "FullPrecisionSettings")
    return b"".join(bytes([len(text)]) + text.encode() for text in texts)


def read(item: bytes, layout: Any, version: str = "0.21.0") -> Record:
    return BinFileRecorder().from_bytes(envelope(version) + item, layout)


ID = b"\x0d83h0200000000"
TENSOR = b"\x08" + struct.pack("<2f", 1.5, -2) + b"\x01\x02\x01"


def test_there_are_files_of_each_kind() -> None:
    assert {suffix: sum(path.name.endswith(suffix) for path in FILES) for suffix in RECORDERS} == {
        ".bin": 62,
        ".bin.gz": 25,
        ".binbytes": 8,
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_burns_files_are_read_and_written_byte_for_byte(path: Path) -> None:
    data = path.read_bytes()
    recorder = RECORDERS["." + path.name.partition(".")[2]]
    values = values_of(path)
    record = recorder.from_bytes(data, layout_for(values))
    for param in values.get("params", []) if "optim" not in path.name else []:
        found = record.tensors[param["path"]]
        expected = torch.tensor(param["values"], dtype=torch.float64).reshape(param["shape"]).to(found.dtype)
        if path.name.startswith("linear_col") and found.ndim == 2:  # is saved as [d_output, d_input]
            expected = expected.T
        assert torch.equal(found, expected)
        assert str(record.ids[param["path"]]) == param["id"]
    written = recorder.to_bytes(record)
    assert gzip.decompress(written) == gzip.decompress(data) if path.suffix == ".gz" else written == data


@pytest.mark.parametrize("name", ["kinds", "tree", "net", "lr_composed", "lr_step", "lr_noam", "lr_constant"])
def test_files_hold_what_those_with_names_hold(name: str) -> None:
    layout = layout_for(values_of(FOLDER / f"{name}-full.bin"))
    record, named = open_record(FOLDER / f"{name}-full.bin", layout), open_record(FOLDER / f"{name}-full.mpk")
    assert list(record.tensors) == list(named.tensors)
    assert (record.ids, record.values, record.aliases) == (named.ids, named.values, named.aliases)
    assert NamedMpkFileRecorder().to_bytes(record) == (FOLDER / f"{name}-full.mpk").read_bytes()


def test_optimizer_files_hold_what_those_with_names_hold() -> None:
    layout = layout_for(values_of(FOLDER / "optim_adam-full.bin"))
    record = open_record(FOLDER / "optim_adam-full.bin", layout)
    named = open_record(FOLDER / "optim_adam-full.mpk")
    assert record.values == named.values
    assert record.values["states"]["aq4ro62333pgc.momentum.time"] == 3
    assert {name: tensor.tolist() for name, tensor in record.tensors.items()} == {
        name: tensor.tolist() for name, tensor in named.tensors.items()
    }


def test_a_layout_read_says_which_options_variants_and_lengths_there_are() -> None:
    layout = {"a": {"$vec": {"$option": "usize"}}, "b": {"$enum": [["No", "unit"], ["Yes", "i64"]]}, "c": "constant"}
    record = read(b"\x02\x00\x01\x07\x01\x03\x00", layout)
    assert record.values == {"a": [None, 7], "b": {"Yes": -2}}
    assert record.layout == {
        "a": {"$vec": [{"$option": "usize", "some": False}, {"$option": "usize", "some": True}]},
        "b": {"$enum": [["No", "unit"], ["Yes", "i64"]], "is": "Yes"},
        "c": "constant",
    }


@pytest.mark.parametrize(
    ("leaf", "value", "encoded"),
    [
        ("usize", 250, b"\xfa"),
        ("usize", 251, b"\xfb\xfb\x00"),
        ("u32", 1 << 16, b"\xfc\x00\x00\x01\x00"),
        ("u64", 2**64 - 1, b"\xfd" + b"\xff" * 8),
        ("i32", -1, b"\x01"),
        ("i64", -(2**63), b"\xfd" + b"\xff" * 8),
        ("i64", 2**63 - 1, b"\xfd\xfe" + b"\xff" * 7),
        ("f64", -0.1, struct.pack("<d", -0.1)),
        ("f32", 0.5, struct.pack("<f", 0.5)),
        ("bool", True, b"\x01"),
        ("str", "grüße", b"\x07gr\xc3\xbc\xc3\x9fe"),
    ],
)
def test_plain_values_have_the_bytes_of_bincodes_specification(leaf: str, value: Any, encoded: bytes) -> None:
    data = BinFileRecorder().to_bytes(Record(values={"x": value}, layout={"x": leaf}))
    assert data.endswith(b"FullPrecisionSettings" + encoded)
    assert BinFileRecorder().from_bytes(data, {"x": leaf}).values == {"x": value}


@pytest.mark.parametrize(
    ("leaf", "value"),
    [("u32", 1 << 32), ("usize", -1), ("i32", 1 << 31), ("f32", 1e300), ("bool", 1), ("str", "\ud800")],
)
def test_values_that_the_layout_has_no_place_for_are_refused(leaf: str, value: Any) -> None:
    with pytest.raises(RecordError, match=r"'x'|surrogate"):
        BinFileRecorder().to_bytes(Record(values={"x": value}, layout={"x": leaf}))


def test_tied_tensors_are_written_in_each_place_and_are_tied_when_read() -> None:
    layout = {"one": "param", "other": "param"}
    record = read(ID + TENSOR + ID + TENSOR, layout)
    assert (list(record.tensors), record.aliases) == (["one"], {"other": "one"})
    assert BinFileRecorder().to_bytes(record).endswith(ID + TENSOR + ID + TENSOR)
    other = TENSOR.replace(struct.pack("<f", 1.5), struct.pack("<f", 2.5))
    clone = read(ID + TENSOR + ID + other, layout)
    assert (list(clone.tensors), clone.aliases, list(clone.ids)) == (["one", "other"], {}, ["one"])
    assert BinFileRecorder().to_bytes(clone).endswith(ID + TENSOR + ID + other)


# What Burn's versions number: https://github.com/tracel-ai/burn, crates/burn-tensor/src/tensor/element/base.rs.
@pytest.mark.parametrize(
    ("version", "number", "raw", "dtype"),
    [
        ("0.14.0", b"\x02", b"\0\x3c" * 2, torch.float16),
        ("0.15.0", b"\x0b", b"\1\0", torch.bool),
        ("0.15.0", b"\x0a", b"\1\2", torch.uint8),
        ("0.16.1", b"\x0b", b"\1\2", torch.uint8),
        ("0.16.1", b"\x0c", b"\1\0", torch.bool),
        ("0.17.0", b"\x02", struct.pack("<2f", 1, 2), torch.float32),
        ("0.20.1", b"\x0d", b"\1\0", torch.bool),
        ("0.21.0", b"\x0d\0", b"\1\0", torch.bool),
        ("0.21.0", b"\x0d\2", b"\1\0\0\0\0\0\0\0", torch.bool),
        ("0.21.0", b"\x04", b"\x80\x3f" * 2, torch.bfloat16),
    ],
)
def test_dtypes_have_the_numbers_of_the_version_that_wrote_them(
    version: str, number: bytes, raw: bytes, dtype: torch.dtype
) -> None:
    record = read(bytes([len(raw)]) + raw + b"\x01\x02" + number, {"x": "tensor"}, version)
    assert record.tensors["x"].dtype == dtype
    assert record.tensors["x"].shape == (2,)
    if dtype is torch.bool:
        assert record.tensors["x"].tolist() == [True, False]


def test_ids_of_the_oldest_files_are_uuids() -> None:
    uuid = b"6ba7b810-9dad-11d1-80b4-00c04fd430c8"
    record = read(b"\x24" + uuid + TENSOR, {"x": "param"}, "0.14.0")
    assert set(record.ids) == {"x"}


@pytest.mark.parametrize("version", ["0.13.2", "newest", ""])
def test_versions_that_are_none_or_too_old_are_refused(version: str) -> None:
    with pytest.raises(RecordFormatError, match=r"Burn 0\.14|version of Burn"):
        read(TENSOR, {"x": "tensor"}, version)


def test_without_a_layout_the_error_says_how_to_give_one() -> None:
    with pytest.raises(RecordError, match=r"carries no names: give the layout"):
        open_record(FOLDER / "two-full.bin")
    record = open_record(FOLDER / "two-full.mpk")
    with pytest.raises(RecordError, match=r"carries no names: give the layout"):
        BinFileRecorder().to_bytes(record)


def test_a_parameter_without_an_id_is_refused() -> None:
    record = Record({"weight": torch.ones(2)}, layout={"weight": "param"})
    with pytest.raises(RecordError, match="'weight' has no ParamId"):
        BinFileRecorder().to_bytes(record)


def test_what_has_no_place_is_named() -> None:
    record = Record({"x": torch.ones(2), "y": torch.ones(2)}, layout={"x": "tensor"})
    with pytest.raises(RecordError, match="no place for 'y'"):
        BinFileRecorder().to_bytes(record)
    with pytest.raises(RecordError, match="no place for its values 'epoch'"):
        BinFileRecorder().to_bytes(Record(values={"epoch": 1}, layout={}))


def test_precision_converts_and_says_so_in_the_envelope() -> None:
    record = open_record(FOLDER / "two-full.bin", TWO)
    assert BinFileRecorder(HalfPrecision).to_bytes(record) == (FOLDER / "two-half.bin").read_bytes()
    with pytest.raises(PrecisionError, match="x"):
        BinFileRecorder(HalfPrecision).to_bytes(Record({"x": torch.tensor([1e6])}, layout={"x": "tensor"}))


def test_the_states_of_an_optimizer_are_a_map_of_any_length() -> None:
    assert BinFileRecorder().to_bytes(read(b"\0", MAP)).endswith(b"Settings\0")
    record = read(b"\x01" + ID + b"\x00\x01\x03\x01" + TENSOR, MAP)
    name = ID[1:].decode()
    assert record.values == {"states": {f"{name}.momentum.time": 3}, "paths": {}}
    assert record.layout == {
        name: {"$state": {"momentum": {"time": "usize", "moment": {"$option": "tensor", "some": True}}}, "rank": 1}
    }
    again = Record(record.tensors, {**record.values, "paths": {name: "weight"}}, layout=MAP)  # the rank is its tensors'
    assert BinFileRecorder().to_bytes(again) == BinFileRecorder().to_bytes(record)


@pytest.mark.parametrize(
    ("item", "layout", "message"),
    [
        (b"\x00" + ID, {"a": "constant"}, "bytes lie behind the record"),
        (b"\x01", {"a": "constant"}, "a value where the layout has a constant"),
        (b"\x07", {"a": {"$option": "param"}}, "0x07 for an option"),
        (b"\x01" + ID + TENSOR, {"a": {"$option": "param", "some": False}}, "a value where the layout has none"),
        (b"\x02", {"a": {"$enum": [["A", "unit"], ["B", "unit"]]}}, "the variant number 2"),
        (b"\x01", {"a": {"$enum": [["A", "unit"], ["B", "unit"]], "is": "A"}}, "'B' where the layout has 'A'"),
        (b"\x02\x00\x00", {"a": {"$vec": ["constant"]}}, "2 items where the layout has 1"),
        (b"\xfd" + b"\xff" * 8, {"a": {"$vec": "unit"}}, "far more memory"),
        (b"\xfd" + b"\xff" * 8, {"a": {"$map": "unit"}}, "truncated"),
        (b"\xfe" + b"\xff" * 16, {"a": "u64"}, "begins no number of 64 bits"),
        (b"\xfc\x00\x00\x00\x7f", {"a": "str"}, "more than"),
        (b"\x02\xff\xfe", {"a": "str"}, "not UTF-8"),
        (b"\xfd" + b"\xff" * 8 + b"\x01\x01\x01", {"a": "tensor"}, "truncated"),
        (b"\x04\0\0\0\0\xfc\xff\xff\xff\xff\x01", {"a": "tensor"}, "4294967295 dimensions"),
        (b"\x04\0\0\0\0\x01\xfd" + b"\xff" * 8 + b"\x01", {"a": "tensor"}, r"4 bytes for F32 \[18446744073709551615\]"),
        (b"\x04\0\0\0\0\x01\x01\x0f", {"a": "tensor"}, "the dtype number 15"),
        (b"\x04\0\0\0\0\x01\x01\x0e", {"a": "tensor"}, "quantized"),
        (b"\x04\0\0\0\0\x01\x01\x0d\x03", {"a": "tensor"}, "bools of an unknown kind"),
        (b"\x03???" + TENSOR, {"a": "param"}, "the id '[?]{3}'"),
        (b"\x02" + (ID + b"\0\0\0\0") * 2, MAP, "comes twice"),
        (b"\x01\x03a.b\0\0\0\0", MAP, "is no id"),
        (b"\x01" + ID + b"\x01\0\0\0", MAP, "a state of version 2"),
        (b"\x01\x03a.b", {"$map": "unit"}, "can't be part of a path"),
    ],
)
def test_damaged_and_foreign_files_are_refused_with_the_place(item: bytes, layout: Any, message: str) -> None:
    with pytest.raises(RecordFormatError, match=message):
        read(item, layout)


@pytest.mark.parametrize("name", ["two", "tree", "optim_adam", "lr_composed"])
def test_files_cut_at_any_byte_are_refused(name: str) -> None:
    path = FOLDER / f"{name}-full.bin"
    data, layout = path.read_bytes(), layout_for(values_of(path))
    for length in range(len(data)):
        with pytest.raises(RecordFormatError):
            BIN.read(BytesSource(data[:length]), layout)


def test_a_small_compressed_file_of_many_items_is_refused() -> None:
    bomb = gzip.compress(envelope() + b"\xfc" + struct.pack("<I", 5_000_000) + bytes(5_000_000), 1)
    with pytest.raises(RecordFormatError, match="far more time than a record of its size"):
        BinGzFileRecorder().from_bytes(bomb, {"$vec": "constant"})


def test_vague_layouts_are_refused() -> None:
    layout = open_record(FOLDER / "two-full.mpk").layout
    with pytest.raises(RecordError, match="too little for bincode"):
        open_record(FOLDER / "two-full.bin", layout)
    with pytest.raises(RecordError, match="expected one of param"):
        open_record(FOLDER / "two-full.bin", {"weight": "parm", "bias": "constant"})


def test_a_file_that_ends_too_early_may_be_that_of_another_model() -> None:
    data = (FOLDER / "two-full.bin").read_bytes()
    with pytest.raises(RecordFormatError, match=r"truncated.*or the layout is that of another model"):
        BinFileRecorder().from_bytes(data, {"weight": "param", "bias": "constant", "more": "constant"})


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.bin")), ids=lambda path: path.name)
def test_all_tensors_of_burns_files_are_found(path: Path) -> None:
    values = json.loads((FOLDER / f"{path.stem.rpartition('-')[0]}.values.json").read_text())
    known = BIN.read(FileSource(path), layout_for(values))
    found = scan(FileSource(path))
    places = [
        [(it.dtype, it.shape, it.start) for it in outline.entries.values() if isinstance(it, StoredTensor)]
        for outline in (found, known)
    ]
    assert places[0] == places[1]
    assert [*found.ids.values()] == [*known.ids.values()]
    assert found.metadata == known.metadata


def test_names_are_numbers_and_in_states_begin_with_the_id() -> None:
    assert list(scan(FileSource(FOLDER / "linear-full.bin")).entries) == ["?0", "?1"]
    states = scan(FileSource(FOLDER / "optim_adam-full.bin")).entries
    ids = {name.partition(".")[0] for name in states}
    assert ids == {"4j82optb8hjt4", "aq4ro62333pgc"}
    assert {name.partition(".")[2] for name in states} == {"?0", "?1"}


def test_damaged_files_give_less_and_never_fail() -> None:
    data = (FOLDER / "tree-full.bin").read_bytes()
    for length in range(140, len(data), 3):
        assert len(scan(BytesSource(data[:length])).entries) <= 27
        changed = bytearray(data)
        changed[length] ^= 0xFF
        scan(BytesSource(changed))


def test_other_files_are_refused() -> None:
    with pytest.raises(RecordFormatError, match="expected the texts"):
        scan(BytesSource(b"\xff" * 100))
