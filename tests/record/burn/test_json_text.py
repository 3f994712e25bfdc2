"""JSON: what the text looks like, and what is refused."""

import gzip
import json
import random
import re
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st

from burnlike.errors import RecordFormatError
from burnlike.module import ParamId
from burnlike.record import FullPrecision, JsonGzFileRecorder, PrettyJsonFileRecorder, Record, open_record
from burnlike.record.burn.json_text import Numbers, float_text, runs
from burnlike.record.bytes.source import BytesSource

from .samples import unpacked

METADATA = {"float": "f32", "int": "i32", "format": "x", "version": "0.21.0", "settings": "FullPrecisionSettings"}


def text_of(item: str, before: str = "", behind: str = "") -> bytes:
    return f'{{{before}"metadata":{json.dumps(METADATA)},"item":{item},"_b":null{behind}}}'.encode()


def read(data: bytes | str) -> Record:
    return PrettyJsonFileRecorder().from_bytes(data.encode() if isinstance(data, str) else data)


def tensor_text(numbers: str, shape: str = "[1]", dtype: str = '"F32"') -> bytes:
    return text_of(f'{{"w":{{"bytes":{numbers},"shape":{shape},"dtype":{dtype}}}}}')


def test_pretty_text_is_that_of_serde_json() -> None:
    """As in the documentation of the format: two spaces, a value a line, no newline at the end."""
    record = Record({"weight": torch.tensor([[1.0]])}, ids={"weight": ParamId(123456)})
    assert PrettyJsonFileRecorder(FullPrecision).to_bytes(record).decode() == (
        '{\n  "metadata": {\n    "float": "f32",\n    "int": "i32",\n    "format": "burn_core::record::file::'
        'PrettyJsonFileRecorder<burn_core::record::settings::FullPrecisionSettings>",\n    "version": "0.21.0",\n'
        '    "settings": "FullPrecisionSettings"\n  },\n  "item": {\n    "weight": {\n      "id": "83h0200000000",\n'
        '      "param": {\n        "bytes": [\n          0,\n          0,\n          128,\n          63\n        ],\n'
        '        "shape": [\n          1,\n          1\n        ],\n        "dtype": "F32"\n      }\n    }\n  },\n'
        '  "_b": null\n}'
    )


def test_nothing_stands_between_the_brackets_of_what_is_empty() -> None:
    text = PrettyJsonFileRecorder().to_bytes(
        Record({"x": torch.ones(0)}, layout={"x": "tensor", "y": {}, "z": {"$vec": []}})
    )
    assert b'"bytes": [],' in text
    assert b'"y": {},\n    "z": []\n' in text
    assert b'"item": {},' in PrettyJsonFileRecorder().to_bytes(Record())


@pytest.mark.parametrize(
    ("value", "text"),
    # What serde_json 1.0.149 prints; Python's repr differs in all but the first line.
    [
        *((1.0, "1.0"), (0.1, "0.1"), (-2.5, "-2.5"), (123456.789, "123456.789"), (0.0, "0.0"), (-0.0, "-0.0")),
        *((1e-5, "0.00001"), (1.5e-5, "0.000015"), (1e-6, "1e-6"), (1.5e-7, "1.5e-7"), (5e-324, "5e-324")),
        *((1e15, "1000000000000000.0"), (1234567890123456.0, "1234567890123456.0"), (1e16, "1e+16")),
        *((123456789012345680.0, "1.2345678901234568e+17"), (1.7976931348623157e308, "1.7976931348623157e+308")),
    ],
)
def test_floats_are_written_as_serde_json_does(value: float, text: str) -> None:
    assert float_text(value) == text


@settings(derandomize=True)
@given(value=st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_from_their_text(value: float) -> None:
    assert float(float_text(value)).hex() == value.hex()
    assert len(float_text(value)) <= 24


def test_texts_are_escaped_as_serde_json_does() -> None:
    text = 'quote" back\\ slash/ \b\f\n\r\t \x00\x1f\x7f ä 漢 😀'
    written = JsonGzFileRecorder().to_bytes(Record(values={"x": text}, layout={"x": "str"}))
    assert (r'"x":"quote\" back\\ slash/ \b\f\n\r\t \u0000\u001f' + '\x7f ä 漢 😀"').encode() in unpacked(written)


def test_keys_may_come_in_any_order_with_any_blanks() -> None:
    item = '{"w": {"param": {"dtype": "F32", "shape": [1], "bytes": [0, 0,128 ,63]}, "id": "83h0200000000"}}'
    text = f'\t\r\n {{ "_b" : null , "item" : {item},\n\n"other": [1, {{}}], "metadata":{json.dumps(METADATA)} }} \n'
    record = read(text)
    assert record.tensors["w"].item() == 1.0
    assert record.ids["w"] == ParamId(123456)
    assert read(text.replace(" ", "\n\t")).tensors["w"].item() == 1.0


def test_a_list_named_bytes_is_a_list_where_no_tensor_is() -> None:
    record = read(text_of('{"a":{"bytes":[1,2]},"b":{"bytes":[]},"c":{"bytes":["x",null]}}', '"x":{"bytes":[300]},'))
    assert record.values == {"a": {"bytes": [1, 2]}, "c": {"bytes": ["x", None]}}
    assert record.tensors == {}


def test_escapes_are_read() -> None:
    assert read(text_of(r'"\u00e4\n\ud83d\ude00\"\/\\ \u0041"')).values == {"": 'ä\n😀"/\\ A'}


@pytest.mark.parametrize(
    "number", ["0", "-0.0", "1e3", "-1.5E-7", "18446744073709551615", "-9223372036854775808", "0.1"]
)
def test_numbers_are_those_of_pythons_reader(number: str) -> None:
    found = read(text_of(number)).values[""]
    assert (type(found), repr(found)) == (type(json.loads(number)), repr(json.loads(number)))


WRONG = {
    "a key twice": (text_of('{"a":1,"a":2}'), "'a' comes twice"),
    "metadata twice": (text_of("1", '"metadata":1,'), "'metadata' comes twice"),
    "an escaped key twice": (text_of(r'{"a":1,"\u0061":2}'), "'a' comes twice"),
    "nan": (text_of("NaN"), "expected a value, got b'NaN"),
    "infinity": (text_of("-Infinity"), "expected a value"),
    "a number too large": (text_of("1e999"), "64 bits"),
    "an integer of 65 bits": (text_of(str(2**64)), "more than 64 bits"),
    "an integer of 5000 digits": (text_of("1" * 5000), "at most 4300 digits"),
    "a leading zero": (text_of("01"), "expected a comma"),
    "a plus": (text_of("+1"), "expected a value"),
    "a point without digits": (text_of("1."), "expected a comma"),
    "a bad escape": (text_of(r'"\x"'), "escape sequence"),
    "a short escape": (text_of(r'"\u12"'), "escape sequence"),
    "half a surrogate pair": (text_of(r'"\ud800"'), "surrogate"),
    "half a surrogate pair in a key": (text_of(r'{"\udc00":1}'), "surrogate"),
    "a newline in a text": (text_of('"a\nb"'), "expected the rest of a text"),
    "not UTF-8": (text_of('"?"').replace(b"?", b"\xff"), "not UTF-8"),
    "an encoded surrogate": (text_of('"?"').replace(b"?", b"\xed\xa0\x80"), "not UTF-8"),
    "a comma too many": (text_of('{"a":1,}'), "expected a key"),
    "a comma too many in a list": (text_of("[1,]"), "expected a value"),
    "no comma": (text_of("[1 2]"), "expected a comma or ]"),
    "no colon": (text_of('{"a" 1}'), "expected a colon"),
    "a key that is no text": (text_of("{1:1}"), "expected a key"),
    "something behind": (text_of("1") + b"1", "expected the end"),
    "single quotes": (text_of("'a'"), "expected a value"),
    "a comment": (text_of("/**/1"), "expected a value"),
    "nested too deeply": (text_of("[" * 200 + "]" * 200), "nested too deeply"),
    "nested far too deeply": (text_of('{"a":' * 100_000 + "1" + "}" * 100_000), "nested too deeply"),
    "never ending": (b'{"a":' * 100_000, "nested too deeply"),
    "a list": (b"[]", "expected a map"),
    "nothing": (b"", "expected a map"),
    "blanks": (b" \n ", "expected a map"),
    "a truncated word": (b'{"a":nul', "expected a value"),
    "no metadata": (b'{"item":1}', "metadata and item"),
    "a byte of 256": (tensor_text("[0,0,256,0]"), "expected a number from 0 to 255, got b'256"),
    "a byte of -1": (tensor_text("[0,0,-1,0]"), "expected a number from 0 to 255, got b'-1"),
    "a byte of -0": (tensor_text("[0,0,-0,0]"), "expected a number from 0 to 255"),
    "a byte of 1.0": (tensor_text("[0,0,1.0,0]"), "expected a number from 0 to 255"),
    "a byte of 01": (tensor_text("[0,0,01,0]"), "expected a number from 0 to 255"),
    "a byte of true": (tensor_text("[0,0,true,0]"), "expected a number from 0 to 255"),
    "a list among bytes": (tensor_text("[0,0,[0],0]"), "expected a number from 0 to 255"),
    "bytes with a comma too many": (tensor_text("[0,0,0,0,]"), "expected a number from 0 to 255"),
    "bytes with a comma too few": (tensor_text("[0,0 0,0]"), "expected a number from 0 to 255"),
    "bytes with a huge number": (tensor_text(f"[0,{'9' * 5000},0,0]"), "expected a number from 0 to 255"),
    "a byte that is a text": (tensor_text('["0",0,0,0]'), "'w' has"),
    "bytes with a comma first": (tensor_text("[,0,0,0]"), "expected"),
    "bytes that never end": (text_of('{"w":{"bytes":[' + "0," * 100_000)[:-11], "truncated within bytes"),
    "too few bytes": (tensor_text("[0,0,0]"), "3 bytes for F32"),
    "no shape": (text_of('{"w":{"id":"83h0200000000","param":{"bytes":[0],"shape":3,"dtype":"F32"}}}'), "the shape 3"),
    "a negative shape": (tensor_text("[]", "[-1]"), "the shape"),
    "a huge shape": (tensor_text("[0,0,0,0]", "[4611686018427387904,4611686018427387904]"), "4 bytes for"),
    "a shape of bools": (tensor_text("[0,0,0,0]", "[true]"), "the shape"),
    "an unknown dtype": (tensor_text("[0,0,0,0]", dtype='"F31"'), "unknown dtype"),
    "a quantized tensor": (tensor_text("[0]", dtype='{"QFloat":{}}'), "quantized"),
    "a bad id": (text_of('{"w":{"id":"!","param":{"bytes":[0],"shape":[1],"dtype":"U8"}}}'), "the id '!'"),
    "a path twice": (
        text_of('{"a.b":{"bytes":[0],"shape":[1],"dtype":"U8"},"a":{"b":{"bytes":[0],"shape":[1],"dtype":"U8"}}}'),
        "'a.b' has two tensors",
    ),
    "a path without end": (text_of(f'{{"{"a" * 3000}":{{"{"b" * 3000}":{{"c":1}}}}}}'), "more than 4096 characters"),
    "a dollar": (text_of('{"$vec":[]}'), r"begins with \$"),
    "no such extra": (text_of("1", behind=',"burnlike":{"format":"9"}'), "newer burnlike"),
    "extra values that are none": (text_of("1", behind=',"burnlike":{"format":"2","values":[]}'), "no map"),
    "an extra float that is none": (
        text_of("1", behind=',"burnlike":{"format":"2","values":{"x":{"$float":[]}}}'),
        "is no number",
    ),
    "aliases of nothing": (text_of("1", behind=',"burnlike":{"format":"2","aliases":{"a":"b"}}'), "aliases contradict"),
    "aliases that are no texts": (
        text_of("1", behind=',"burnlike":{"format":"2","aliases":{"a":[]}}'),
        "aliases are no",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_input_is_refused_with_its_place(name: str) -> None:
    data, message = WRONG[name]
    with pytest.raises(RecordFormatError, match=re.escape(message) if "\\" not in message else message):
        read(data)


@pytest.mark.parametrize(
    ("data", "place"), [(text_of("NaN"), b"NaN"), (tensor_text("[0,0,0,300]"), b"300"), (text_of(r'"ab\x"'), rb"\x")]
)
def test_errors_name_the_byte(data: bytes, place: bytes) -> None:
    with pytest.raises(RecordFormatError, match=f"byte {data.index(place)}:"):
        read(data)


@pytest.mark.parametrize("between", [",", ", ", " ,\n   "])
def test_ranges_of_bytes_are_read_in_any_order(between: str) -> None:
    numbers = random.Random(0)
    values = numbers.randbytes(100_000)
    source = BytesSource(f"  [ {between.join(map(str, values))} ] ".encode())
    assert b"".join(run.values for run in runs(source, 2)) == values
    reader = Numbers(source)
    for _ in range(15):
        begin = numbers.randrange(len(values))
        into = bytearray(min(numbers.choice([1, 100, 70_000]), len(values) - begin))
        reader.read_into(2, begin, memoryview(into))
        assert into == values[begin : begin + len(into)]
    with pytest.raises(RecordFormatError, match="became shorter"):
        reader.read_into(2, len(values), memoryview(bytearray(1)))


def test_reading_takes_no_memory_for_the_text(tmp_path: Path) -> None:
    tensor = torch.arange(0, 500_000, dtype=torch.int32)
    path = PrettyJsonFileRecorder().save(Record({"w": tensor}), tmp_path / "x")
    assert Path(path).stat().st_size > 20_000_000
    tracemalloc.start()
    try:
        record = open_record(path)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
    assert torch.equal(record.tensors["w"], tensor)


@pytest.mark.parametrize("bomb", [b"[" + b"[]," * 100_000, b'"' + b"a" * 50_000_000])
def test_a_bomb_takes_what_its_file_justifies(bomb: bytes) -> None:
    data = gzip.compress(text_of("?").replace(b'"?"', b"?").replace(b"?", bomb), 1)
    tracemalloc.start()
    try:
        with pytest.raises(RecordFormatError):
            JsonGzFileRecorder().from_bytes(data)
        assert tracemalloc.get_traced_memory()[1] < (64 << 20) + 128 * len(data)
    finally:
        tracemalloc.stop()


def test_a_gzipped_record_is_loaded_in_one_pass_behind_the_one_that_opens_it() -> None:
    numbers = torch.Generator().manual_seed(0)
    tensors = {f"w{index}": torch.randn(60_000, generator=numbers) for index in range(4)}
    recorder = JsonGzFileRecorder()
    record = recorder.from_bytes(recorder.to_bytes(Record(tensors)))
    source: Any = next(iter(record.tensors.outline.entries.values())).source  # type: ignore[attr-defined]
    before = source.restarts
    for name, tensor in tensors.items():
        assert torch.equal(record.tensors[name], tensor)
    assert source.restarts <= before + 1
