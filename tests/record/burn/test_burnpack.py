"""Burnpack files: Burn's, by hand, of other writers, damaged; tied tensors, values, names and layouts in them."""

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings, strategies as st

from burnlike.errors import DTypeError, RecordError, RecordFormatError
from burnlike.module import ParamId
from burnlike.record import (
    BurnpackRecorder,
    FullPrecision,
    HalfPrecision,
    NamedMpkFileRecorder,
    Record,
    SafetensorsRecorder,
    open_record,
)
from burnlike.record.burn import burnpack
from burnlike.record.burn.burnpack import BURNPACK
from burnlike.record.bytes.source import BytesSource, Source
from burnlike.record.formats import Outline, TensorEntry

from .packs import descriptor, made, read, same

GOLDENS = Path(__file__).parents[2] / "golden" / "v0.22"
MODULES = sorted(
    path.name
    for path in (*GOLDENS.glob("*.bpk"), *GOLDENS.glob("*.safetensors"))
    if not path.name.startswith(("optim_", "lr_", "train_run"))
)
BY_HAND = bytes.fromhex(
    "4e52554201004300 0000a16774656e73 6f7273a166776569 676874a465647479"
    "7065634633326573 68617065820202 6c 646174615f6f6666 7365747382001068"
    "706172616d5f6964 1a0001e240"
)
"""One tensor `weight` of float32 [2, 2] with the id 123456; zeros fill it up to 256 bytes, then come its values."""


@pytest.mark.parametrize("path", sorted(GOLDENS.glob("*.bpk")), ids=lambda path: path.name)
def test_files_of_burn_are_written_again_byte_for_byte(path: Path) -> None:
    assert BurnpackRecorder().to_bytes(open_record(path)) == path.read_bytes()


@pytest.mark.parametrize("path", sorted(GOLDENS.glob("*.safetensors")), ids=lambda path: path.name)
def test_safetensors_files_of_burn_are_written_again_byte_for_byte(path: Path) -> None:
    assert SafetensorsRecorder().to_bytes(open_record(path)) == path.read_bytes()


@pytest.mark.parametrize("file", MODULES)
def test_files_of_burn_hold_the_values_that_burn_tells(file: str) -> None:
    name, _, extension = file.partition(".")
    record = open_record(GOLDENS / file)
    told = {it["path"]: it for it in json.loads((GOLDENS / f"{name}.values.json").read_text())["params"]}
    assert set(record.tensors) == told.keys()
    for path, param in told.items():
        tensor = record.tensors[path].T if name == "linear_col" and path == "weight" else record.tensors[path]
        assert list(tensor.shape) == param["shape"]
        assert tensor.dtype == {"float": torch.float32, "int": torch.int32, "bool": torch.bool}[param["kind"]]
        np.testing.assert_array_equal(tensor.flatten().numpy(), np.array(param["values"], tensor.numpy().dtype))
        if extension == "bpk":
            assert record.ids[path] == ParamId(int(param["id_u64"])) == ParamId.parse(param["id"])


def test_a_file_is_the_bytes_that_the_format_says() -> None:
    weight = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    record = Record({"weight": weight}, ids={"weight": ParamId(123456)})
    expected = BY_HAND + bytes(256 - len(BY_HAND)) + struct.pack("<4f", 1, 2, 3, 4)
    assert BurnpackRecorder().to_bytes(record) == expected
    found = read(expected)
    assert torch.equal(found.tensors["weight"], weight)
    assert found.ids == {"weight": ParamId(123456)}


def test_names_are_sorted_and_data_keeps_the_order_of_the_record() -> None:
    record = Record({"z": torch.ones(1), "a": torch.zeros(2)})
    data = BurnpackRecorder().to_bytes(record)
    assert data == made(
        {"tensors": {"a": descriptor(256, 264), "z": descriptor(0, 4)}}, struct.pack("<f", 1) + bytes(252 + 8)
    )
    assert list(read(data).tensors) == ["z", "a"]


def test_files_without_padding_are_read() -> None:
    metadata = {"tensors": {"a": descriptor(0, 8), "b": descriptor(8, 12, param_id=7)}}
    found = read(made(metadata, struct.pack("<3f", 1, 2, 3), aligned=False))
    assert found.tensors["a"].tolist() == [1, 2]
    assert found.tensors["b"].tolist() == [3]
    assert found.ids == {"b": ParamId(7)}


def test_version_0_is_read() -> None:
    assert read(made({"tensors": {"a": descriptor(0, 4)}}, bytes(4), version=0)).tensors["a"].tolist() == [0]


@pytest.mark.parametrize("dtype", ["F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U64", "U32", "U16", "U8"])
def test_every_element_type_of_burn_comes_back(dtype: str) -> None:
    widths = {"8": torch.uint8, "16": torch.int16, "32": torch.int32, "64": torch.int64}
    bits = torch.arange(6, dtype=widths[dtype.lstrip("BFIU")])
    raw = bits.numpy().tobytes()
    source = made({"tensors": {"a": {"dtype": dtype, "shape": [2, 3], "data_offsets": [0, len(raw)]}}}, raw)
    found = BurnpackRecorder().from_bytes(source)
    assert torch.equal(found.tensors["a"].view(bits.dtype).flatten(), bits)
    assert BurnpackRecorder().to_bytes(found) == source


@pytest.mark.parametrize(("store", "form"), [("Native", "<4B"), ("U8", "<4B"), ("U32", "<4I")])
def test_bools_are_read_from_every_store(store: str, form: str) -> None:
    raw = struct.pack(form, 1, 0, 0, 1)
    tensor = {"dtype": {"Bool": store}, "shape": [4], "data_offsets": [0, len(raw)]}
    assert read(made({"tensors": {"a": tensor}}, raw)).tensors["a"].tolist() == [True, False, False, True]


def test_values_are_converted_on_the_way_in_and_out(tmp_path: Path) -> None:
    values = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    path = BurnpackRecorder(HalfPrecision).save(Record({"a": values}), tmp_path / "model")
    assert path == str(tmp_path / "model.bpk")
    found = open_record(path)
    assert torch.equal(found.tensors["a"], values.half())
    again = BurnpackRecorder(FullPrecision).to_bytes(found)
    assert torch.equal(read(again).tensors["a"], values.half().float())


def test_texts_of_other_programs_stay() -> None:
    data = made({"tensors": {}, "metadata": {"format": "burnpack", "producer": "burn", "version": "0.21.0"}})
    found = read(data)
    assert found.metadata == {"format": "burnpack", "producer": "burn", "version": "0.21.0"}
    assert BurnpackRecorder().to_bytes(found) == data


def test_unknown_keys_and_forms_that_other_writers_use_are_read() -> None:
    tensor = descriptor(0, 4, param_id=None, checksum=[1, {"x": None}])
    assert list(read(made({"later": 1, "tensors": {"a": tensor}, "metadata": None, "scalars": None}, bytes(4))).tensors)
    indefinite = bytes.fromhex("bf677465 6e736f7273bfffff")
    assert dict(read(made(indefinite)).tensors) == {}


def test_types_that_burn_lacks_are_refused() -> None:
    with pytest.raises(DTypeError, match="F8_E4M3"):
        BurnpackRecorder().to_bytes(Record({"a": torch.zeros(2, dtype=torch.float8_e4m3fn)}))


HOSTILE: Mapping[str, tuple[Any, str]] = {
    "no map": ([1], "no map with tensors"),
    "no tensors": ({"metadata": {}}, "no map with tensors"),
    "tensors are a list": ({"tensors": []}, "no map with tensors"),
    "no descriptor": ({"tensors": {"a": 3}}, "'a' has no descriptor"),
    "no dtype": ({"tensors": {"a": {"shape": [1], "data_offsets": [0, 4]}}}, "'a' has the unknown dtype None"),
    "unknown dtype": ({"tensors": {"a": descriptor(0, 4, dtype="F31")}}, "'a' has the unknown dtype 'F31'"),
    "quantized": ({"tensors": {"a": descriptor(0, 4, dtype={"QFloat": {}})}}, "'a' is quantized"),
    "no shape": ({"tensors": {"a": {"dtype": "F32", "data_offsets": [0, 4]}}}, "'a' has the shape None"),
    "negative shape": ({"tensors": {"a": descriptor(0, 4, shape=[-1])}}, r"'a' has the shape \[-1\]"),
    "bool in a shape": ({"tensors": {"a": descriptor(0, 4, shape=[True])}}, r"'a' has the shape \[True\]"),
    "huge shape": ({"tensors": {"a": descriptor(0, 4, shape=[2**62, 2**62])}}, "'a' has 4 bytes for F32"),
    "shape that wraps": ({"tensors": {"a": descriptor(0, 4, shape=[2**32, 2**32 + 1])}}, "'a' has 4 bytes for F32"),
    "too few bytes": ({"tensors": {"a": descriptor(0, 4, shape=[2])}}, "'a' has 4 bytes for F32"),
    "no offsets": ({"tensors": {"a": {"dtype": "F32", "shape": [1]}}}, "'a' has the data_offsets None"),
    "one offset": ({"tensors": {"a": descriptor(0, 4, data_offsets=[4])}}, "'a' has the data_offsets"),
    "backward offsets": ({"tensors": {"a": descriptor(0, 4, data_offsets=[4, 0])}}, "'a' has -4 bytes"),
    "float offsets": ({"tensors": {"a": descriptor(0, 4, data_offsets=[0.0, 4.0])}}, "'a' has the data_offsets"),
    "beyond the end": ({"tensors": {"a": descriptor(4, 8)}}, "truncated: its tensors end at byte 264"),
    "far beyond the end": ({"tensors": {"a": descriptor(2**64 - 5, 2**64 - 1)}}, "at most 107374182400 are allowed"),
    "overlap": ({"tensors": {"a": descriptor(0, 4), "b": descriptor(0, 4)}}, "'b' has bytes in common with 'a'"),
    "overlap of ids": (
        {"tensors": {"a": descriptor(0, 4, param_id=1), "b": descriptor(0, 4, param_id=2)}},
        "'b' has bytes in common with 'a'",
    ),
    "text as id": ({"tensors": {"a": descriptor(0, 4, param_id="7")}}, "'a' has the param_id '7'"),
    "negative id": ({"tensors": {"a": descriptor(0, 4, param_id=-1)}}, "'a' has the param_id -1"),
    "texts are numbers": ({"tensors": {}, "metadata": {"a": 1}}, "no map from text to text"),
    "texts are a list": ({"tensors": {}, "metadata": ["a"]}, "no map from text to text"),
    "scalars are a list": ({"tensors": {}, "scalars": [1]}, "its scalars are no map"),
    "bare scalar": ({"tensors": {}, "scalars": {"a": 1}}, "'a' has the scalar 1"),
    "scalar of two kinds": ({"tensors": {}, "scalars": {"a": {"Int": 1, "UInt": 1}}}, "'a' has the scalar"),
    "scalar of no kind": ({"tensors": {}, "scalars": {"a": {"Text": "x"}}}, "'a' has the scalar"),
    "negative UInt": ({"tensors": {}, "scalars": {"a": {"UInt": -1}}}, "'a' has the scalar"),
    "too large Int": ({"tensors": {}, "scalars": {"a": {"Int": 2**63}}}, "'a' has the scalar"),
    "number as Bool": ({"tensors": {}, "scalars": {"a": {"Bool": 1}}}, "'a' has the scalar"),
    "Bool as Int": ({"tensors": {}, "scalars": {"a": {"Int": True}}}, "'a' has the scalar"),
    "integer as Float": ({"tensors": {}, "scalars": {"a": {"Float": 1}}}, "'a' has the scalar"),
    "scalars in each other": (
        {"tensors": {}, "scalars": {"a": {"UInt": 1}, "a.b": {"UInt": 1}}},
        "the scalar 'a.b' begins with that of another",
    ),
    "rank of nine": ({"tensors": {}, "scalars": {"7.__rank": {"UInt": 9}}}, "'7.__rank' is no number of dimensions"),
    "rank of none": ({"tensors": {}, "scalars": {"7.__rank": {"Bool": True}}}, "'7.__rank' is no number of dimensions"),
    "later burnlike": ({"tensors": {}, "metadata": {"burnlike.format": "9"}}, "a newer burnlike wrote it"),
    "text that is no JSON": (
        {"tensors": {}, "metadata": {"burnlike.format": "2", "burnlike.aliases": "{"}},
        "burnlike.aliases is not valid JSON",
    ),
    "alias of another id": (
        {
            "tensors": {"a": descriptor(0, 4, param_id=1), "b": descriptor(4, 4)},
            "metadata": {"burnlike.format": "2", "burnlike.aliases": '{"b":"a"}'},
        },
        "ties 'b' to 'a', which the tensors contradict",
    ),
    "alias of nothing": (
        {"tensors": {}, "metadata": {"burnlike.format": "2", "burnlike.aliases": '{"b":"a"}'}},
        "ties 'b' to 'a', which the tensors contradict",
    ),
    "value told twice": (
        {
            "tensors": {},
            "scalars": {"a": {"UInt": 1}},
            "metadata": {"burnlike.format": "2", "burnlike.values": '{"a":2}'},
        },
        "the value 'a' is there as scalars and as text",
    ),
    "states that are no map": (
        {
            "tensors": {},
            "scalars": {"7.__rank": {"UInt": 1}},
            "metadata": {"burnlike.format": "2", "burnlike.values": '{"states":2}'},
        },
        "contradict its scalars",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_metadata_that_can_not_be_is_refused_with_the_reason(case: str) -> None:
    metadata, message = HOSTILE[case]
    with pytest.raises(RecordFormatError, match=f"the bytes: .*{message}"):
        read(made(metadata, bytes(4 if isinstance(metadata, dict) and metadata.get("tensors") else 0)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "too short"),
        (b"NRUB\1\0\0\0\0", "too short"),
        (b"NRUC\1\0" + bytes(8), "expected a burnpack file"),
        (made({"tensors": {}}, version=2), "burnpack version 2, known are those up to 1"),
        (b"NRUB\1\0" + struct.pack("<I", 100 * 2**20 + 1), "promises 104857601 bytes of metadata"),
        (b"NRUB\1\0" + struct.pack("<I", 100 * 2**20), "truncated"),
        (made({"tensors": {}}, b"\0"), "bytes lie behind its last tensor"),
        (made(b"\xa1"), "truncated"),
        (made(b"\x81" * 200), "nested too deeply"),
        (made(b"\xbf" + b"\x67tensors\xa0" * 2 + b"\xff"), "comes twice"),
    ],
)
def test_damaged_files_are_refused_with_the_reason(data: bytes, message: str) -> None:
    with pytest.raises(RecordFormatError, match=message):
        read(data)


class _Sparse(Source):
    """A file of any length whose beginning is given; the rest are zeros."""

    def __init__(self, head: bytes, size: int) -> None:
        self.path = "sparse"
        self.head, self.size, self.stored_bytes = head, size, size

    def read_into(self, offset: int, into: memoryview) -> None:
        into[:] = self.head[offset : offset + len(into)].ljust(len(into), b"\0")

    def has(self, offset: int, count: int) -> bool:
        return offset + count <= self.size


def test_limits_of_burn_hold_for_files() -> None:
    def opened(tensors: Mapping[str, Any], size: int) -> Outline:
        head = made({"tensors": tensors})
        return BURNPACK.read(_Sparse(head, len(head) + size))

    gib = 2**30
    assert len(opened({"a": descriptor(0, 10 * gib)}, 10 * gib).entries) == 1
    with pytest.raises(RecordFormatError, match="'a' has 10737418244 bytes, at most 10737418240 are allowed"):
        opened({"a": descriptor(0, 10 * gib + 4)}, 10 * gib + 4)
    ten = {str(index): descriptor(index * 10 * gib, (index + 1) * 10 * gib) for index in range(10)}
    with pytest.raises(RecordFormatError, match=r"it takes 10737418\d+ bytes, at most 107374182400 are allowed"):
        opened(ten, 100 * gib)
    nothing = dict.fromkeys(map(str, range(100_001)))
    with pytest.raises(RecordFormatError, match="has 100001 tensors, at most 100000 are allowed"):
        opened(nothing, 0)


@pytest.mark.slow
def test_records_beyond_the_limits_of_burn_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def write(**shapes: tuple[int, ...]) -> None:
        list(BURNPACK.segments(Outline({name: TensorEntry(name, "U8", shape) for name, shape in shapes.items()})))

    gib = 2**30
    write(a=(10 * gib,))
    with pytest.raises(RecordError, match="'a' has 10737418241 bytes, Burn reads tensors of at most 10737418240"):
        write(a=(10 * gib + 1,))
    with pytest.raises(RecordError, match=r"the record has 10737418\d+ bytes, Burn reads at most 107374182400"):
        write(**{f"t{index}": (10 * gib,) for index in range(10)})
    with pytest.raises(RecordError, match="the record has 100001 tensors, Burn reads at most 100000"):
        write(**dict.fromkeys(map(str, range(100_001)), (0,)))
    monkeypatch.setattr(burnpack, "MAX_METADATA_BYTES", 20)
    with pytest.raises(RecordError, match="bytes of names and metadata, Burn reads at most 20"):
        write(a=(1,))


@pytest.mark.parametrize("name", ["two", "optim_adamw", "lr_composed"])
def test_files_that_end_early_are_refused(name: str) -> None:
    whole = (GOLDENS / f"{name}.bpk").read_bytes()
    for count in range(len(whole)):
        with pytest.raises(RecordFormatError):
            read(whole[:count])


FILES = [(GOLDENS / f"{name}.bpk").read_bytes() for name in ("kinds", "optim_adafactor", "lr_composed")]


@settings(derandomize=True, max_examples=400, deadline=None)
@given(st.sampled_from(FILES), st.lists(st.tuples(st.integers(0, 700), st.integers(0, 255)), min_size=1, max_size=4))
def test_changed_bytes_give_a_record_or_an_error(data: bytes, changes: list[tuple[int, int]]) -> None:
    changed = bytearray(data)
    for place, byte in changes:
        changed[place % len(changed)] = byte
    try:
        outline = BURNPACK.read(BytesSource(bytes(changed)))
    except RecordError:
        return
    list(BURNPACK.segments(outline))


GOLDEN_FILES = Path(__file__).parents[2] / "golden"
ID = ParamId(123456)


def test_what_burn_has_no_place_for_comes_back() -> None:
    record = Record(
        {"weight": torch.ones(2), "mean": torch.zeros(2)},
        {"text": "x", "none": None, "list": [1, {"a": math.inf}], "": 4, "a.b": 1, "empty": {}, "large": 2**70, "n": 5},
        {"weight": ID},
        {"other": "mean"},
        states={"mean"},
        layout={"weight": "param", "mean": "param", "other": "param", "act": "constant"},
        metadata={"producer": "me"},
    )
    found = read(BurnpackRecorder().to_bytes(record))
    assert {key: repr(found.values[key]) for key in record.values} == {
        key: repr(it) for key, it in record.values.items()
    }
    assert found.ids == record.ids
    assert found.aliases == record.aliases
    assert set(found.states) == {"mean"}
    assert found.layout == record.layout
    assert found.metadata == {"producer": "me"}


def test_tied_parameters_are_stored_once_under_all_their_names() -> None:
    record = Record({"decoder": torch.ones(64), "b": torch.zeros(1)}, ids={"decoder": ID}, aliases={"a": "decoder"})
    data = BurnpackRecorder().to_bytes(record)
    tied = descriptor(0, 256, param_id=ID.value)
    metadata = {"burnlike.aliases": '{"a":"decoder"}', "burnlike.format": "2"}
    tensors = {"a": tied, "b": descriptor(256, 260), "decoder": tied}
    assert data == made({"tensors": tensors, "metadata": metadata}, torch.ones(64).numpy().tobytes() + bytes(4))
    same(read(data), record)
    assert read(made({"tensors": tensors}, data[-260:])).aliases == {"decoder": "a"}, "the first by name has it"


def test_tied_parameters_that_burn_stored_twice_are_one_and_are_written_twice_again() -> None:
    tied = [descriptor(start, start + 4, param_id=5) for start in (0, 512)]
    metadata = {"tensors": {"a.weight": tied[0], "b.bias": descriptor(256, 260, param_id=6), "b.weight": tied[1]}}
    data = made(metadata, b"\0\0\x80\x3f" + bytes(508) + b"\0\0\x80\x3f")
    found = read(data)
    assert list(found.tensors) == ["a.weight", "b.bias"]
    assert found.aliases == {"b.weight": "a.weight"}
    assert found.ids == {"a.weight": ParamId(5), "b.bias": ParamId(6)}
    assert BurnpackRecorder().to_bytes(found) == data
    item = NamedMpkFileRecorder().from_bytes(NamedMpkFileRecorder().to_bytes(found))
    assert BurnpackRecorder().to_bytes(item) == data


def test_a_layout_made_for_other_formats_stays_out_of_the_file() -> None:
    path = GOLDEN_FILES / "v0.22" / "tree.bpk"
    item = NamedMpkFileRecorder().from_bytes(NamedMpkFileRecorder().to_bytes(open_record(path)))
    assert item.layout is not None
    assert BurnpackRecorder().to_bytes(item) == path.read_bytes()


@pytest.mark.parametrize("name", ["tree", "kinds", "batch_norm", "net"])
def test_modules_of_burn_0_21_go_to_burnpack_and_back(name: str) -> None:
    path = GOLDEN_FILES / "v0.21" / f"{name}-full.mpk"
    found = read(BurnpackRecorder().to_bytes(open_record(path)))
    assert NamedMpkFileRecorder().to_bytes(found) == path.read_bytes()


def test_values_that_look_like_an_optimizer_stay_values() -> None:
    record = Record(values={"7": {"__rank": 1}})
    same(read(BurnpackRecorder().to_bytes(record)), record)


def test_a_safetensors_file_takes_an_optimizer_both_ways(tmp_path: Path) -> None:
    source = GOLDEN_FILES / "v0.22" / "optim_adam.bpk"
    saved = SafetensorsRecorder().save(open_record(source), tmp_path / "optim")
    assert BurnpackRecorder().to_bytes(open_record(saved)) == source.read_bytes()


NAMES = st.lists(st.text("ab0_\u00fc\U0001f600", min_size=1, max_size=3), min_size=1, max_size=3).map(".".join)
DTYPES = st.sampled_from([torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.uint16, torch.float64])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**66), 2**66) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("a.$0", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    """Records with ids, tied tensors, states and all kinds of values."""
    shapes = draw(st.dictionaries(NAMES, st.lists(st.integers(0, 3), max_size=3), max_size=5))
    tensors = {
        name: torch.ones(shape).cumsum(0).to(draw(DTYPES)) if shape else torch.tensor(2.5)
        for name, shape in shapes.items()
    }
    names = list(tensors)
    some = draw(st.lists(st.sampled_from(names), unique=True)) if names else []
    ids = {name: ParamId(draw(st.integers(0, 2**64 - 8)) // 8 * 8 + index) for index, name in enumerate(some)}
    new = draw(st.lists(NAMES.filter(lambda name: name not in tensors), max_size=3, unique=True)) if names else []
    aliases = {name: draw(st.sampled_from(names)) for name in new}
    values = draw(st.dictionaries(st.text("a.$0", max_size=3), VALUES, max_size=4))
    return Record(tensors, values, ids, aliases, states=frozenset(names) - ids.keys())


@settings(derandomize=True, max_examples=150, deadline=None)
@given(records())
def test_records_come_back(record: Record) -> None:
    assume(record.tensors or isinstance(record.values.get(""), str | None) or "" not in record.values)  # no schedule
    data = BurnpackRecorder().to_bytes(record)
    found = read(data)
    assert {key: repr(found.values[key]) for key in found.values} == {
        key: repr(it) for key, it in record.values.items()
    }
    same(Record(found.tensors, record.values, found.ids, found.aliases, states=found.states), record)
    if all(it.numel() for it in record.tensors.values()):  # those without values have no place that could tell
        assert list(found.tensors) == list(record.tensors)
        assert BurnpackRecorder().to_bytes(found) == data


LEAVES = st.sampled_from(["momentum", "step.time", "a.b.c", "a.d"])


@settings(derandomize=True, max_examples=200, deadline=None)
@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.sets(LEAVES), min_size=1, max_size=4),
    st.booleans(),
    st.integers(-5, 5) | st.floats() | st.booleans() | st.none() | st.text(max_size=2),
)
def test_optimizers_come_back(ids: dict[int, set[str]], with_paths: bool, value: Any) -> None:
    texts = {number: str(ParamId(number)) for number in ids}
    tensors = {f"{texts[it]}.{leaf}": torch.ones(2) for it, leaves in ids.items() for leaf in sorted(leaves)}
    states = {f"{text}.time": value for text in texts.values()}
    paths = {text: f"layers.{index}" for index, text in enumerate(texts.values())} if with_paths else {}
    record = Record(tensors, {"states": states, "paths": paths})
    found = read(BurnpackRecorder().to_bytes(record))
    assert set(found.tensors) == set(tensors)
    assert {key: repr(it) for key, it in found.values["states"].items()} == {
        key: repr(it) for key, it in states.items()
    }
    assert found.values["paths"] == paths
