"""Records in torch's names for models of burnlike's layers, beside what the command line shows."""

import pytest
import torch
from torch import Tensor, nn

from burnlike import Module, nn as layers
from burnlike.errors import RecordMismatchError
from burnlike.interop import record_from_torch


class Tied(Module):
    def __init__(self, device: str | None = None) -> None:
        super().__init__()
        self.first = layers.LinearConfig(d_input=2, d_output=2, layout="col").init(device)
        self.second = layers.LinearConfig(d_input=2, d_output=2, bias=False).init(device)
        self.second.weight = self.first.weight


def test_a_column_layout_and_tied_tensors() -> None:
    weight = torch.randn(2, 2)
    state = {"first.weight": weight, "first.bias": torch.zeros(2), "second.weight": weight}
    record = record_from_torch(Tied("meta"), state)
    assert record.aliases == {"second.weight": "first.weight"}
    model = Tied()
    record.load_into(model)
    assert torch.equal(model.first.weight, weight.mT)
    assert record_from_torch(Tied(), {name: state[name] for name in ("first.weight", "first.bias")}).aliases
    state["second.weight"] = torch.zeros(2, 2)
    with pytest.raises(RecordMismatchError, match=r"mismatched: second.weight: .*, tied to it, got other values"):
        record_from_torch(Tied(), state)


def test_whole_numbers_in_place_of_floats_do_not_fit() -> None:
    module = layers.LinearConfig(d_input=2, d_output=2, bias=False).init()
    with pytest.raises(RecordMismatchError, match=r"weight: expected float32 \[2, 2\], got int64 \[2, 2\]"):
        record_from_torch(module, {"weight": torch.zeros(2, 2, dtype=torch.int64)})


def test_what_module_is_made_of_may_be_the_users() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(2))
            self.linear = layers.LinearConfig(d_input=2, d_output=1, bias=False).init()
            self.register_buffer("table", torch.zeros(3), persistent=False)

        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x * self.scale)

    record = record_from_torch(Scaled(), {"scale": torch.zeros(2), "linear.weight": torch.ones(1, 2)})
    assert {name: list(it.shape) for name, it in record.tensors.items()} == {"scale": [2], "linear.weight": [2, 1]}
