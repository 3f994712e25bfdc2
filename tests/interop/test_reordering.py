"""Two layers of one shape change places in the source of a model, and training goes on from files."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from burnlike.module import seed_param_ids
from burnlike.optim import AdamWConfig
from burnlike.record import load, save

from .models import assert_equal_weights, optimizer_of, theirs_of

CONFIG = AdamWConfig(weight_decay=0.1)


class Before(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.key = nn.Linear(3, 3, dtype=torch.float64)
        self.value = nn.Linear(3, 3, dtype=torch.float64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.value(torch.tanh(self.key(x)))


class After(Before):
    """The same, with its lines in another order."""

    def __init__(self) -> None:
        nn.Module.__init__(self)
        self.value = nn.Linear(3, 3, dtype=torch.float64)
        self.key = nn.Linear(3, 3, dtype=torch.float64)


def train(model: nn.Module, optimizer: Any, first: int, count: int) -> None:
    for step in range(first, first + count):
        optimizer.zero_grad()
        x = torch.linspace(-1, 1, 15, dtype=torch.float64).reshape(5, 3).roll(step)
        (model(x) - 0.3).square().sum().backward()
        optimizer.step()


def resumed_weights(folder: Path, make: Any, files: str) -> tuple[nn.Module, nn.Module]:
    """The model that trained on, and the one with other source that was resumed half way: `files` are those of torch,
    one of them a record, or both."""
    seed_param_ids(1)
    torch.manual_seed(1)
    model = Before()
    optimizer = make(model)
    train(model, optimizer, 0, 3)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "half.pt")
    save(model, folder / "half.safetensors")
    if files == "records":
        save(optimizer, folder / "optimizer.safetensors")
    train(model, optimizer, 3, 3)
    seed_param_ids(1)  # as a new process of the same program does
    other = After()
    saved = torch.load(folder / "half.pt", weights_only=True)
    if files == "torch":
        other.load_state_dict(saved["model"])
    else:
        load(other, folder / "half.safetensors")
    resumed = make(other)
    if files == "records":
        load(resumed, folder / "optimizer.safetensors")
    else:
        resumed.load_state_dict(saved["optimizer"])
    train(other, resumed, 3, 3)
    return model, other


@pytest.mark.parametrize("files", ["torch", "a record of the model", "records"])
def test_the_state_follows(tmp_path: Path, files: str) -> None:
    model, other = resumed_weights(tmp_path, lambda it: optimizer_of(it, CONFIG), files)
    assert_equal_weights(other.key, model.key)
    assert_equal_weights(other.value, model.value)


def test_the_index_of_torch_swaps_the_states_without_a_word(tmp_path: Path) -> None:
    model, other = resumed_weights(tmp_path, theirs_of, "torch")
    assert not torch.allclose(other.key.weight, model.key.weight, rtol=1e-3)
