"""Values, ids and aliases survive the trip through the file's texts exactly."""

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from burnlike.errors import RecordError, RecordFormatError
from burnlike.module import ParamId
from burnlike.record import metadata
from burnlike.record.formats import Outline, TensorEntry

LEAVES = st.none() | st.booleans() | st.integers(-(2**200), 2**200) | st.floats(allow_nan=False) | st.text()
VALUES = st.dictionaries(
    st.text() | st.just("$float"),
    st.recursive(
        LEAVES, lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.just("$float"), inner), max_leaves=10
    ),
)


def decoded(texts: dict[str, str], names: Any = ()) -> Outline:
    return metadata.decode(texts, {name: TensorEntry(name, "F32", ()) for name in names}, "file")


def encoded(values: dict[str, Any]) -> dict[str, str]:
    return metadata.encode(Outline(values=values))


@settings(deadline=None, derandomize=True)
@given(values=VALUES)
def test_values_round_trip_exactly(values: dict[str, Any]) -> None:
    found = decoded(encoded(values)).values
    assert found == values
    assert repr(found) == repr(values)  # -0.0, True against 1


def test_inf_and_nan_round_trip_as_valid_json() -> None:
    texts = encoded({"a": [math.inf, -math.inf, math.nan], "b": -0.0})
    json.loads(texts["burnlike.values"], parse_constant=pytest.fail)
    found = decoded(texts).values
    assert found["a"][:2] == [math.inf, -math.inf]
    assert math.isnan(found["a"][2])
    assert math.copysign(1, found["b"]) == -1


def test_tuples_come_back_as_lists() -> None:
    assert decoded(encoded({"a": (1, (2, "x"))})).values == {"a": [1, [2, "x"]]}


def test_value_that_is_not_plain_is_named() -> None:
    with pytest.raises(RecordError, match=r"values\.run\.seen\[1\]: .* got set"):
        encoded({"run": {"seen": [1, {2}]}})
    with pytest.raises(RecordError, match=r"values\.run: expected text as key, got 3"):
        encoded({"run": {3: 1}})


def test_values_that_hold_themselves_are_refused() -> None:
    values: dict[str, Any] = {}
    values["self"] = values
    with pytest.raises(RecordError, match="holds itself"):
        encoded(values)


def test_ids_and_aliases_round_trip() -> None:
    ids = {"a": ParamId(123456), "b": ParamId(2**64 - 1)}
    texts = metadata.encode(Outline(ids=ids, aliases={"c": "a"}))
    assert json.loads(texts["burnlike.ids"]) == {"a": "83h0200000000", "b": "vvvvvvvvvvvvu"}
    details = decoded(texts, ["a", "b"])
    assert details.ids == ids
    assert details.aliases == {"c": "a"}
    assert details.version == "2"
    assert details.metadata == {"format": "pt"}


def test_metadata_of_others_is_left_alone() -> None:
    details = decoded({"format": "pt", "author": "x"})
    assert details == Outline(metadata={"format": "pt", "author": "x"}, format="safetensors")


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ({"burnlike.format": "3"}, "expected burnlike.format '2', got '3'; a newer burnlike wrote it"),
        ({"burnlike.format": "10"}, "a newer burnlike wrote it"),
        ({"burnlike.format": "1"}, "expected burnlike.format '2', got '1'; no burnlike writes that"),
        ({"burnlike.format": "two"}, "no burnlike writes that"),
        ({"burnlike.ids": '{"a":"!"}'}, "13 characters"),
        ({"burnlike.ids": '{"z":"0000000000000"}'}, "no tensor"),
        ({"burnlike.ids": '{"a":"0000000000000","b":"0000000000000"}'}, "both 'a' and 'b'"),
        ({"burnlike.ids": "[]"}, "not a map"),
        ({"burnlike.ids": "{"}, "not valid JSON"),
        ({"burnlike.aliases": '{"c":"z"}'}, "contradict"),
        ({"burnlike.aliases": '{"a":"b"}'}, "contradict"),
        ({"burnlike.values": "3"}, "not a map"),
        ({"burnlike.values": '{"a":' + "[" * 100_000}, "not valid JSON|nested too deeply"),
        ({"burnlike.values": '{"a":' + "[" * 900 + "]" * 900 + "}"}, "not valid JSON|nested too deeply"),
    ],
)
def test_damaged_details_are_refused(texts: dict[str, str], message: str) -> None:
    with pytest.raises(RecordFormatError, match=message) as caught:
        decoded({"burnlike.format": "2", **texts}, ["a", "b"])
    assert str(caught.value).startswith("file: ")


def test_values_nest_up_to_64_levels() -> None:
    def nested(levels: int) -> dict[str, object]:
        value: object = 1
        for _ in range(levels - 1):
            value = [value]
        return {"a": value}

    texts = encoded(nested(64))
    assert metadata.decode(texts, {}, "file").values == nested(64)
    with pytest.raises(RecordError, match="nested too deeply"):
        encoded(nested(65))
