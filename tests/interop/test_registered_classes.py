"""Twins of classes that are not torch's own: layers derived from torch's, and programs with another call."""

import pickle
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike import nn as layers
from burnlike.errors import NoCounterpartError
from burnlike.interop import from_torch, register_twin, to_torch
from burnlike.module import params
from burnlike.record import NamedMpkFileRecorder, Record


class NormAct(nn.BatchNorm1d):
    """As timm has it: a norm with modules, a parameter, a buffer and options of its own."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.drop: nn.Module = nn.Identity()
        self.act = nn.ReLU(inplace=True)
        self.gain = nn.Parameter(torch.full((size,), 2.0))
        self.register_buffer("shift", torch.ones(size))
        self.scales = [0.5]
        self.slow = False

    def forward(self, input: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(input) * self.gain + self.shift)) * self.scales[0]


class NormActTwin(layers.BatchNorm):
    gain: Tensor
    shift: Tensor
    scales: Any
    act: nn.Module
    drop: nn.Module

    def forward(self, x: Tensor) -> Tensor:
        return self.act(self.drop(super().forward(x) * self.gain + self.shift)) * self.scales[0]


def expect_fast(layer: Any) -> None:
    if layer.slow:
        raise NoCounterpartError("slow=True has no counterpart")


class Lookup(nn.Module):
    """A program that calls `nn.LSTM` as torch's."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(3, 4, batch_first=True)
        self.head = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.lstm(x)[0])


class LookupTwin(Lookup):
    def forward(self, x: Tensor) -> Tensor:
        output, _ = self.lstm(x)
        return self.head(output)


class Squared(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).square()


class SquaredTwin(layers.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).square()


class Reads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.squared = Squared(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(self.squared(x), self.squared.weight)


register_twin(NormAct, NormActTwin, expect_fast)
register_twin(Lookup, LookupTwin)
register_twin(Squared, SquaredTwin)


def model_of(*parts: nn.Module) -> nn.Module:
    model = nn.Sequential(*parts).double()
    with torch.no_grad():
        for param in model.parameters():
            param.add_(torch.randn_like(param) * 0.1)
    return model


def step(model: nn.Module, x: Tensor) -> Tensor:
    output = model(x)
    output.square().sum().backward()
    torch.optim.SGD(model.parameters(), lr=0.1).step()
    return output.detach()


def expect_same(one: nn.Module, other: nn.Module) -> None:
    assert [(name, type(it)) for name, it in one.named_modules()] == [
        (name, type(it)) for name, it in other.named_modules()
    ]
    assert list(one.state_dict()) == list(other.state_dict())
    for name, tensor in other.state_dict().items():
        torch.testing.assert_close(one.state_dict()[name], tensor, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("make", [NormAct, lambda size: Squared(size, 3), lambda size: Reads(), lambda size: Lookup()])
def test_there_a_step_of_training_and_back(make: Any) -> None:
    torch.manual_seed(0)
    model = model_of(nn.Linear(3, 3), make(3))
    x = torch.randn(5, 3, dtype=torch.float64)
    x = x.view(1, 5, 3) if isinstance(model[1], Lookup) else x
    ids = [(it.path, it.id) for it in params(model) if it.path.startswith("0.")]
    twin = from_torch(model)
    assert isinstance(twin[1], NormActTwin | SquaredTwin | LookupTwin | Reads)
    assert [(it.path, it.id) for it in params(twin) if it.path.startswith("0.")] == ids
    expect_same(to_torch(twin), model)
    twin = pickle.loads(pickle.dumps(twin))
    torch.testing.assert_close(step(twin, x), step(model, x), rtol=1e-12, atol=1e-12)
    expect_same(to_torch(twin), model)
    torch.testing.assert_close(to_torch(twin.eval())(x), model.eval()(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(twin(x), model(x), rtol=1e-12, atol=1e-12)
    again = from_torch(make(3).double())
    record = NamedMpkFileRecorder().from_bytes(NamedMpkFileRecorder().to_bytes(Record.from_module(twin[1])))
    record.load_into(again)
    for one, other in zip(params(again), params(twin[1]), strict=True):
        assert torch.equal(one.tensor, other.tensor)


def test_what_a_class_adds_is_converted_and_copied() -> None:
    layer = NormAct(3)
    layer.drop = nn.Sequential(nn.Linear(3, 3))
    twin = from_torch(nn.Sequential(layer, layer))
    assert twin[0] is twin[1]
    assert isinstance(twin[0].drop[0], layers.Linear)
    assert twin[0].scales == [0.5]
    assert twin[0].scales is not layer.scales
    assert twin[0].gain is not layer.gain
    assert [it.path for it in params(twin[0])][:4] == ["gamma", "beta", "running_mean", "running_var"]
    back = to_torch(twin)
    assert back[0] is back[1]
    assert vars(back[0]).keys() - {"_burnlike"} == vars(layer).keys()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda it: setattr(it, "slow", True), "slow=True has no counterpart"),
        (lambda it: setattr(it, "epsilon", 1.0), "'epsilon' has the name of one of the twin's"),
        (lambda it: setattr(it, "act", nn.Dropout2d()), r"0\.act \(Dropout2d\): burnlike has no such layer"),
        (lambda it: it.register_forward_hook(print), "hooks"),
        (lambda it: setattr(it, "forward", torch.relu), "its forward is not that of its class"),
    ],
)
def test_what_has_no_counterpart(change: Any, reason: str) -> None:
    layer = NormAct(3)
    change(layer)
    with pytest.raises(NoCounterpartError, match=reason):
        from_torch(nn.Sequential(layer))


def test_a_class_derived_from_a_registered_one_is_refused() -> None:
    class More(NormAct):
        pass

    with pytest.raises(NoCounterpartError, match="name its twin by register_twin"):
        from_torch(nn.Sequential(More(3)))


@pytest.mark.parametrize(
    ("theirs", "ours", "message"),
    [
        (nn.Linear, SquaredTwin, "Linear is a layer of torch's"),
        (Squared, layers.BatchNorm, r"to be derived from burnlike.nn.linear.Linear, got"),
        (Squared, layers.Linear, "to be derived from"),
        (type("Other", (nn.Linear,), {}), SquaredTwin, "is the twin of Squared already"),
        (type("Reader", (nn.LSTM,), {}), layers.Lstm, "register the class that calls it"),
        (Reads, Lookup, "to be derived from .*Reads"),
        (Reads, 3, "expected two classes of modules, got 3"),
    ],
)
def test_what_can_not_be_registered(theirs: Any, ours: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        register_twin(theirs, ours)


def test_a_later_registration_takes_the_place() -> None:
    class Doubled(nn.Linear):
        def forward(self, input: Tensor) -> Tensor:
            return super().forward(input) * 2

    class Wrong(layers.Linear):
        pass

    class Right(layers.Linear):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * 2

    register_twin(Doubled, Wrong)
    register_twin(Doubled, Right)
    layer, x = Doubled(2, 2), torch.ones(1, 2)
    torch.testing.assert_close(from_torch(layer)(x), layer(x))
