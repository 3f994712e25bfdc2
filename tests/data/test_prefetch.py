"""Batches are copied ahead on a stream of their own; the streams are stand-ins where there is no CUDA device."""

from contextlib import contextmanager
from typing import Any

import pytest
import torch

from burnlike.data import DataLoader, TensorDataset
from burnlike.data.batching import Made, copied_ahead

CPU = torch.device("cpu")


class Stream:
    """Notes what is asked of it."""

    def __init__(self, name: str, events: list[str]) -> None:
        self.name = name
        self.events = events
        self.count = 0

    def record_event(self) -> str:
        self.count += 1
        self.events.append(f"copied {self.count}")
        return str(self.count)

    def wait_event(self, event: str) -> None:
        self.events.append(f"{self.name} waits for {event}")


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    computing = Stream("computing", found)

    @contextmanager
    def using(stream: Stream) -> Any:
        assert stream.name == "copies"
        yield

    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream("copies", found))
    monkeypatch.setattr(torch.cuda, "stream", using)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: computing)
    monkeypatch.setattr(
        torch.Tensor, "record_stream", lambda it, stream: found.append(f"{stream.name} uses {it.item()}")
    )
    return found


def test_each_batch_is_copied_before_the_one_before_is_handed_out(events: list[str]) -> None:
    made = [Made({"x": torch.tensor(number), "name": "a text"}) for number in range(3)]
    for number, found in enumerate(copied_ahead(made, CPU)):
        assert found.batch["x"] == number
        events.append(f"step {number}")
    assert events == [
        *("copied 1", "copied 2", "computing waits for 1", "computing uses 0", "step 0"),
        *("copied 3", "computing waits for 2", "computing uses 1", "step 1"),
        *("computing waits for 3", "computing uses 2", "step 2"),
    ]


def test_nothing_and_a_batch_that_was_not_made_pass_through(events: list[str]) -> None:
    assert list(copied_ahead([], CPU)) == []
    assert [it.error for it in copied_ahead([Made(None, error="broken")], CPU)] == ["broken"]


@pytest.mark.cuda
def test_on_cuda_the_batches_are_those_of_the_cpu() -> None:
    data = TensorDataset(torch.randn(64, 256, 256), torch.arange(64))
    alone, loader = (DataLoader(data, batch_size=8, seed=1, **it) for it in ({}, {"num_workers": 2, "device": "cuda"}))
    for _ in range(2):
        for (rows, numbers), (its_rows, its_numbers) in zip(loader, alone, strict=True):
            assert rows.device.type == numbers.device.type == "cuda"
            total = rows.double().sum()  # while the next one is copied
            assert torch.equal(rows.cpu(), its_rows)
            assert torch.equal(numbers.cpu(), its_numbers)
            assert total.item() == pytest.approx(its_rows.double().sum().item(), rel=1e-12)
