"""Filling a device through two buffers, shown with a device that copies only when it is waited for."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder, load, save
from burnlike.record.bytes import values
from burnlike.record.loading import filling
from burnlike.record.loading.filling import fill_device


class FakeStream:
    """Remembers what was done, and in which order."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.buffers: list[Tensor] = []
        self.marks = 0
        self.done = 0

    def buffer(self, count: int) -> Tensor:
        self.buffers.append(torch.empty(count, dtype=torch.uint8))
        return self.buffers[-1]

    @contextmanager
    def queue(self) -> Iterator[None]:
        self.log.append("copy")
        yield

    def mark(self) -> int:
        self.marks += 1
        return self.marks

    def wait(self, mark: int) -> None:
        self.log.append(f"wait {mark}")
        self.done = max(self.done, mark)

    def finish(self) -> None:
        self.log.append("finish")


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filling, "BLOCK_BYTES", 64)


@pytest.mark.usefixtures("small_blocks")
def test_a_buffer_is_used_again_only_when_its_copy_is_done(tmp_path: Path) -> None:
    source = {"a": torch.randn(70), "b": torch.randn(8, 5), "flag": torch.tensor([True, False])}
    path = SafetensorsRecorder(BFloat16Precision).save(Record(source), tmp_path / "x")
    tensors: Any = SafetensorsRecorder().load(path).tensors
    targets = {"a": torch.zeros(70), "b": torch.zeros(5, 8).T, "flag": torch.zeros(2, dtype=torch.bool)}
    stream = FakeStream()
    fill_device([(tensors.values_of(name), targets[name]) for name in source], torch.device("cpu"), stream)
    for name, target in targets.items():
        expected = source[name] if name == "flag" else source[name].to(torch.bfloat16).float()
        assert torch.equal(target, expected), name
    # 70 values are 3 pieces of 32, 40 are 2, and the flags are 1.
    order = "copy, copy, wait 1, copy, wait 2, copy, wait 3, copy, wait 4, copy, wait 5, wait 6, finish"
    assert ", ".join(stream.log) == order
    assert len(stream.buffers) == 2


def test_all_copies_of_a_device_go_by_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[torch.device] = []

    class Stream:
        def __init__(self, device: torch.device) -> None:
            made.append(device)

        def wait_stream(self, other: object) -> None: ...

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: None)
    first, second = torch.device("cuda", 6), torch.device("cuda", 7)
    for device in (first, second, first):
        values.CudaSideStream(device)
    assert made == [first, second]
    values._stream_of.cache_clear()


@pytest.mark.cuda
def test_a_module_on_a_gpu_loads_what_one_on_the_cpu_does(tmp_path: Path) -> None:
    source = nn.Sequential(nn.Linear(3000, 1000), nn.BatchNorm1d(1000))
    path = save(source, tmp_path / "x", BFloat16Precision)
    module = nn.Sequential(nn.Linear(3000, 1000), nn.BatchNorm1d(1000)).cuda()
    load(module, path)
    load(source, path)
    for name, tensor in source.state_dict().items():
        assert torch.equal(module.state_dict()[name].cpu(), tensor), name
