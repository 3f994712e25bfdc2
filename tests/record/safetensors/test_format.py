"""Headers: what the safetensors library accepts is accepted, what it refuses is refused with a reason."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings, strategies as st

from burnlike.errors import RecordError, RecordFormatError, RecordIOError
from burnlike.record.bytes.source import FileSource
from burnlike.record.formats import TensorEntry
from burnlike.record.safetensors.format import Header, build_header, read_header


def read(path: Path) -> Header:
    return read_header(FileSource(path))


def file_of(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: str = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def library_accepts(content: bytes) -> bool:
    try:
        safetensors.torch.load(content)
    except Exception:
        return False
    return True


def test_header_is_read_as_the_library_wrote_it(tmp_path: Path) -> None:
    tensors = {
        "b": torch.ones(3, 2, dtype=torch.bfloat16),
        "a": torch.ones(4),
        "scalar": torch.tensor(1),
        "none": torch.ones(0, 5),
    }
    safetensors.torch.save_file(tensors, tmp_path / "x", metadata={"key": "välue"})
    header = read(tmp_path / "x")
    assert header.metadata == {"key": "välue"}
    assert {name: info.shape for name, info in header.tensors.items()} == {
        name: tuple(t.shape) for name, t in tensors.items()
    }
    content = (tmp_path / "x").read_bytes()
    for name, info in header.tensors.items():
        expected = tensors[name].contiguous().view(-1).view(torch.uint8).numpy().tobytes()
        assert content[info.start : info.start + info.nbytes] == expected


def test_built_header_is_read_by_the_library_and_wide_elements_come_first() -> None:
    head, places = build_header(
        [
            TensorEntry("a", "U8", (3,)),
            TensorEntry("b", "F64", (2,)),
            TensorEntry("c", "BF16", ()),
            TensorEntry("d", "I64", (1, 1)),
        ],
        {"k": "v"},
    )
    assert len(head) % 8 == 0
    assert [place.name for place in places] == ["b", "d", "c", "a"]
    loaded = safetensors.torch.load(head + bytes(sum(place.nbytes for place in places)))
    assert {name: tuple(tensor.shape) for name, tensor in loaded.items()} == {
        "a": (3,),
        "b": (2,),
        "c": (),
        "d": (1, 1),
    }


@pytest.mark.parametrize("name", ["__metadata__", "\ud800"])
def test_names_that_can_not_be_stored_are_refused(name: str) -> None:
    with pytest.raises(RecordError, match="rename it"):
        build_header([TensorEntry(name, "F32", (1,))], {"k": "v"})


# The cases of the library's own tests and of its security audit are among these.
HOSTILE: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "fewer than 8 bytes"),
    "seven bytes": (b"\x01" * 7, "too short"),
    "header longer than the file": (struct.pack("<Q", 1000) + b"{}", "truncated within the header"),
    "header length of 2^64 - 1": (b"\xff" * 8 + b"{}", "no safetensors file"),
    "header of over 100 MB": (struct.pack("<Q", 100_000_001) + b"{", "no safetensors file"),
    "no header": (struct.pack("<Q", 0), "not valid JSON"),
    "a pickle": (struct.pack("<Q", 4) + b"\x80\x02}q", "not UTF-8"),
    "not UTF-8": (file_of(b'{"\xff":1}'), "not UTF-8"),
    "not JSON": (file_of(b'{"a":'), "not valid JSON"),
    "text behind the JSON": (file_of(b"{} {}"), "not valid JSON"),
    "nested deeply": (file_of(b'{"a":' + b"[" * 100_000), "not valid JSON"),
    "number of a million digits": (file_of(b'{"a":' + b"1" * 1_000_000 + b"}"), "exactly dtype"),
    "an array": (file_of(b"[]"), "not a JSON object"),
    "duplicate name": (file_of(b'{"a":%b,"a":%b}' % ((json.dumps(entry()).encode(),) * 2), bytes(8)), "comes twice"),
    "duplicate key": (
        file_of(b'{"a":{"dtype":"U8","dtype":"F32","shape":[2],"data_offsets":[0,8]}}', bytes(8)),
        "comes twice",
    ),
    "metadata no map": (file_of({"__metadata__": [1]}), "__metadata__"),
    "metadata that is not UTF-8": (file_of(b'{"__metadata__":{"a":"\xfd"}}'), "not UTF-8"),
    "metadata with an escape that is none": (file_of(b'{"__metadata__":{"a":"\\ud800"}}'), "not a map from text"),
    "metadata of numbers": (file_of({"__metadata__": {"a": 1}}), "__metadata__"),
    "entry no map": (file_of({"a": 1}), "exactly dtype"),
    "entry without dtype": (file_of({"a": {"shape": [1], "data_offsets": [0, 4]}}, bytes(4)), "exactly dtype"),
    "entry with another key": (file_of({"a": entry() | {"x": 1}}, bytes(8)), "exactly dtype"),
    "unknown dtype": (file_of({"a": entry("F33")}, bytes(8)), "unknown dtype 'F33'"),
    "dtype no text": (file_of({"a": entry() | {"dtype": []}}, bytes(8)), "unknown dtype"),
    "negative size": (file_of({"a": entry(shape=(-2, -1))}, bytes(8)), "non-negative"),
    "fractional size": (file_of({"a": entry(shape=(2.0,))}, bytes(8)), "non-negative"),
    "true as size": (file_of({"a": entry("F64", shape=(True,))}, bytes(8)), "non-negative"),
    "size beyond 2^63": (file_of({"a": entry(shape=(2**63, 0), offsets=(0, 0))}), "non-negative"),
    "sizes whose product wraps": (file_of({"a": entry("U8", shape=(2**32, 2**32), offsets=(0, 0))}), "takes"),
    "three offsets": (file_of({"a": entry(offsets=(0, 4, 8))}, bytes(8)), "non-negative"),
    "offsets reversed": (file_of({"a": entry(offsets=(8, 0))}, bytes(8)), "takes 8 bytes"),
    "offsets of another size": (file_of({"a": entry(offsets=(0, 4))}, bytes(4)), "takes 8 bytes"),
    "half a byte": (file_of({"a": entry("F4", shape=(3,), offsets=(0, 1))}, bytes(1)), "whole bytes"),
    "offsets behind the end": (file_of({"a": entry()}, bytes(7)), "truncated"),
    "overlap": (file_of({"a": entry(), "b": entry(offsets=(4, 12))}, bytes(12)), "a gap or an overlap"),
    "same bytes twice": (file_of({"a": entry(), "b": entry()}, bytes(8)), "a gap or an overlap"),
    "hole between": (file_of({"a": entry(), "b": entry(offsets=(12, 20))}, bytes(20)), "a gap or an overlap"),
    "hole at the start": (file_of({"a": entry(offsets=(8, 16))}, bytes(16)), "a gap or an overlap"),
    "bytes behind the last tensor": (file_of({"a": entry()}, bytes(9)), "bytes lie behind"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_file_is_refused_with_place_and_remedy(case: str, tmp_path: Path) -> None:
    content, reason = HOSTILE[case]
    path = tmp_path / "hostile.safetensors"
    path.write_bytes(content)
    with pytest.raises(RecordFormatError) as caught:
        read(path)
    message = str(caught.value)
    assert reason in message
    assert message.startswith(f"{path}: ")
    assert "again" in message
    assert len(message) < 1000


# The library takes both: a JSON key twice means the last one to it, which hides what a reader of the text sees.
@pytest.mark.parametrize("case", sorted(set(HOSTILE) - {"duplicate name", "entry with another key"}))
def test_library_refuses_the_same_files(case: str) -> None:
    assert not library_accepts(HOSTILE[case][0])


def test_file_cut_at_any_byte_is_refused(tmp_path: Path) -> None:
    content = safetensors.torch.save({"a": torch.ones(3), "b": torch.zeros(2, dtype=torch.int64)})
    path = tmp_path / "cut"
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(RecordFormatError):
            read(path)


@settings(deadline=None, derandomize=True)
@given(position=st.integers(0, 200), value=st.integers(0, 255))
def test_changed_byte_of_the_header_is_never_another_error(tmp_path_factory: Any, position: int, value: int) -> None:
    content = bytearray(safetensors.torch.save({"a": torch.ones(3), "b": torch.zeros(2, dtype=torch.int64)}))
    content[position % len(content)] = value
    path = tmp_path_factory.getbasetemp() / "changed"
    path.write_bytes(content)
    try:
        read(path)
    except RecordFormatError:
        return
    assert library_accepts(bytes(content))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match="no such file"):
        FileSource(tmp_path / "missing")
    with pytest.raises(RecordIOError, match="directory or a device"):
        FileSource(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RecordIOError, match="directory or a device"):
        FileSource(tmp_path / "pipe")
