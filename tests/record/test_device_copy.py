"""Values of a GPU are converted and copied range by range, each while the one before it is written."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from burnlike.errors import PrecisionError
from burnlike.record import BFloat16Precision, Record, SafetensorsRecorder
from burnlike.record.saving import background, writing
from burnlike.record.saving.writing import WrittenTensor, write_pieces

PAGE = 4096


class FakeStream:
    """A queue whose work is done at once, and a log of what was asked of it."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.buffers: list[Tensor] = []
        self._depth = 0

    def buffer(self, count: int) -> Tensor:
        self.buffers.append(torch.zeros(count, dtype=torch.uint8))
        return self.buffers[-1]

    @contextlib.contextmanager
    def queue(self) -> Iterator[None]:
        yield

    def mark(self) -> int:
        self.log.append(f"queued {self._count('queued')}")
        return self._count("queued") - 1

    def wait(self, mark: int) -> None:
        self.log.append(f"waited {mark}")

    def finish(self) -> None:
        self.log.append("finished")

    def _count(self, what: str) -> int:
        return sum(line.startswith(what) for line in self.log)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "RANGE_BYTES", 4 * PAGE)
    monkeypatch.setattr(writing, "BLOCK_BYTES", PAGE)


def parts() -> list[bytes | WrittenTensor]:
    tensors = {
        "wide": (torch.randn(70, 101), torch.bfloat16),
        "transposed": (torch.randn(60, 50).t(), torch.float16),
        "double": (torch.randn(1000, dtype=torch.float64), torch.float64),
        "none": (torch.empty(0, 3), torch.float32),
        "ints": (torch.arange(2000), torch.int16),
        "small": (torch.randn(300), torch.float8_e4m3fn),
        "flag": (torch.tensor([True, False, True]), torch.bool),
        "odd": (torch.randn(500), torch.bfloat16),  # begins at an odd place, so that the CPU has to do it
        "scalar": (torch.tensor(3.5), torch.float32),
    }
    return [b"header__", *(WrittenTensor(name, values, dtype) for name, (values, dtype) in tensors.items()), b"end"]


def expected(content: list[bytes | WrittenTensor]) -> bytes:
    return b"".join(piece if isinstance(piece, bytes) else bytes_of(piece) for piece in content)


def bytes_of(part: WrittenTensor) -> bytes:
    assert isinstance(part.values, Tensor)
    return bytes(part.values.to(part.dtype).contiguous().view(-1).view(torch.uint8).tolist())


def test_file_has_the_same_bytes_as_without_a_device(tmp_path: Path) -> None:
    content = parts()
    fake = FakeStream()
    with open(tmp_path / "x", "w+b") as file:
        write_pieces(file.fileno(), content, stream=fake)
    assert (tmp_path / "x").read_bytes() == expected(content)
    assert fake.log[-1] == "finished"


def test_next_range_is_queued_before_the_last_one_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeStream()
    write = os.pwrite

    def logged(descriptor: int, data: memoryview, offset: int) -> int:
        fake.log.append(f"wrote {offset // (4 * PAGE)}")
        return write(descriptor, data, offset)

    monkeypatch.setattr(os, "pwrite", logged)
    with open(tmp_path / "x", "w+b") as file:
        write_pieces(file.fileno(), [WrittenTensor("a", torch.randn(5 * PAGE), torch.bfloat16)], stream=fake)
    steps = [line for index, line in enumerate(fake.log) if index == 0 or fake.log[index - 1] != line]
    assert steps == [
        *("queued 0", "queued 1", "waited 0", "wrote 0"),
        *("queued 2", "waited 1", "wrote 1", "waited 2", "wrote 2", "finished"),
    ]
    assert sum(buffer.numel() == 4 * PAGE for buffer in fake.buffers) == 2, "two buffers, however long the file"


@pytest.mark.parametrize("place", [0, 3 * PAGE + 1, 10 * PAGE - 1])
def test_lost_value_is_named_and_what_is_queued_is_waited_for(place: int, tmp_path: Path) -> None:
    values = torch.ones(10 * PAGE)
    values[place] = 1e6
    fake = FakeStream()
    with open(tmp_path / "x", "w+b") as file:
        with pytest.raises(PrecisionError, match=r"'a': 1e\+06 is too large for float16"):
            write_pieces(file.fileno(), [WrittenTensor("a", values, torch.float16)], stream=fake)
        assert sum(line.startswith("queued") for line in fake.log) == sum(
            line.startswith("waited") for line in fake.log
        )
        assert fake.log[-1] == "finished"
        write_pieces(
            file.fileno(), [WrittenTensor("a", values, torch.float16)], allow_overflow=True, stream=FakeStream()
        )
    assert (tmp_path / "x").read_bytes() == expected([WrittenTensor("a", values, torch.float16)])


@pytest.mark.parametrize(
    ("values", "dtype"), [(torch.full((9,), 1e6), torch.float8_e4m3fn), (torch.tensor([300]), torch.int8)]
)
def test_lost_values_of_other_types_are_named(values: Tensor, dtype: torch.dtype, tmp_path: Path) -> None:
    with open(tmp_path / "x", "w+b") as file, pytest.raises(PrecisionError, match="'a': "):
        write_pieces(file.fileno(), [WrittenTensor("a", values, dtype)], stream=FakeStream())


@pytest.mark.parametrize("pool_bytes", [PAGE, 6 * PAGE, 256 << 20])
def test_values_are_fetched_into_memory_that_the_device_writes(
    pool_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "POOL_BYTES", pool_bytes)
    content = [part for part in parts() if isinstance(part, WrittenTensor)]
    fake = FakeStream()
    found = background.fetch(content, torch.device("cpu"), fake)
    memory = {buffer.untyped_storage().data_ptr() for buffer in fake.buffers}
    for part, made in zip(content, found, strict=True):
        assert made.shape == part.values.shape
        assert made.dtype == part.dtype
        assert bytes(made.contiguous().view(-1).view(torch.uint8).tolist()) == bytes_of(part)
        assert made.numel() == 0 or made.untyped_storage().data_ptr() in memory
    assert background.fetch([], torch.device("cpu"), FakeStream()) == []


@pytest.mark.cuda
def test_values_of_a_gpu_are_saved_alike(tmp_path: Path) -> None:
    tensors = {
        "a": torch.randn(3000, 1001),
        "t": torch.randn(50, 60).t(),
        "i": torch.arange(9),
        "on cpu": torch.ones(5),
    }
    on_gpu = {name: tensor if name == "on cpu" else tensor.cuda() for name, tensor in tensors.items()}
    recorder = SafetensorsRecorder(BFloat16Precision)
    path = recorder.save(Record(tensors), tmp_path / "cpu")
    other = recorder.save(Record(on_gpu), tmp_path / "gpu")
    handle = recorder.save_async(Record(on_gpu), tmp_path / "async")
    on_gpu["a"].zero_()
    assert Path(other).read_bytes() == Path(path).read_bytes() == Path(handle.wait()).read_bytes()
