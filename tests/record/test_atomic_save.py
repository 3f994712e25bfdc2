"""A save that fails at any point leaves the old file whole and nothing beside it."""

import errno
import itertools
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from burnlike import _atomic as atomic
from burnlike.errors import RecordIOError
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder
from burnlike.record.saving import writing

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
