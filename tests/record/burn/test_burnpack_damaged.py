"""Burnpack files that are damaged, hostile or beyond Burn's limits: an error that says why, and nothing else."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from burnlike.errors import RecordError, RecordFormatError
from burnlike.record.burn import burnpack
from burnlike.record.burn.burnpack import BURNPACK
from burnlike.record.bytes.source import BytesSource, Source
from burnlike.record.formats import Outline, TensorEntry

from .packs import descriptor, made, read

GOLDENS = Path(__file__).parents[2] / "golden" / "v0.22"
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
