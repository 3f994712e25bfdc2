"""CBOR against the examples of RFC 8949, appendix A, and hostile bytes."""

import contextlib
import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from burnlike.errors import RecordError, RecordFormatError
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
