"""CBOR against the examples of RFC 8949, MessagePack beside what is written, and hostile bytes of both."""

import contextlib
import gzip
import math
import struct
import tracemalloc
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import given, settings, strategies as st

from burnlike.errors import RecordError, RecordFormatError
from burnlike.module import ParamId
from burnlike.record import FullPrecision, NamedMpkFileRecorder, NamedMpkGzFileRecorder, Record
from burnlike.record.burn.cbor import decode, encode
from burnlike.record.bytes.budget import MAX_DEPTH

UP_TO_25 = "0102030405060708090a0b0c0d0e0f101112131415161718181819"
SHORTEST = [
    (0, "00"),
    (1, "01"),
    (10, "0a"),
    (23, "17"),
    (24, "1818"),
    (25, "1819"),
    (100, "1864"),
    (1000, "1903e8"),
    (1000000, "1a000f4240"),
    (1000000000000, "1b000000e8d4a51000"),
    (18446744073709551615, "1bffffffffffffffff"),
    (-18446744073709551616, "3bffffffffffffffff"),
    (-1, "20"),
    (-10, "29"),
    (-100, "3863"),
    (-1000, "3903e7"),
    (0.0, "f90000"),
    (-0.0, "f98000"),
    (1.0, "f93c00"),
    (1.1, "fb3ff199999999999a"),
    (1.5, "f93e00"),
    (65504.0, "f97bff"),
    (100000.0, "fa47c35000"),
    (3.4028234663852886e38, "fa7f7fffff"),
    (1.0e300, "fb7e37e43c8800759c"),
    (5.960464477539063e-8, "f90001"),
    (0.00006103515625, "f90400"),
    (-4.0, "f9c400"),
    (-4.1, "fbc010666666666666"),
    (math.inf, "f97c00"),
    (math.nan, "f97e00"),
    (-math.inf, "f9fc00"),
    (False, "f4"),
    (True, "f5"),
    (None, "f6"),
    (b"", "40"),
    (bytes([1, 2, 3, 4]), "4401020304"),
    ("", "60"),
    ("a", "6161"),
    ("IETF", "6449455446"),
    ('"\\', "62225c"),
    ("\u00fc", "62c3bc"),
    ("\u6c34", "63e6b0b4"),
    ("\U00010151", "64f0908591"),
    ([], "80"),
    ([1, 2, 3], "83010203"),
    ([1, [2, 3], [4, 5]], "8301820203820405"),
    (list(range(1, 26)), "9819" + UP_TO_25),
    ({}, "a0"),
    ({"a": 1, "b": [2, 3]}, "a26161016162820203"),
    (["a", {"b": "c"}], "826161a161626163"),
    ({"a": "A", "b": "B", "c": "C", "d": "D", "e": "E"}, "a56161614161626142616361436164614461656145"),
]
ONLY_READ = [
    (math.inf, "fa7f800000"),
    (math.nan, "fa7fc00000"),
    (-math.inf, "faff800000"),
    (math.inf, "fb7ff0000000000000"),
    (math.nan, "fb7ff8000000000000"),
    (-math.inf, "fbfff0000000000000"),
    (None, "f7"),
    ("2013-03-21T20:04:00Z", "c074323031332d30332d32315432303a30343a30305a"),
    (1363896240, "c11a514b67b0"),
    (1363896240.5, "c1fb41d452d9ec200000"),
    (bytes([1, 2, 3, 4]), "d74401020304"),
    ("http://www.example.com", "d82076687474703a2f2f7777772e6578616d706c652e636f6d"),
    (bytes([1, 2, 3, 4, 5]), "5f42010243030405ff"),
    ("streaming", "7f657374726561646d696e67ff"),
    ([], "9fff"),
    ([1, [2, 3], [4, 5]], "9f018202039f0405ffff"),
    ([1, [2, 3], [4, 5]], "9f01820203820405ff"),
    ([1, [2, 3], [4, 5]], "83018202039f0405ff"),
    ([1, [2, 3], [4, 5]], "83019f0203ff820405"),
    (list(range(1, 26)), "9f" + UP_TO_25 + "ff"),
    ({"a": 1, "b": [2, 3]}, "bf61610161629f0203ffff"),
    (["a", {"b": "c"}], "826161bf61626163ff"),
    ({"Fun": True, "Amt": -2}, "bf6346756ef563416d7421ff"),
    (5, "1b0000000000000005"),
]


def same(found: Any, expected: Any) -> bool:
    """Equal, of one type, and NaN and the sign of zero told apart."""
    return repr(found) == repr(expected)


@pytest.mark.parametrize(("value", "text"), SHORTEST)
def test_values_have_the_shortest_form(value: Any, text: str) -> None:
    assert encode(value).hex() == text


@pytest.mark.parametrize(("value", "text"), SHORTEST + ONLY_READ)
def test_values_of_any_form_are_read(value: Any, text: str) -> None:
    assert same(decode(bytes.fromhex(text), "x"), value)


@pytest.mark.parametrize(("value", "text"), SHORTEST + ONLY_READ)
def test_values_that_end_early_are_refused(value: Any, text: str) -> None:
    whole = bytes.fromhex(text)
    for count in range(len(whole)):
        with pytest.raises(RecordFormatError, match="at byte"):
            decode(whole[:count], "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0000", "bytes lie behind"),
        ("a201020304", "the key 1 of a map is no text"),
        ("a2616101616102", "the key 'a' of a map comes twice"),
        ("bf616101616102ff", "the key 'a' of a map comes twice"),
        ("f0", "simple value 16"),
        ("f8ff", "simple value 24"),
        ("1c", "reserved length 28"),
        ("5e", "reserved length 30"),
        ("1f", "indefinite length"),
        ("df00", "indefinite length"),
        ("ff", "the end of something indefinite"),
        ("81ff", "the end of something indefinite"),
        ("a16161ff", "the end of something indefinite"),
        ("bf6161ff", "the end of something indefinite"),
        ("7f4161ff", "another kind"),
        ("7f7f6161ffff", "another kind"),
        ("61ff", "not UTF-8"),
        ("63eda080", "not UTF-8"),
        ("7b7fffffffffffffff61", "truncated"),
        ("9bffffffffffffffff00", "truncated"),
        ("bbffffffffffffffff616100", "truncated"),
    ],
)
def test_what_is_no_value_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(RecordFormatError, match=f"x: .*{message}"):
        decode(bytes.fromhex(text), "x")


@pytest.mark.parametrize("step", ["81", "9f", "c0", "a16161", "bf6161"])
def test_nesting_is_limited(step: str) -> None:
    assert decode(bytes.fromhex("81" * MAX_DEPTH + "00"), "x") != 0
    with pytest.raises(RecordFormatError, match="nested too deeply"):
        decode(bytes.fromhex(step) * 100_000, "x")


def test_a_few_bytes_do_not_become_many_objects() -> None:
    with pytest.raises(RecordFormatError, match="far more memory"):
        decode(b"\x9f" + b"\x80" * 1_000_000 + b"\xff", "x")


@pytest.mark.parametrize("value", [2**64, -(2**64) - 1, {1, 2}, 1j, "\ud800", {"\udfff": 1}])
def test_other_values_cannot_be_written(value: Any) -> None:
    with pytest.raises(RecordError):
        encode(value)


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats()
    | st.floats(width=32)
    | st.floats(width=16)
    | st.text(max_size=40)
    | st.binary(max_size=300),
    lambda inner: st.lists(inner, max_size=30) | st.dictionaries(st.text(max_size=5), inner, max_size=30),
    max_leaves=40,
)


@settings(derandomize=True, max_examples=300, deadline=None)
@given(VALUES)
def test_values_come_back(value: Any) -> None:
    assert same(decode(encode(value), "x"), value)


@settings(derandomize=True, max_examples=1000, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_an_error(data: bytes) -> None:
    with contextlib.suppress(RecordFormatError):
        decode(data, "x")


def test_what_is_nested_to_the_limit_may_end_without_a_length() -> None:
    found = decode(bytes.fromhex("9f" * MAX_DEPTH + "ff" * MAX_DEPTH), "x")
    for _ in range(MAX_DEPTH - 1):
        (found,) = found
    assert found == []


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
