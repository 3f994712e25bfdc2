"""Formats by content and by name, records as bytes in memory and in gzip streams, and values in a file's texts."""

import gzip
import json
import math
import random
import subprocess
import sys
import threading
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import burnlike as bl
import burnlike.record
from burnlike.errors import RecordError, RecordFormatError
from burnlike.module import ParamId
from burnlike.record import (
    BinFileRecorder,
    FileRecorder,
    HalfPrecision,
    Record,
    SafetensorsRecorder,
    layout_of,
    metadata,
    open_record,
)
from burnlike.record.bytes.source import BytesSource, Cursor, GzipSource, is_gzip
from burnlike.record.formats import EXTENSIONS, Outline, TensorEntry, detect, format_of_path
from burnlike.record.layout import check_layout

from ..processes import HANGS_S

BURN_EXTENSIONS = (".mpk", ".mpk.gz", ".json", ".json.gz", ".bin", ".bin.gz", ".bpk")
GOLDEN = Path(__file__).parents[1] / "golden"
RECORDERS = {
    recorder.format.extension: recorder
    for recorder in (getattr(bl.record, name) for name in dir(bl.record) if name.endswith("Recorder"))
    if hasattr(recorder, "format") and not recorder.__name__.endswith("BytesRecorder")
}
"""Extension -> the public recorder of files."""


@pytest.mark.parametrize("extension", EXTENSIONS)
def test_a_listed_format_is_complete(extension: str) -> None:
    listed = format_of_path(f"x{extension}")
    assert (listed.extension, listed.compressed) == (extension, extension.endswith(".gz"))
    assert extension in RECORDERS, "no public recorder in burnlike/record/__init__.pyi has this format"
    recorder = RECORDERS[extension]()
    assert recorder.format is listed
    layer = nn.Linear(2, 2)
    written = recorder.to_bytes(Record.from_module(layer))
    assert detect(BytesSource(written)) is listed
    layout = None if listed.has_names else layout_of(layer)
    assert torch.equal(recorder.from_bytes(written, layout).tensors["weight"], layer.weight)
    documented = (Path(__file__).parents[2] / "docs" / "formats.md").read_text()
    assert f"`{extension}`" in documented
    assert f"`{RECORDERS[extension].__name__}`" in documented


@pytest.mark.parametrize("extension", [*BURN_EXTENSIONS, ".safetensors"])
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


@pytest.mark.parametrize("data", [b"", b"x", b"garbage, not a record", b"\x1f\x8b", gzip.compress(b"garbage", mtime=0)])
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


OF_TORCH = [
    *("w.pt", "w.PT", "w.pth", "w.ckpt", "w.pkl", "model_best.pth.tar", "w.pt2"),
    *("pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "adapter_model.bin"),
    *("diffusion_pytorch_model.fp16.bin", "pytorch_model.bin.index.json", "model.safetensors.index.json"),
]
"""Names that readers take for pickles of torch.save, or for the index of a set of files."""


@pytest.mark.parametrize("name", OF_TORCH)
def test_names_that_stand_for_other_files_are_refused_by_every_save(name: str, tmp_path: Path) -> None:
    layer = bl.nn.LinearConfig(d_input=2, d_output=2).init()
    saves = [
        lambda path: bl.record.save(layer, path),
        lambda path: bl.record.save(layer, str(path), bl.HalfPrecision),
        lambda path: bl.record.save_async(layer, path).wait(),
        lambda path: layer.save(path),
        lambda path: SafetensorsRecorder().save(layer.into_record(), path),
        lambda path: BinFileRecorder().save(layer.into_record(), path),
    ]
    for save in saves:
        with pytest.raises(RecordError, match=r"are read by torch\.load|is the name of the index"):
            save(tmp_path / name)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["x.foo", "model.v1", "x.dcp", "x.mpkk"])
def test_a_save_refuses_the_extensions_that_convert_refuses(name: str, tmp_path: Path) -> None:
    layer = bl.nn.LinearConfig(d_input=2, d_output=2).init()
    for save in (lambda path: bl.record.save(layer, path), lambda path: bl.record.save_async(layer, path), layer.save):
        with pytest.raises(RecordError, match=r"ends in one of \.safetensors, \.mpk"):
            save(tmp_path / name)
    assert not [*tmp_path.iterdir()]
    assert bl.record.save(layer, tmp_path / "x") == str(tmp_path / "x.safetensors")


@pytest.mark.parametrize(
    "name", ["model.bin", "optimizer.bin", "pt", "model.v1.mpk", "my_pytorch_models.bin", "x.pt.mpk"]
)
def test_names_that_only_look_alike_are_taken(name: str, tmp_path: Path) -> None:
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    path = bl.record.save(layer, tmp_path / name)
    bl.record.load(other, path)
    assert torch.equal(layer.weight, other.weight)


def test_a_file_of_torch_is_told_by_its_content_whatever_its_name(tmp_path: Path) -> None:
    layer, other = nn.Linear(2, 2), nn.Linear(2, 2)
    path = tmp_path / "pytorch_model.bin"
    torch.save(layer.state_dict(), path)
    bl.record.load(other, path)
    assert torch.equal(layer.weight, other.weight)
    for recorder in (BinFileRecorder(), SafetensorsRecorder()):
        with pytest.raises(
            RecordFormatError, match=f"expected a file of {recorder.format.name}, got one of pt; .*open_record"
        ):
            recorder.load(path, layout_of(layer))


FILE_RECORDERS = {
    name: found
    for name in burnlike.record.__all__
    if isinstance(found := getattr(burnlike.record, name), type)
    and issubclass(found, FileRecorder)
    and found is not FileRecorder
}
each_recorder = pytest.mark.parametrize(
    "recorder", [found() for found in FILE_RECORDERS.values()], ids=list(FILE_RECORDERS)
)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 2), nn.LayerNorm(2))


def test_burns_recorders_are_all_there() -> None:
    burns = {
        *("NamedMpkFileRecorder", "NamedMpkGzFileRecorder", "NamedMpkBytesRecorder", "PrettyJsonFileRecorder"),
        *("JsonGzFileRecorder", "BinFileRecorder", "BinGzFileRecorder", "BinBytesRecorder", "BurnpackRecorder"),
    }
    assert burns <= FILE_RECORDERS.keys()


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


@pytest.mark.slow  # a process of its own, whose imports take seconds
def test_64_mb_in_memory_take_little_more_than_that() -> None:
    names = ["SafetensorsRecorder", "NamedMpkBytesRecorder"]
    result = subprocess.run(
        [sys.executable, "-c", CHILD, *names], capture_output=True, text=True, check=True, timeout=HANGS_S
    )
    for name, extra in json.loads(result.stdout).items():
        assert extra < 1.25 * (64 << 20), name


LENGTH = 3_000_000


@pytest.fixture(scope="module")
def plain() -> bytes:
    numbers = random.Random(0)
    return b"".join(
        numbers.choice([numbers.randbytes(1000), bytes(1000), b"burn" * 250]) for _ in range(LENGTH // 1000)
    )


@pytest.fixture(scope="module")
def packed(plain: bytes) -> bytes:
    return gzip.compress(plain, 1)


def source_of(data: bytes) -> GzipSource:
    return GzipSource(BytesSource(data, "x.gz"))


def test_any_ranges_in_any_order_are_those_of_the_unpacked_data(plain: bytes, packed: bytes) -> None:
    source, numbers = source_of(packed), random.Random(1)
    for _ in range(60):
        start = numbers.randrange(LENGTH)
        count = min(numbers.choice([0, 1, 16, 70_000, 600_000]), LENGTH - start)
        assert source.has(start, count)
        assert source.read(start, count) == plain[start : start + count]


def test_the_end_is_known_whatever_was_read_before(plain: bytes, packed: bytes) -> None:
    for before in (0, 1, LENGTH):
        source = source_of(packed)
        source.read(0, before)
        assert source.has(LENGTH - 1, 1)
        assert source.has(LENGTH, 0)
        assert not source.has(LENGTH, 1)
        assert not source.has(LENGTH + 5, 0)
        assert not source.has(10**18, 10**18)
        assert source.has(0, LENGTH)
        assert not source.has(0, LENGTH + 1)
        with pytest.raises(RecordFormatError, match="truncated"):
            source.read(LENGTH - 10, 11)
        assert source.read(LENGTH - 10, 10) == plain[-10:]


def test_reading_forward_through_windows_takes_one_pass(plain: bytes, packed: bytes) -> None:
    source = source_of(packed)
    cursor = Cursor(source)
    found = b""
    while not cursor.at_end():
        found += cursor.take(min(997, LENGTH - cursor.position))
    assert found == plain
    assert source.restarts == 0


def test_looking_ahead_does_not_lose_the_place(plain: bytes, packed: bytes) -> None:
    source = source_of(packed)
    for start in range(0, LENGTH - (1 << 16), 50_000):
        assert source.has(start, 1 << 16)
        assert source.read(start, 8) == plain[start : start + 8]
    assert source.restarts == 0


def test_going_back_unpacks_again(plain: bytes, packed: bytes) -> None:
    source = source_of(packed)
    source.read(LENGTH - 1, 1)
    assert source.read(0, 4) == plain[:4]
    assert source.restarts == 1


def test_streams_that_follow_each_other_are_one(plain: bytes) -> None:
    parts = [plain[:1_000_000], b"", plain[1_000_000:1_000_001], plain[1_000_001:]]
    source = source_of(b"".join(map(gzip.compress, parts)))
    assert source.read(0, LENGTH) == plain
    assert not source.has(LENGTH, 1)
    assert source_of(gzip.compress(b"") * 3).has(0, 0)
    assert not source_of(gzip.compress(b"") * 3).has(0, 1)


def test_many_empty_streams_take_little_time_each() -> None:
    source = source_of(gzip.compress(b"") * 50_000 + gzip.compress(b"end"))
    assert source.read(0, 3) == b"end"


@pytest.mark.parametrize("behind", [b"\0", b"garbage", b"\x1f", b"\x1f\x8b\x09"])
def test_bytes_behind_the_stream_are_refused(packed: bytes, behind: bytes) -> None:
    source = source_of(packed + behind)
    with pytest.raises(RecordFormatError, match=r"behind its compressed data|damaged|truncated"):
        source.has(LENGTH, 1)


@pytest.mark.parametrize("cut", [1, 4, 7, 8, 9, 1000, 300_000])
def test_a_stream_that_is_cut_is_refused(packed: bytes, cut: int) -> None:
    with pytest.raises(RecordFormatError, match="truncated within its compressed data"):
        source_of(packed[:-cut]).has(LENGTH, 1)


@pytest.mark.parametrize("place", [-1, -6, -1000, 12])
def test_damage_is_an_error_once_the_end_is_read(packed: bytes, place: int) -> None:
    data = bytearray(packed)
    data[place] ^= 0xFF
    with pytest.raises(RecordFormatError, match="damaged"):
        source_of(bytes(data)).has(LENGTH, 1)


def test_every_cut_of_a_small_stream_is_an_error() -> None:
    data = gzip.compress(b"some data, some data")
    for length in range(2, len(data)):
        with pytest.raises(RecordFormatError):
            source_of(data[:length]).has(20, 1)


def test_a_bomb_takes_no_memory() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(100)) + packer.flush()
    source = source_of(data)
    tracemalloc.start()
    try:
        assert source.has(0, 100 << 20)
        assert not source.has(0, (100 << 20) + 1)
        assert tracemalloc.get_traced_memory()[1] < 2 << 20
    finally:
        tracemalloc.stop()


def test_several_threads_get_what_they_asked_for(plain: bytes, packed: bytes) -> None:
    source = source_of(packed)
    wrong: list[int] = []

    def read(seed: int) -> None:
        numbers = random.Random(seed)
        for _ in range(10):
            start = numbers.randrange(LENGTH - 100_000)
            if source.read(start, 100_000) != plain[start : start + 100_000]:
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_gzip_is_told_by_its_first_bytes(packed: bytes) -> None:
    assert is_gzip(BytesSource(packed))
    assert not is_gzip(BytesSource(b"\x1f"))
    assert not is_gzip(BytesSource(b"{}"))


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


@pytest.mark.parametrize("layout", [3, {1: "tensor"}, {"a": 7}])
def test_layouts_of_anything_but_texts_and_maps_are_refused(layout: Any) -> None:
    with pytest.raises(RecordError, match="expected a text or a map from texts, got"):
        check_layout(layout)
