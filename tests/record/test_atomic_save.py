"""A failed save leaves the old file whole and nothing beside it; a flipped bit of a tensor is noticed."""

import errno
import itertools
import json
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

import burnlike as bl
from burnlike import _atomic as atomic
from burnlike.cli.main import main
from burnlike.errors import ArgumentError, CheckpointError, RecordError, RecordFormatError, RecordIOError
from burnlike.record import BFloat16Precision, DcpRecorder, Record, SafetensorsRecorder, open_record, verify
from burnlike.record.bytes.source import combined
from burnlike.record.saving import writing
from burnlike.train import Checkpointer, TrainingState

from ..processes import HANGS_S, wait_until

OLD = b"the old record"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "x.safetensors"
    path.write_bytes(OLD)
    return path


def record() -> Record:
    return Record({"a": torch.randn(300, 301), "b": torch.randn(100).to(torch.bfloat16), "c": torch.arange(7)})


def assert_untouched(target: Path) -> None:
    assert target.read_bytes() == OLD
    assert [path.name for path in target.parent.iterdir()] == [target.name]


def failing(original: Callable[..., Any], at: int, error: BaseException) -> Callable[..., Any]:
    calls = 0

    def call(*args: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == at:
            raise error
        return original(*args)

    return call


def write_calls() -> int:
    """How many writes a save of `record()` makes in blocks of 64 KiB."""
    head_and_data = 4096 + 300 * 301 * 2 + 200 + 56
    return -(-head_and_data // 65536)


@pytest.fixture(params=[1, 2], ids=["one thread", "two threads"])
def small_blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BLOCK_BYTES", 65536)
    monkeypatch.setattr(writing, "MAX_WORKERS", request.param)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("at", range(1, write_calls() + 1))
def test_failure_of_any_write_leaves_the_old_file(
    at: int, code: int, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "pwrite", failing(os.pwrite, at, OSError(code, os.strerror(code))))
    with pytest.raises(RecordIOError) as caught:
        SafetensorsRecorder(BFloat16Precision).save(record(), target)
    assert caught.value.errno == code
    assert str(target) in str(caught.value)
    assert_untouched(target)


@pytest.mark.parametrize("function", ["open", "fsync", "replace", "ftruncate"])
def test_failure_of_any_other_step_leaves_the_old_file(
    function: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "_fallocate", lambda *_: False)
    monkeypatch.setattr(os, function, failing(getattr(os, function), 1, OSError(errno.EIO, "I/O error")))
    with pytest.raises(RecordIOError, match="not saved"):
        SafetensorsRecorder().save(record(), target)
    monkeypatch.undo()
    assert_untouched(target)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), RuntimeError("in a conversion")])
def test_failure_within_a_conversion_leaves_the_old_file(
    error: BaseException, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "pieces", failing(writing.pieces, 2, error))
    with pytest.raises(type(error)):
        SafetensorsRecorder(BFloat16Precision).save(record(), target)
    assert_untouched(target)


def test_interrupts_of_the_main_thread_wait_for_the_workers(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "BLOCK_BYTES", 65536)
    write = os.pwrite
    descriptors: list[bool] = []

    def interrupt_twice() -> None:
        for _ in range(2):
            signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.05)
        interrupted.set()

    def slow_write(descriptor: int, data: memoryview, offset: int) -> int:
        if next(writes) == 1:  # two are at it
            threading.Thread(target=interrupt_twice).start()
        assert interrupted.wait(HANGS_S)
        descriptors.append(os.fstat(descriptor).st_nlink == 1)
        return write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", slow_write)
    main = threading.get_ident()
    interrupted, writes = threading.Event(), itertools.count()
    with pytest.raises(KeyboardInterrupt):
        SafetensorsRecorder(BFloat16Precision).save(record(), target)
    assert len(descriptors) > 1
    assert all(descriptors), "the file was there until the last of them had ended"
    assert interrupted.is_set()
    assert_untouched(target)


@pytest.mark.parametrize("function", ["flock", "fstat", "fchmod"])
def test_interrupt_while_the_file_is_made_leaves_nothing(
    function: str, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = atomic.fcntl if function == "flock" else os
    monkeypatch.setattr(module, function, failing(getattr(module, function), 1, KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        SafetensorsRecorder().save(record(), target)
    monkeypatch.undo()
    assert_untouched(target)


@pytest.mark.usefixtures("small_blocks")
def test_short_writes_are_continued(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = record()
    whole = Path(SafetensorsRecorder().save(expected, target.with_name("y"))).read_bytes()
    write = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: write(fd, data[: max(1, len(data) // 3)], offset))
    SafetensorsRecorder().save(expected, target)
    assert target.read_bytes() == whole


def test_steps_come_in_the_order_that_survives_a_power_failure(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    for name in ("pwrite", "fsync", "replace"):
        original = getattr(os, name)
        monkeypatch.setattr(
            os, name, lambda *args, _name=name, _original=original: (steps.append(_name), _original(*args))[1]
        )
    SafetensorsRecorder().save(record(), target)
    assert steps[-4:] == ["pwrite", "fsync", "replace", "fsync"]


def test_full_disk_names_the_bytes_needed_and_free(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("only the superuser can mount a small disk; the injected failures cover the rest")
    try:
        target = disk / "x.safetensors"
        target.write_bytes(OLD)
        for reserves in (True, False):  # with and without a file system that can reserve
            with pytest.MonkeyPatch.context() as patch:
                if not reserves:
                    patch.setattr(atomic, "_fallocate", lambda *_: False)
                with pytest.raises(RecordIOError, match=r"full: the record needs 4\.0 MB .* are free; make room"):
                    SafetensorsRecorder().save(Record({"a": torch.zeros(1_000_000)}), target)
            assert_untouched(target)
        SafetensorsRecorder().save(Record({"a": torch.zeros(1000)}), target)
    finally:
        subprocess.run(["umount", disk], check=True)


def test_limit_of_file_sizes_is_an_error(target: Path) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
    try:
        with pytest.raises(RecordIOError, match=r"larger than allowed here"):
            SafetensorsRecorder().save(Record({"a": torch.zeros(1_000_000)}), target)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert_untouched(target)


def test_places_that_can_not_be_written_are_named(tmp_path: Path) -> None:
    with pytest.raises(RecordIOError, match=r"directory .*/none does not exist; create it"):
        SafetensorsRecorder().save(record(), tmp_path / "none" / "x")
    (tmp_path / "folder.safetensors").mkdir()
    with pytest.raises(RecordIOError, match="directory or a device"):
        SafetensorsRecorder().save(record(), tmp_path / "folder")
    (tmp_path / "x.link").symlink_to("/dev/null")
    with pytest.raises(RecordIOError, match="directory or a device"):
        SafetensorsRecorder().save(record(), tmp_path / "x.link")
    assert not Path("/dev/null").is_file()
    (tmp_path / "ahead.safetensors").symlink_to(tmp_path / "gone" / "x.safetensors")
    with pytest.raises(RecordIOError, match=r"the directory .*/gone does not exist; create it"):
        SafetensorsRecorder().save(record(), tmp_path / "ahead")


@pytest.mark.parametrize("extension", [".json", ".mpk.gz", ".safetensors"])
def test_a_full_disk_says_sizes_only_where_they_are_known(
    extension: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing(os.fsync, 1, OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(RecordIOError, match="the disk or quota is full") as caught:
        bl.record.save(nn.Linear(2, 2), tmp_path / f"x{extension}")
    assert ("are free" in str(caught.value)) == (extension == ".safetensors")


def test_a_path_without_the_name_of_a_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs").mkdir()
    for path in ("", ".", "..", "runs/", "new/", "runs/."):
        for save in (bl.record.save, bl.record.save_async):
            with pytest.raises(RecordError, match=r"expected the name of a file, such as .*model\.safetensors"):
                save(nn.Linear(2, 2), path)
    assert [str(it) for it in Path().rglob("*")] == ["runs"]


def test_what_is_no_path_is_refused_with_the_order_of_the_arguments() -> None:
    net: Any = nn.Linear(2, 2)
    wrong: Any = b"x.mpk"
    for call, message in (
        (lambda: bl.record.save(net, wrong), r"got bytes; the arguments are save\(object, path\)"),
        (lambda: bl.record.save("x.mpk", net), r"got Linear; the arguments are save\(object, path\)"),
        (lambda: bl.record.load(net, wrong), r"got bytes; the arguments are load\(object, path\)"),
        (lambda: bl.record.load("x.mpk", net), r"got Linear; the arguments are load\(object, path\)"),
        (lambda: open_record(net), "expected a path, a text or a pathlib.Path, got Linear"),
    ):
        with pytest.raises(ArgumentError, match=message):
            call()


def test_directory_without_permission_is_named() -> None:
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:  # tmp_path is closed to other users
        os.chmod(folder, 0o555)
        try:
            if user == 0:  # for the superuser everything is writable
                os.seteuid(65534)
            with pytest.raises(RecordIOError, match=f"{folder} can't be written to"):
                SafetensorsRecorder().save(record(), f"{folder}/x")
        finally:
            os.seteuid(user)
            os.chmod(folder, 0o755)


def test_files_left_by_killed_saves_go_and_those_of_living_saves_stay(target: Path) -> None:
    (target.parent / f".{target.name}.0123456789ab.tmp").write_bytes(b"left behind")
    with atomic.AtomicFile(target) as living:
        SafetensorsRecorder().save(record(), target)
        names = sorted(path.name for path in target.parent.iterdir())
        assert len(names) == 2  # the target and the living one
        os.write(living.descriptor, b"later")
        living.commit()
    assert target.read_bytes() == b"later"


CHILD = """
import sys, torch
from burnlike.record import Record, SafetensorsRecorder
torch.set_num_threads(1)
recorder = SafetensorsRecorder()
for value in range(10**9):
    recorder.save(Record({"a": torch.full((200_000,), float(value)), "b": torch.tensor(float(value))}), sys.argv[1])
"""


@pytest.mark.slow  # a process of its own, whose imports take seconds
def test_process_killed_at_any_moment_leaves_a_whole_record(tmp_path: Path) -> None:
    target = tmp_path / "x.safetensors"
    generator = torch.Generator().manual_seed(0)
    process = subprocess.Popen([sys.executable, "-c", CHILD, str(target)])
    wait_until(target.exists, process)
    time.sleep(torch.rand(1, generator=generator).item() * 0.1)
    process.kill()
    process.wait()
    found = SafetensorsRecorder().load(target).tensors
    assert (found["a"] == found["b"]).all()
    SafetensorsRecorder().save(record(), target)
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


KEY = "burnlike.checksums"


def tensors() -> dict[str, torch.Tensor]:
    """Small, empty, strided, of several types, and one of more than two blocks."""
    torch.manual_seed(3)
    return {
        "small": torch.arange(3),
        "large": torch.randn(2_000_003),
        "empty": torch.ones(0, 4),
        "turned": torch.randn(300, 70).t(),
        "flags": torch.tensor([True, False, True]),
        "scalar": torch.tensor(2.5, dtype=torch.bfloat16),
    }


def header(data: bytes) -> dict[str, Any]:
    return json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])


def expected(data: bytes) -> str:
    """The checksums of a file, computed by zlib from the bytes that its header names."""
    found, start = header(data), 8 + int.from_bytes(data[:8], "little")
    places = [it["data_offsets"] for name, it in found.items() if name != "__metadata__"]
    written = found["__metadata__"][KEY].encode()
    head = data[8:start].replace(written, b"0" * len(written))
    return "".join(
        f"{zlib.crc32(it):08x}" for it in (head, *(data[start + begin : start + end] for begin, end in places))
    )


def flipped(path: Path, place: int = -1) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 0x10
    path.write_bytes(data)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(first=st.binary(max_size=300), second=st.binary(max_size=300), zeros=st.integers(0, 70_000))
def test_checksums_of_two_blocks_are_that_of_both(first: bytes, second: bytes, zeros: int) -> None:
    second += bytes(zeros)
    assert combined(zlib.crc32(first), zlib.crc32(second), len(second)) == zlib.crc32(first + second)


def test_program_without_torch_compares_them_without_it(tmp_path: Path) -> None:
    path = SafetensorsRecorder().save(Record(tensors()), tmp_path / "x")
    code = (
        "import sys\n"
        "from burnlike.cli.main import main\n"
        f"main(['inspect', {str(path)!r}, '--verify'])\n"
        "print('torch' in sys.modules)\n"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=HANGS_S
    ).stdout
    assert "all 6 tensors" in shown
    assert shown.endswith("False\n")


@pytest.mark.parametrize("precision", [None, BFloat16Precision])
def test_each_tensor_has_the_checksum_of_its_bytes(precision: Any, tmp_path: Path) -> None:
    record, recorder = Record(tensors()), SafetensorsRecorder(precision)
    data = Path(recorder.save(record, tmp_path / "x")).read_bytes()
    assert header(data)["__metadata__"][KEY] == expected(data)
    assert recorder.to_bytes(record) == data, "in memory, from front to back"
    assert Path(recorder.save_async(record, tmp_path / "y").wait()).read_bytes() == data
    assert verify(tmp_path / "x.safetensors") == verify(recorder.from_bytes(data)) == 6


def test_files_with_checksums_are_read_by_the_safetensors_library(tmp_path: Path) -> None:
    path = SafetensorsRecorder().save(Record(tensors()), tmp_path / "x")
    found = safetensors.torch.load_file(path)
    assert all(torch.equal(found[name], tensor) for name, tensor in tensors().items())


def test_each_file_of_a_set_has_its_own(tmp_path: Path) -> None:
    SafetensorsRecorder(shard_bytes=100_000).save(Record(tensors()), tmp_path / "set")
    for path in (tmp_path / "set").glob("*.safetensors"):
        assert header(path.read_bytes())["__metadata__"][KEY] == expected(path.read_bytes())
    assert verify(tmp_path / "set") == 6
    flipped(next((tmp_path / "set").glob("*1-of-*.safetensors")))
    with pytest.raises(RecordFormatError, match="are not those that were saved"):
        verify(tmp_path / "set")


def test_what_is_converted_from_a_file_that_is_read_in_order_has_them(tmp_path: Path) -> None:
    record = Record(tensors(), ids={})
    bl.record.save(record, tmp_path / "x.mpk.gz")
    path = Path(bl.record.save(open_record(tmp_path / "x.mpk.gz"), tmp_path / "y.safetensors"))
    assert header(path.read_bytes())["__metadata__"][KEY] == expected(path.read_bytes())


def test_texts_that_look_like_the_place_of_the_checksums_stay_as_they_are(tmp_path: Path) -> None:
    values = {f'"{KEY}":"': f'"{KEY}":"00000000', KEY: KEY}
    record = Record({"w": torch.ones(3)}, values)
    path = Path(SafetensorsRecorder().save(record, tmp_path / "x"))
    assert open_record(path).values == values
    assert header(path.read_bytes())["__metadata__"][KEY] == expected(path.read_bytes())


def test_files_without_checksums_load_and_say_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    safetensors.torch.save_file({"weight": torch.ones(2, 2), "bias": torch.ones(2)}, tmp_path / "x.safetensors")
    assert verify(tmp_path / "x.safetensors") == 0
    bl.record.load(torch.nn.Linear(2, 2), tmp_path / "x.safetensors", verify=True)
    assert main(["inspect", str(tmp_path / "x.safetensors"), "--verify"]) == 0
    assert "0 of 2 tensors" in capsys.readouterr().out


def test_a_flipped_bit_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = torch.nn.Linear(3, 2)
    path = Path(bl.record.save(module, tmp_path / "x"))
    assert main(["inspect", str(path), "--verify"]) == 0
    assert "all 2 tensors" in capsys.readouterr().out
    flipped(path)
    other = torch.nn.Linear(3, 2)
    before = other.bias.clone()
    with pytest.raises(RecordFormatError, match=r"the values of 'bias' are not those that were saved"):
        bl.record.load(other, path, verify=True)
    assert torch.equal(other.bias, before)
    bl.record.load(other, path)
    assert main(["inspect", str(path), "--verify"]) == 2
    assert "'bias'" in capsys.readouterr().err
    assert main(["inspect", str(path)]) == 0


@pytest.mark.parametrize("text", ["", "0", "zz" * 12, "0" * 16, "0" * 32, " " * 24, "00" * 11 + " 0"])
def test_checksums_that_are_none_are_refused(text: str) -> None:
    entries = {name: {"dtype": "U8", "shape": [1], "data_offsets": [at, at + 1]} for at, name in enumerate("ab")}
    content = json.dumps({"__metadata__": {"burnlike.format": "2", KEY: text}, **entries}).encode()
    with pytest.raises(RecordFormatError, match="another program has changed the file"):
        SafetensorsRecorder().from_bytes(struct.pack("<Q", len(content)) + content + b"xy")


def test_a_changed_header_is_noticed(tmp_path: Path) -> None:
    path = Path(SafetensorsRecorder().save(Record({"w": torch.ones(3)}, {"step": 7}), tmp_path / "x"))
    path.write_bytes(path.read_bytes().replace(b'step\\":7', b'step\\":3'))
    record = open_record(path)
    assert record.values == {"step": 3}, "only whoever asks for it reads all"
    with pytest.raises(RecordFormatError, match="the header, which has names, ids and plain values, is not the one"):
        verify(record)


def test_a_record_without_tensors_has_a_checksum_of_its_header(tmp_path: Path) -> None:
    path = Path(SafetensorsRecorder().save(Record(values={"step": 7}), tmp_path / "x"))
    assert header(path.read_bytes())["__metadata__"][KEY] == expected(path.read_bytes())
    assert verify(path) == 0


def state(value: float) -> TrainingState:
    model = torch.nn.Linear(3, 2)
    torch.nn.init.constant_(model.weight, value)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return TrainingState(model=model, optimizer=optimizer)


@pytest.mark.parametrize("name", ["model", "optimizer", "training"])
def test_a_training_is_not_resumed_with_a_flipped_bit(name: str, tmp_path: Path) -> None:
    path = state(1.0).save(tmp_path / "saved")
    flipped(path / f"{name}.safetensors")
    resumed = state(2.0)
    before = resumed.parts["model"].weight.clone()
    with pytest.raises(RecordFormatError, match="not those that were saved"):
        resumed.load(path)
    assert torch.equal(resumed.parts["model"].weight, before)
    checkpoint = Checkpointer(tmp_path / "run", keep=1).save(1, state(1.0).to_records())
    flipped(checkpoint.path / f"{name}.safetensors")
    with pytest.raises(CheckpointError, match="to resume from the checkpoint before it"):
        checkpoint.load(name)


def test_a_flipped_bit_in_a_file_of_torch_save_is_an_error(tmp_path: Path) -> None:
    large = torch.arange(1000.0)
    torch.save(
        {"part": large[10:20], "turned": large[100:200].view(10, 10).t(), "other": torch.ones(5)}, tmp_path / "x.pt"
    )
    record = open_record(tmp_path / "x.pt")
    assert verify(record) == 3
    data = (tmp_path / "x.pt").read_bytes()
    flipped(tmp_path / "x.pt", data.index(struct.pack("<f", 777.0)))
    record = open_record(tmp_path / "x.pt")
    for name in ("part", "turned"):
        with pytest.raises(RecordFormatError, match=r"'data/0' are not those that were saved.*CRC-32"):
            _ = record.tensors[name]
    assert record.tensors["other"].tolist() == [1] * 5
    with pytest.raises(RecordFormatError, match="CRC-32"):
        verify(record)


def test_flipped_bits_of_what_is_beside_tensors_in_files_of_torch_are_errors(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 2))
    DcpRecorder().save(Record.of(model), tmp_path / "x.dcp")
    torch.save({"step": 7, "name": "some text", "weight": torch.ones(3)}, tmp_path / "x.pt")
    for path, file, begins in (("x.dcp", "x.dcp/__0_0.distcp", "burnlike.id"), ("x.pt", "x.pt", "some text")):
        expected = content_of(tmp_path / path)
        data = (tmp_path / file).read_bytes()
        start, refused = data.index(begins.encode()), 0
        for place in range(start - 20, start + 80, 3):
            flipped(tmp_path / file, place)
            try:
                verify(tmp_path / path)
                assert content_of(tmp_path / path) == expected  # the bit was in no content
            except RecordFormatError:
                refused += 1
            (tmp_path / file).write_bytes(data)
        assert refused > 15


def content_of(path: Path) -> object:
    record = open_record(path)
    return record.ids, record.values, {name: it.tolist() for name, it in record.tensors.items()}


def test_files_that_torch_saved_without_checksums_are_read(tmp_path: Path) -> None:
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"weight": torch.ones(3)}, tmp_path / "x.pt")
    finally:
        torch.serialization.set_crc32_options(True)
    assert open_record(tmp_path / "x.pt").tensors["weight"].tolist() == [1, 1, 1]
    assert verify(tmp_path / "x.pt") == 0


def test_gzipped_files_have_the_checksum_of_gzip(tmp_path: Path) -> None:
    record = Record({"w": torch.zeros(100_000)})
    path = Path(bl.record.save(record, tmp_path / "x.mpk.gz"))
    assert verify(path) == 1
    flipped(path, -6)
    with pytest.raises(RecordFormatError, match="damaged"):
        verify(path)


def test_an_error_names_the_file_that_was_asked_for_not_the_temporary_one(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file"
    with pytest.raises(FileNotFoundError) as caught, atomic.AtomicFile(path):
        pass
    assert caught.value.filename == str(path)
