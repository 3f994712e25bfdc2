"""Round trips through files: any shape, strides and type; and what the file looks like to others."""

import errno
import fcntl
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given, settings, strategies as st

from burnlike.errors import DTypeError, RecordError
from burnlike.module import ParamId
from burnlike.record import BFloat16Precision, Precision, Record, SafetensorsRecorder, save
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
