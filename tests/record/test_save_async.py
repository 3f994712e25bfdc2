"""A save in the background writes the values of the moment when it was asked for, and nothing about it is lost."""

import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch

import burnlike as bl
from burnlike.errors import ArgumentError, PrecisionError, RecordError, RecordIOError, SavePendingError
from burnlike.record import BFloat16Precision, HalfPrecision, Record, SafetensorsRecorder, recorder_for
from burnlike.record.saving.background import SaveThread

from ..processes import HANGS_S


class Gate:
    """Holds every save back before its file takes its place."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.opened = threading.Event()
        self.replaced: list[str] = []
        self.error: OSError | None = None
        self._replace = os.replace
        patch.setattr(os, "replace", self._wait)

    def _wait(self, source: Any, target: Any) -> None:
        assert self.opened.wait(HANGS_S)
        if self.error is not None:
            raise self.error
        self._replace(source, target)
        self.replaced.append(os.path.basename(target))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.opened.set()
    for thread in threading.enumerate():
        if thread.name.startswith("saving "):
            thread.join()


@pytest.mark.parametrize("extension", [".safetensors", ".mpk", ".mpk.gz"])
@pytest.mark.parametrize("precision", [None, BFloat16Precision])
def test_what_changes_after_the_call_is_not_in_the_file(
    precision: Any, extension: str, tmp_path: Path, gate: Gate
) -> None:
    tensors = {
        "a": torch.randn(2000, 1003),
        "transposed": torch.randn(30, 40).T,
        "count": torch.tensor(3),
        "none": torch.empty(0, 4),
    }
    values: dict[str, Any] = {"steps": [1, {"deep": 2}]}
    recorder = recorder_for(f"x{extension}", precision)
    whole = recorder.to_bytes(Record(tensors, values))
    handle = recorder.save_async(Record(tensors, values), tmp_path / f"x{extension}")
    for tensor in tensors.values():
        tensor.zero_()
    values["steps"][1]["deep"] = 3
    assert not handle.done()
    gate.opened.set()
    assert handle.wait() == str(tmp_path / f"x{extension}")
    assert handle.done()
    assert Path(handle.path).read_bytes() == whole


def test_divided_records_are_saved_too(tmp_path: Path, gate: Gate) -> None:
    tensors = {name: torch.ones(100) for name in "abc"}
    handle = SafetensorsRecorder(shard_bytes=400).save_async(Record(tensors), tmp_path)
    tensors["b"].zero_()
    gate.opened.set()
    assert Path(handle.wait()).name == "model.safetensors.index.json"
    found = safetensors.torch.load_file(tmp_path / "model-00002-of-00003.safetensors")
    assert found["b"].eq(1).all()


def test_module_is_saved_in_one_call(tmp_path: Path, gate: Gate) -> None:
    module = torch.nn.Linear(3, 4)
    weight = module.weight.detach().clone()
    handle = bl.record.save_async(module, tmp_path / "x", BFloat16Precision)
    torch.nn.init.zeros_(module.weight)
    gate.opened.set()
    assert torch.equal(safetensors.torch.load_file(handle.wait())["weight"], weight.to(torch.bfloat16))
    with pytest.raises(RecordError, match="got both"):
        bl.record.save_async(module, tmp_path / "x", BFloat16Precision, SafetensorsRecorder())


def test_record_of_an_open_file_is_not_copied(tmp_path: Path) -> None:
    recorder = SafetensorsRecorder()
    path = recorder.save(Record({"a": torch.ones(1000)}), tmp_path / "x")
    record = recorder.load(path)
    recorder.save(Record({"a": torch.zeros(1000)}), path)
    assert recorder.save_async(record, path).wait() == path
    assert safetensors.torch.load_file(path)["a"].eq(1).all()


def test_second_save_waits_for_the_first(tmp_path: Path, gate: Gate) -> None:
    recorder = SafetensorsRecorder()
    first = recorder.save_async(Record({"a": torch.zeros(1)}), tmp_path / "first")
    threading.Timer(0.1, gate.opened.set).start()
    second = recorder.save_async(Record({"a": torch.ones(1)}), tmp_path / "second")
    assert first.done()
    second.wait()
    assert gate.replaced == ["first.safetensors", "second.safetensors"]


@pytest.mark.parametrize("in_background", [True, False])
def test_the_later_save_to_a_path_is_the_one_that_stays(in_background: bool, tmp_path: Path, gate: Gate) -> None:
    bl.record.save_async(torch.nn.Linear(2, 2), tmp_path / "x")
    threading.Timer(0.1, gate.opened.set).start()
    record = Record({"later": torch.ones(1)})
    (tmp_path / "link").symlink_to(tmp_path)
    if in_background:
        SafetensorsRecorder().save_async(record, tmp_path / "link" / "x").wait()
    else:
        SafetensorsRecorder().save(record, tmp_path / "link" / "x")
    assert list(safetensors.torch.load_file(tmp_path / "x.safetensors")) == ["later"]


def test_second_save_is_refused_on_request(tmp_path: Path, gate: Gate) -> None:
    recorder = SafetensorsRecorder()
    record = Record({"a": torch.zeros(1)})
    handle = recorder.save_async(record, tmp_path / "x")
    with pytest.raises(SavePendingError, match=r"x\.safetensors is still being saved; wait for its handle"):
        recorder.save_async(record, tmp_path / "y", on_busy="refuse")
    with pytest.raises(SavePendingError):
        SafetensorsRecorder().save_async(record, tmp_path / "x", on_busy="refuse")
    other = SafetensorsRecorder().save_async(record, tmp_path / "z", on_busy="refuse")
    with pytest.raises(ArgumentError, match="on_busy: expected 'wait' or 'refuse'"):
        recorder.save_async(record, tmp_path / "y", on_busy="later")  # pyright: ignore[reportArgumentType]
    gate.opened.set()
    handle.wait()
    other.wait()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.safetensors", "z.safetensors"]


def test_waiting_ends_after_the_timeout(tmp_path: Path, gate: Gate) -> None:
    handle = SafetensorsRecorder().save_async(Record({"a": torch.zeros(1)}), tmp_path / "x")
    with pytest.raises(SavePendingError, match=r"after 0\.01 seconds"):
        handle.wait(0.01)
    with pytest.raises(TimeoutError):
        handle.wait(0)
    gate.opened.set()
    assert handle.wait(HANGS_S) == handle.path


def test_wait_that_is_interrupted_takes_nothing_for_done(tmp_path: Path, gate: Gate) -> None:
    handle = SafetensorsRecorder().save_async(Record({"a": torch.zeros(1)}), tmp_path / "x")
    timer = threading.Timer(0.1, signal.pthread_kill, [threading.get_ident(), signal.SIGINT])

    def interrupted_wait() -> None:
        timer.start()
        handle.wait()

    with pytest.raises(KeyboardInterrupt):
        interrupted_wait()
    assert not handle.done()
    assert not list(tmp_path.glob("x*"))
    gate.opened.set()
    assert Path(handle.wait()).exists()
    timer.join()


def test_errors_of_the_copy_are_raised_at_once(tmp_path: Path) -> None:
    recorder = SafetensorsRecorder(HalfPrecision)
    with pytest.raises(PrecisionError, match="'a': 1e\\+06 is too large"):
        recorder.save_async(Record({"a": torch.full((3_000_000,), 1e6)}), tmp_path / "x")
    with pytest.raises(RecordError, match="meta device"):
        recorder.save_async(Record({"a": torch.empty(1, device="meta")}), tmp_path / "x")
    assert not list(tmp_path.iterdir())


def reported(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    found: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", lambda hook: found.append(hook.exc_value))
    return found


def test_errors_of_the_writing_are_raised_by_the_handle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = reported(monkeypatch)
    handle = SafetensorsRecorder().save_async(Record({"a": torch.zeros(1)}), tmp_path / "none" / "x")
    for _ in range(2):
        with pytest.raises(RecordIOError, match="does not exist; create it first"):
            handle.wait()
    assert handle.done()
    del handle
    gc.collect()
    assert found == []


def test_handle_may_go_while_the_thread_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing() -> str:
        raise OSError(5, "I/O error")

    found: list[Any] = []
    thread = SaveThread(failing, "x", None)
    thread.daemon = True
    # As a garbage collection does it that runs in this thread.
    monkeypatch.setattr(threading, "excepthook", lambda hook: (thread.leave(), found.append(hook.exc_value)))
    thread.leave()
    thread.start()
    assert thread.has_ended(20)
    assert [type(error) for error in found] == [OSError]


@pytest.mark.parametrize("when", ["before the end", "after the end"])
def test_error_that_nobody_asks_for_is_reported(
    when: str, tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = reported(monkeypatch)
    gate.error = OSError(5, "I/O error")
    handle = SafetensorsRecorder().save_async(Record({"a": torch.zeros(1)}), tmp_path / "x")
    (thread,) = (thread for thread in threading.enumerate() if thread.name.startswith("saving "))
    if when == "before the end":
        del handle
        gate.opened.set()
        thread.join()
    else:
        gate.opened.set()
        thread.join()
        assert found == []
        del handle
    gc.collect()
    assert [type(error) for error in found] == [RecordIOError]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("error", [None, OSError(5, "I/O error")])
def test_memory_of_the_copy_goes_with_the_save(error: OSError | None, tmp_path: Path, gate: Gate) -> None:
    gate.error = error
    copies: list[int] = []
    handle = SafetensorsRecorder(BFloat16Precision).save_async(Record({"a": torch.zeros(5_000_000)}), tmp_path / "x")

    def count() -> int:
        gc.collect()
        tensors = [it for it in gc.get_objects() if type(it) is torch.Tensor and it.numel() == 5_000_000]
        return len({it.data_ptr() for it in tensors if it.dtype == torch.bfloat16})

    copies.append(count())
    gate.opened.set()
    with contextlib.suppress(RecordIOError):
        handle.wait()
    copies.append(count())
    assert copies == [1, 0]


END = """
import os, sys, time, torch
from burnlike.record import Record, SafetensorsRecorder
replace = os.replace
os.replace = lambda *args: (time.sleep(0.3), replace(*args))
handle = SafetensorsRecorder().save_async(Record({"a": torch.ones(3_000_000)}), sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["", "raise ValueError('training failed')", "sys.exit(3)"])
def test_process_that_ends_waits_for_its_saves(how: str, tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "-c", END + how, tmp_path / "x"], check=False, stderr=subprocess.DEVNULL, timeout=HANGS_S
    )
    assert safetensors.torch.load_file(tmp_path / "x.safetensors")["a"].eq(1).all()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("most", [0, 1, 2])
def test_values_are_written_by_as_many_threads_as_can_be_started(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python 3.12 starts no thread once the program has begun to end, and a system has limits."""
    values, left, start = torch.arange(4_000_000.0), [most], threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    threads = torch.get_num_threads()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        path = SafetensorsRecorder().save(Record({"a": values}), tmp_path / "x")
    assert left[0] < 0
    assert torch.get_num_threads() == threads
    assert torch.equal(safetensors.torch.load_file(path)["a"], values)


@pytest.mark.slow  # a process of its own, whose imports take seconds
def test_error_is_printed_when_the_process_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", END, tmp_path / "none" / "x"],
        check=True,
        capture_output=True,
        text=True,
        timeout=HANGS_S,
    )
    assert "does not exist; create it first" in done.stderr


FORK = """
import os, sys, warnings, torch
from burnlike.errors import RecordIOError
from burnlike.record import Record, SafetensorsRecorder
warnings.simplefilter("ignore")
import threading
gate = threading.Event()
replace = os.replace
os.replace = lambda *args: (gate.wait(), replace(*args))
torch.set_num_threads(1)
handle = SafetensorsRecorder().save_async(Record({"a": torch.ones(3_000_000)}), sys.argv[1])
child = os.fork()
if child == 0:
    try:
        handle.wait()
    except RecordIOError as error:
        os.replace = replace  # the parent's thread may have held the lock of `gate` when it was forked
        SafetensorsRecorder().save(Record({"a": torch.zeros(3_000_000)}), sys.argv[1] + "-child")
        os._exit(7 if "another process" in str(error) else 8)
    os._exit(9)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
gate.set()
handle.wait()
"""


@pytest.mark.slow  # a process of its own, whose imports take seconds
def test_forked_process_has_nothing_to_wait_for_and_can_save(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK, tmp_path / "x"], check=True, timeout=HANGS_S)
    assert safetensors.torch.load_file(tmp_path / "x.safetensors")["a"].eq(1).all()
    assert safetensors.torch.load_file(tmp_path / "x-child.safetensors")["a"].eq(0).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x-child.safetensors", "x.safetensors"]


def test_saves_in_the_background_leave_the_number_of_threads_alone(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    recorder = SafetensorsRecorder()
    found: list[int] = []
    for number in range(3):
        handle = recorder.save_async(Record({"a": torch.ones(5_000_000)}), tmp_path / f"{number}")
        torch.ones(5_000_000).sum()
        thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
        handle.wait()
        thread.start()
        thread.join()
    assert torch.get_num_threads() == before
    assert set(found) == {before}
