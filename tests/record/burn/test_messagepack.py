"""MessagePack: what is read beside what is written, and what is refused."""

import gzip
import struct
import tracemalloc
from typing import Any

import msgspec
import pytest
import torch

from burnlike.errors import RecordFormatError
from burnlike.module import ParamId
from burnlike.record import FullPrecision, NamedMpkFileRecorder, NamedMpkGzFileRecorder, Record

METADATA = {"float": "f32", "int": "i32", "format": "x", "version": "0.21.0", "settings": "FullPrecisionSettings"}
pack = msgspec.msgpack.encode


def file_of(item: Any, raw: bytes | None = None, **more: Any) -> bytes:
    found = pack({"metadata": METADATA, "item": "?", "_b": [], **more})
    return found.replace(b"\xa1?", pack(item) if raw is None else raw, 1)


def tensor(data: bytes = b"\0\0\x80\x3f", shape: Any = (1,), dtype: Any = "F32") -> dict[str, Any]:
    return {"bytes": data, "shape": shape, "dtype": dtype}


def read(data: bytes) -> Record:
    return NamedMpkFileRecorder().from_bytes(data)


def test_a_file_is_that_of_the_documentation() -> None:
    """The 272 bytes that the description of Burn's format gives as an example."""
    record = Record(
        {"weight": torch.tensor([[1.0, 2.0], [3.0, 4.0]])},
        ids={"weight": ParamId(123456)},
        layout={"weight": "param", "bias": {"$option": "param"}},
    )
    data = NamedMpkFileRecorder(FullPrecision).to_bytes(record)
    assert len(data) == 272
    assert data[:10] == bytes.fromhex("83a86d65746164617461")
    assert data[0xB0:] == bytes.fromhex(
        "74696e6773a46974656d82a677656967"
        "687482a26964ad383368303230303030"
        "30303030a5706172616d83a562797465"
        "73c4100000803f000000400000404000"
        "008040a57368617065920202a5647479"
        "7065a3463332a462696173c0a25f6290"
    )


def test_keys_may_come_in_any_order_and_b_may_be_nil() -> None:
    data = pack({"item": {"w": {"param": tensor(), "id": "83h0200000000"}}, "_b": None, "metadata": METADATA})
    record = read(data)
    assert record.tensors["w"].item() == 1.0
    assert record.ids == {"w": ParamId(123456)}


def test_lengths_may_be_longer_than_they_need_to_be() -> None:
    raw = b"\xdf" + struct.pack(">I", 1) + b"\xdb" + struct.pack(">I", 1) + b"x" + b"\xdd" + struct.pack(">I", 2)
    raw += b"\xcf" + struct.pack(">Q", 5) + b"\xd3" + struct.pack(">q", -5)
    assert read(file_of(None, raw)).values == {"x": [5, -5]}


@pytest.mark.parametrize("dtype", ["Bool", {"Bool": "Native"}, {"Bool": "U8"}, {"Bool": "U32"}])
def test_bools_are_read_in_every_form(dtype: Any) -> None:
    data = b"\1\0" if dtype != {"Bool": "U32"} else b"\1\0\0\0\0\0\0\0"
    assert read(file_of({"x": tensor(data, [2], dtype)})).tensors["x"].tolist() == [True, False]


WRONG = {
    "a key twice": (file_of(None, b"\x82\xa1a\1\xa1a\2"), "key 'a' of a map comes twice"),
    "a key that is no text": (file_of(None, b"\x81\1\1"), "is no text"),
    "a text that is not UTF-8": (file_of(None, b"\xa1\xff"), "not UTF-8"),
    "a text with half a surrogate pair": (file_of(None, b"\xa3\xed\xa0\x80"), "not UTF-8"),
    "an extension": (file_of(None, b"\xd4\1\0"), "begins no value"),
    "a byte that is never used": (file_of(None, b"\xc1"), "begins no value"),
    "a list longer than the file": (file_of(None, b"\xdd\xff\xff\xff\xff"), "record|text|truncated|deep|no value"),
    "a map longer than the file": (file_of(None, b"\xdf\xff\xff\xff\xff"), "key|truncated"),
    "a text longer than the file": (file_of(None, b"\xdb\xff\xff\xff\xff"), "truncated|memory"),
    "bytes longer than the file": (file_of(None, b"\xc6\xff\xff\xff\xff"), "truncated"),
    "nested too deeply": (file_of(None, b"\x91" * 300 + b"\xc0"), "nested too deeply"),
    "something behind": (file_of(1) + b"\0", "bytes lie behind"),
    "a list": (b"\x90", "a map with metadata and item"),
    "no metadata": (pack({"item": 1}), "metadata and item"),
    "bytes in the values": (file_of(1, burnlike={"format": "2", "values": {"x": b"1"}}), "is no plain value"),
    "bytes in the metadata": (pack({"metadata": {**METADATA, "int": b"1"}, "item": 1}), "lacks the texts"),
    "bytes without a shape": (file_of({"x": b"1"}), "bytes without a shape"),
    "a shape of bytes": (file_of({"x": tensor(shape=b"1")}), "the shape"),
    "too many bytes": (file_of({"x": tensor(b"\0" * 5)}), "5 bytes for F32"),
    "no param": (file_of({"x": {"id": "83h0200000000", "param": {"shape": [1]}}}), "no bytes"),
    "numbers of 0.13": (file_of({"x": {"id": "83h0200000000", "param": {"value": [1.0], "shape": [1]}}}), "Burn 0.13"),
    "nothing": (b"", "truncated"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused(name: str) -> None:
    data, message = WRONG[name]
    with pytest.raises(RecordFormatError, match=message):
        read(data)


def test_modules_named_like_parts_of_a_parameter_are_modules() -> None:
    record = Record({"id.w": torch.ones(1), "param.w": torch.ones(2)}, ids={"id.w": ParamId(1), "param.w": ParamId(2)})
    found = read(NamedMpkFileRecorder().to_bytes(record))
    assert list(found.tensors) == ["id.w", "param.w"]


@pytest.mark.parametrize(
    "bomb",
    [b"\xdd\0\x98\x96\x80" + b"\x90" * 10_000_000, b"\xdb\x02\xfa\xf0\x80" + b"a" * 50_000_000],
    ids=["lists", "text"],
)
def test_a_bomb_takes_what_its_file_justifies(bomb: bytes) -> None:
    data = gzip.compress(file_of(None, bomb), 1)
    tracemalloc.start()
    try:
        with pytest.raises(RecordFormatError, match="more memory than a record of its size"):
            NamedMpkGzFileRecorder().from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < (64 << 20) + 128 * len(data)
    finally:
        tracemalloc.stop()


def test_a_gzipped_record_is_loaded_in_one_pass_behind_the_one_that_opens_it() -> None:
    numbers = torch.Generator().manual_seed(0)
    tensors = {f"w{index}": torch.randn(200_000, generator=numbers) for index in range(4)}
    tied = {f"w{index}": ParamId(index) for index in range(4)}
    recorder = NamedMpkGzFileRecorder()
    record = recorder.from_bytes(recorder.to_bytes(Record(tensors, ids=tied, aliases={"x": "w3", "y": "w0"})))
    source: Any = next(iter(record.tensors.outline.entries.values())).source  # type: ignore[attr-defined]
    assert source.restarts == 1  # to compare the tied ones, all in one pass
    model = torch.nn.ParameterDict({name: torch.zeros(200_000) for name in tensors})
    record.load_into(model, strict=False)
    assert source.restarts == 2
    for name, values in tensors.items():
        assert torch.equal(model[name].detach(), values)
