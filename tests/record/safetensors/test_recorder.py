"""Safetensors: headers as the library takes them, round trips, all names of a tensor, and files as others see them."""

import errno
import fcntl
import json
import os
import stat
import struct
import threading
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given, settings, strategies as st
from safetensors.torch import load_file
from torch import nn

import burnlike as bl
from burnlike.errors import ArgumentError, DTypeError, RecordError, RecordFormatError, RecordIOError
from burnlike.module import ParamId
from burnlike.record import BFloat16Precision, Precision, Record, SafetensorsRecorder, open_record, save
from burnlike.record.bytes.source import FileSource
from burnlike.record.formats import TensorEntry
from burnlike.record.safetensors.format import Header, build_header, read_header
from burnlike.record.saving import writing

DTYPES = [
    *(torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint64, torch.uint32, torch.uint16, torch.uint8),
    *(torch.bool, torch.complex64),
]


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """The bytes in row-major order, so that nan and -0.0 count."""
    copied = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor)
    return copied.view(-1).view(torch.uint8)


@st.composite
def strided(draw: st.DrawFn) -> torch.Tensor:
    """A tensor of random type, shape and strides: permuted, stepped, flipped by index, expanded, sliced."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 5), max_size=4))
    steps = draw(st.lists(st.integers(1, 3), min_size=len(shape), max_size=len(shape)))
    extent = [max(1, size * step) for size, step in zip(shape, steps, strict=True)]
    count = max(1, int(torch.tensor(extent).prod()))
    bits = torch.randint(0, 2 if dtype == torch.bool else 256, (count * dtype.itemsize,), dtype=torch.uint8)
    values = bits.view(dtype).reshape(extent)
    for dim, (size, step) in enumerate(zip(shape, steps, strict=True)):
        values = values.narrow(dim, 0, size * step)[(slice(None),) * dim + (slice(None, None, step),)]
    values = values.permute(draw(st.permutations(range(values.dim()))))
    return values.unsqueeze(0).expand(3, *values.shape) if draw(st.booleans()) else values


@settings(max_examples=150, deadline=None, derandomize=True)
@given(tensors=st.dictionaries(st.text(min_size=1).filter(lambda name: name != "__metadata__"), strided(), max_size=4))
def test_any_tensors_round_trip_bit_by_bit(tensors: dict[str, torch.Tensor], tmp_path_factory: Any) -> None:
    path = tmp_path_factory.getbasetemp() / "round.safetensors"
    SafetensorsRecorder().save(Record(tensors), path)
    for found in (SafetensorsRecorder().load(path).tensors, safetensors.torch.load_file(path)):
        assert set(found) == set(tensors)
        for name, tensor in tensors.items():
            assert found[name].dtype == tensor.dtype
            assert found[name].shape == tensor.shape
            assert torch.equal(raw(found[name]), raw(tensor))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    shape=st.lists(st.integers(1, 9), min_size=1, max_size=4),
    order=st.randoms(use_true_random=False),
    block=st.sampled_from([8, 64, 4096]),
)
def test_blocks_of_any_size_convert_tensors_of_any_strides(
    shape: list[int], order: Any, block: int, tmp_path_factory: Any
) -> None:
    dims = list(range(len(shape)))
    order.shuffle(dims)
    tensors = {"a": torch.randn(shape).permute(dims), "b": torch.randn(7), "c": torch.randn(shape)[..., ::2]}
    path = tmp_path_factory.getbasetemp() / "blocks.safetensors"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writing, "BLOCK_BYTES", block)
        SafetensorsRecorder(BFloat16Precision).save(Record(tensors), path)
    found = safetensors.torch.load_file(path)
    assert all(torch.equal(found[name], tensor.to(torch.bfloat16)) for name, tensor in tensors.items())


def test_large_tensors_are_the_same_by_one_thread_and_by_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tensors = {"a": torch.randn(1500, 1501), "b": torch.randn(1201, 1100).T, "c": torch.randint(0, 9, (700_001,))}
    many = Path(SafetensorsRecorder(BFloat16Precision).save(Record(tensors), tmp_path / "many")).read_bytes()
    monkeypatch.setattr(writing, "MAX_WORKERS", 1)
    one = Path(SafetensorsRecorder(BFloat16Precision).save(Record(tensors), tmp_path / "one")).read_bytes()
    assert one == many
    found = safetensors.torch.load(many)
    assert torch.equal(found["b"], tensors["b"].to(torch.bfloat16))


def test_saving_leaves_the_number_of_threads_of_all_threads(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    SafetensorsRecorder(BFloat16Precision).save(Record({"a": torch.randn(3_000_000)}), tmp_path / "x")
    assert torch.get_num_threads() == before
    seen = []
    thread = threading.Thread(target=lambda: (torch.randn(100_000).exp(), seen.append(torch.get_num_threads())))
    thread.start()
    thread.join()
    assert seen == [before]


def test_conjugated_and_negated_views_are_stored_by_value(tmp_path: Path) -> None:
    tensor = torch.randn(4, dtype=torch.complex64)
    found = safetensors.torch.load_file(
        SafetensorsRecorder().save(Record({"conj": tensor.conj(), "neg": tensor.conj().imag}), tmp_path / "x")
    )
    assert torch.equal(found["conj"], tensor.conj().resolve_conj())
    assert torch.equal(found["neg"], -tensor.imag)


def test_tied_tensors_are_stored_once(tmp_path: Path) -> None:
    model = torch.nn.ModuleDict({"embed": torch.nn.Embedding(50, 20), "head": torch.nn.Linear(20, 50, bias=False)})
    model["head"].weight = model["embed"].weight
    path = save(model, tmp_path / "x")
    assert set(safetensors.torch.load_file(path)) == {"embed.weight"}
    assert os.path.getsize(path) < 2 * 50 * 20 * 4
    assert SafetensorsRecorder().load(path).aliases == {"head.weight": "embed.weight"}
    # The library's own loader knows how to tie it again.
    other = torch.nn.ModuleDict({"embed": torch.nn.Embedding(50, 20), "head": torch.nn.Linear(20, 50, bias=False)})
    other["head"].weight = other["embed"].weight
    safetensors.torch.load_model(other, path)
    assert torch.equal(other["head"].weight, model["head"].weight)


def test_values_and_ids_come_back(tmp_path: Path) -> None:
    record = Record({"a": torch.ones(1)}, {"step": 3, "rate": float("inf")}, {"a": ParamId(7)}, {"b": "a"})
    found = SafetensorsRecorder().load(SafetensorsRecorder().save(record, tmp_path / "x"))
    assert (found.values, found.ids, found.aliases) == (record.values, record.ids, record.aliases)


def test_record_without_tensors_round_trips(tmp_path: Path) -> None:
    found = SafetensorsRecorder().load(SafetensorsRecorder().save(Record(values={"a": 1}), tmp_path / "x"))
    assert dict(found.tensors) == {}
    assert found.values == {"a": 1}


def test_same_record_gives_the_same_bytes(tmp_path: Path) -> None:
    record = Record({"a": torch.randn(5), "b": torch.arange(3)}, {"x": [1, 2.5]}, {"a": ParamId(1)})
    first = Path(SafetensorsRecorder().save(record, tmp_path / "1")).read_bytes()
    assert Path(SafetensorsRecorder().save(record, tmp_path / "2")).read_bytes() == first


def test_file_of_another_program_loads(tmp_path: Path) -> None:
    safetensors.torch.save_file({"a": torch.arange(4.0)}, tmp_path / "x.safetensors", metadata={"author": "y"})
    record = SafetensorsRecorder().load(tmp_path / "x")
    assert torch.equal(record.tensors["a"], torch.arange(4.0))
    assert (record.ids, record.values) == ({}, {})


def test_extension_is_appended_only_where_there_is_none(tmp_path: Path) -> None:
    record = Record({"a": torch.ones(1)})
    assert SafetensorsRecorder().save(record, tmp_path / "model") == str(tmp_path / "model.safetensors")
    assert SafetensorsRecorder().save(record, tmp_path / "model.v1") == str(tmp_path / "model.v1")
    assert SafetensorsRecorder().load(tmp_path / "model").source == str(tmp_path / "model.safetensors")


def test_record_loaded_before_its_file_was_replaced_reads_the_old_one(tmp_path: Path) -> None:
    recorder = SafetensorsRecorder()
    path = recorder.save(Record({"a": torch.zeros(1000)}), tmp_path / "x")
    old = recorder.load(path)
    recorder.save(Record({"a": torch.ones(1000)}), path)
    assert torch.equal(old.tensors["a"], torch.zeros(1000))
    assert torch.equal(recorder.load(path).tensors["a"], torch.ones(1000))


def test_changing_a_loaded_tensor_changes_neither_file_nor_record(tmp_path: Path) -> None:
    path = SafetensorsRecorder().save(Record({"a": torch.zeros(9)}), tmp_path / "x")
    record = SafetensorsRecorder().load(path)
    record.tensors["a"].fill_(1)
    assert torch.equal(record.tensors["a"], torch.zeros(9))


def test_record_may_be_saved_over_the_file_it_is_read_from(tmp_path: Path) -> None:
    tensor = torch.randn(2_000_000)
    path = SafetensorsRecorder().save(Record({"a": tensor}), tmp_path / "x")
    SafetensorsRecorder(BFloat16Precision).save(SafetensorsRecorder().load(path), path)
    assert torch.equal(safetensors.torch.load_file(path)["a"], tensor.to(torch.bfloat16))


def test_bool_bytes_other_than_0_and_1_are_true(tmp_path: Path) -> None:
    path = Path(SafetensorsRecorder().save(Record({"a": torch.zeros(4, dtype=torch.bool)}), tmp_path / "x"))
    path.write_bytes(path.read_bytes()[:-3] + b"\x02\xff\x00")
    assert SafetensorsRecorder().load(path).tensors["a"].view(torch.uint8).tolist() == [0, 1, 1, 0]


def test_file_gets_the_umask_s_permissions_and_keeps_those_it_had(tmp_path: Path) -> None:
    record = Record({"a": torch.ones(1)})
    before = os.umask(0o027)
    try:
        path = SafetensorsRecorder().save(record, tmp_path / "x")
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o640
        os.chmod(path, 0o604)
        SafetensorsRecorder().save(record, path)
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o604
    finally:
        os.umask(before)


def test_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    link = tmp_path / "latest.safetensors"
    link.symlink_to("data/model.safetensors")
    for value in (0.0, 1.0):
        SafetensorsRecorder().save(Record({"a": torch.tensor(value)}), link)
        assert link.is_symlink()
        assert SafetensorsRecorder().load(tmp_path / "data/model.safetensors").tensors["a"] == value
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["model.safetensors"]


@pytest.mark.parametrize(
    ("tensor", "error", "message"),
    [
        (torch.empty(2, device="meta"), RecordError, "'w' is on the meta device"),
        (torch.eye(2).to_sparse(), RecordError, "'w' is a sparse"),
        (torch.ones(1, dtype=torch.complex128), DTypeError, r"'w' is complex128.*view_as_real"),
    ],
)
def test_tensor_that_a_file_can_not_hold_is_named(
    tensor: torch.Tensor, error: type[Exception], message: str, tmp_path: Path
) -> None:
    with pytest.raises(error, match=message):
        SafetensorsRecorder().save(Record({"ok": torch.ones(1), "w": tensor}), tmp_path / "x")
    assert not list(tmp_path.iterdir())


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match=r"expected a Record, got Linear; .*burnlike\.record\.save"):
        SafetensorsRecorder().save(torch.nn.Linear(1, 1), tmp_path / "x")  # pyright: ignore[reportArgumentType]
    with pytest.raises(RecordError, match="'a' -> int"):
        Record({"a": 3})  # pyright: ignore[reportArgumentType]
    with pytest.raises(RecordError, match="ids names 'b'"):
        Record({"a": torch.ones(1)}, ids={"b": ParamId(1)})
    with pytest.raises(RecordError, match="'a' is also"):
        Record({"a": torch.ones(1), "b": torch.ones(1)}, aliases={"a": "b"})


@pytest.mark.cuda
def test_cuda_tensors_are_stored_as_cpu_tensors_are(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(1500, 1501), "b": torch.randn(300, 200).T, "c": torch.arange(7), "d": torch.tensor(2.0)}
    on_cpu = Path(SafetensorsRecorder(BFloat16Precision).save(Record(tensors), tmp_path / "cpu")).read_bytes()
    moved = {name: tensor.cuda() for name, tensor in tensors.items()}
    on_cuda = Path(SafetensorsRecorder(BFloat16Precision).save(Record(moved), tmp_path / "cuda")).read_bytes()
    assert on_cuda == on_cpu
    assert Precision(None).stored_dtype("a", torch.float32) == torch.float32


def has_direct(folder: Path) -> bool:
    """Whether the file system can write past the page cache: a tmpfs may not."""
    try:
        os.close(os.open(folder / "probe", os.O_CREAT | os.O_RDWR | os.O_DIRECT))
    except OSError:
        return False
    return True


def writes_of(record: Record, path: Path, monkeypatch: pytest.MonkeyPatch, refuse_direct: bool = False) -> list[bool]:
    """Save, and tell of each write whether it went past the page cache."""
    seen: list[bool] = []
    write = os.pwrite

    def watched(descriptor: int, data: memoryview, offset: int) -> int:
        seen.append(bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT))
        if refuse_direct and seen[-1]:
            raise OSError(errno.EINVAL, "not aligned")
        return write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", watched)
    SafetensorsRecorder(BFloat16Precision).save(record, path)
    monkeypatch.undo()
    return seen


@pytest.mark.parametrize("refuse_direct", [False, True])
def test_large_file_is_whole_past_the_page_cache_and_through_it(
    refuse_direct: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = {"odd": torch.randn(3), "matrix": torch.randn(4100, 3001), "bytes": torch.arange(7, dtype=torch.uint8)}
    path = tmp_path / "x.safetensors"
    seen = writes_of(Record(tensors), path, monkeypatch, refuse_direct)
    assert not seen[-1] if refuse_direct else any(seen) == has_direct(tmp_path)
    found = safetensors.torch.load_file(path)  # refuses any byte too many or too few
    for name, tensor in tensors.items():
        assert torch.equal(found[name], tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor)


def test_small_file_goes_through_the_page_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(writes_of(Record({"a": torch.randn(3_000_000)}), tmp_path / "x", monkeypatch))


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


def test_the_smallest_shard_is_a_byte() -> None:
    assert SafetensorsRecorder(shard_bytes=1).shard_bytes == 1
    with pytest.raises(ArgumentError, match="shard_bytes"):
        SafetensorsRecorder(shard_bytes=0)


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
    "metadata that is a tensor": (file_of({"__metadata__": entry()}, bytes(8)), "not a map from text"),
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


def tied() -> nn.Module:
    model = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Linear(3, 2)})
    model["b"].weight = model["a"].weight
    return model


def test_every_name_has_its_values_and_they_are_one_tensor_again(tmp_path: Path) -> None:
    model = tied()
    path = SafetensorsRecorder(bl.HalfPrecision, ties="all").save(Record.of(model), tmp_path / "all")
    plain = load_file(path)
    assert plain.keys() == {"a.weight", "a.bias", "b.weight", "b.bias"}
    assert plain["b.weight"].equal(model.get_parameter("a.weight").detach().half())
    record = open_record(path)
    assert (list(record.tensors), record.aliases) == (["a.weight", "a.bias", "b.bias"], {"b.weight": "a.weight"})
    assert bl.record.verify(path) == 3
    once = SafetensorsRecorder().save(record, tmp_path / "once")
    assert load_file(once).keys() == {"a.weight", "a.bias", "b.bias"}
    report = bl.record.load(tied(), path)
    assert len(report.applied) == 3


def test_names_of_a_tie_with_other_values_are_refused(tmp_path: Path) -> None:
    path = Path(SafetensorsRecorder(ties="all").save(Record.of(tied()), tmp_path / "all"))
    text = path.read_bytes().replace(b'"burnlike.checksums"', b'"burnlike.checksumz"')
    path.write_bytes(text)
    with pytest.raises(RecordFormatError, match=r"ties 'b\.weight' to 'a\.weight', which the tensors contradict"):
        open_record(path)


def test_several_files_have_each_tensor_once() -> None:
    with pytest.raises(ArgumentError, match="ties: expected 'once', or without shard_bytes 'all', got 'all'"):
        SafetensorsRecorder(shard_bytes=10, ties="all")


def test_ties_of_values_without_ids(tmp_path: Path) -> None:
    record = Record({"a": torch.ones(2)}, aliases={"b": "a", "c": "a"})
    path = SafetensorsRecorder(ties="all").save(record, tmp_path / "x")
    assert open_record(path).aliases == record.aliases
    assert load_file(path).keys() == {"a", "b", "c"}
