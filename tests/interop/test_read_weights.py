"""Programs that read the weight of a square layer themselves compute the same with its twin, however they read it."""

import copy
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike import nn as layers
from burnlike.interop import from_torch, to_torch
from burnlike.module import params


class Program(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.Identity())


class Directly(Program):
    def forward(self, x: Tensor) -> Tensor:
        return self.linear(functional.linear(x, self.linear.weight, self.linear.bias))


class ByName(Program):
    def forward(self, x: Tensor) -> Tensor:
        return x @ getattr(self.linear, "weight").t() + x @ operator.attrgetter("0.weight.T")(self.inner)  # noqa: B009


def projected(layer: nn.Module, x: Tensor) -> Tensor:
    return functional.linear(x, layer.weight)  # pyright: ignore[reportArgumentType]


class ByAFunction(Program):
    def forward(self, x: Tensor) -> Tensor:
        return projected(self.linear, x) + (lambda: projected(self.inner[0], x))()


class Inherited(Directly):
    pass


class OfAPart(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part = Program()

    def forward(self, x: Tensor) -> Tensor:
        return sum((functional.linear(x, it.weight) for it in self.part.modules() if hasattr(it, "weight")), x)


class Attention(nn.Sequential):
    def forward(self, input: Tensor) -> Tensor:
        return functional.linear(input, self[0].weight)


class Decodes(Program):
    """Its method is called by itself, and its other name of `self` is in a closure."""

    def decode(this, x: Tensor) -> Tensor:
        return torch.stack([functional.linear(row, this.linear.weight) for row in x])

    def forward(self, x: Tensor) -> Tensor:
        return self.decode(x)


PROGRAMS: list[Callable[[], nn.Module]] = [
    Directly, ByName, ByAFunction, Inherited, OfAPart, Decodes, lambda: Attention(nn.Linear(3, 3))
]  # fmt: skip


@pytest.mark.parametrize("made", PROGRAMS)
def test_programs_read_torchs_layout(made: Callable[[], nn.Module]) -> None:
    torch.manual_seed(0)
    model = made().double()
    twin = from_torch(model)
    x = torch.randn(4, 3, dtype=torch.float64)
    for module in (twin, copy.deepcopy(twin), pickle.loads(pickle.dumps(twin)), from_torch(to_torch(twin))):
        torch.testing.assert_close(module(x), model(x), rtol=1e-12, atol=1e-12)
    for module in (model, twin):
        module(x).square().sum().backward()
    found = {it.path: it.tensor.grad for it in params(twin)}
    for name, param in model.named_parameters():
        if param.grad is None:
            assert found[name] is None
            continue
        grad = param.grad.T if param.ndim == 2 else param.grad
        torch.testing.assert_close(found[name], grad, rtol=1e-12, atol=1e-12)


def test_a_method_and_a_hook_that_read_a_weight() -> None:
    model = Decodes().double()
    x = torch.randn(4, 3, dtype=torch.float64)
    twin = from_torch(model)
    torch.testing.assert_close(twin.decode(x), model.decode(x), rtol=1e-12, atol=1e-12)
    model.register_forward_hook(lambda module, inputs, output: functional.linear(output, module.linear.weight))
    torch.testing.assert_close(from_torch(model)(x), model(x), rtol=1e-12, atol=1e-12)


def test_other_code_reads_the_parameter() -> None:
    model = Directly()
    twin = from_torch(model)
    assert twin.linear.weight is dict(twin.named_parameters())["linear.weight"]
    assert torch.equal(twin.linear.weight, model.linear.weight.T)
    assert isinstance(twin.linear, layers.Linear)
    assert type(twin.linear).__name__ == "Linear"

    class Around(nn.Module):
        """Of a program that knows Burn's layout."""

        def __init__(self, twin: Any) -> None:
            super().__init__()
            self.twin = twin

        def forward(self, x: Tensor) -> Tensor:
            return x @ self.twin.linear.weight

    x = torch.randn(2, 3)
    torch.testing.assert_close(Around(twin)(x), functional.linear(x, model.linear.weight))
    assert type(from_torch(nn.Sequential(nn.Linear(3, 3)))[0]) is layers.Linear


@pytest.mark.slow
@pytest.mark.parametrize("made", [Directly, ByAFunction])
def test_compiled(made: Callable[[], nn.Module]) -> None:
    model = made()
    twin = torch.compile(from_torch(model), backend="aot_eager", fullgraph=True)
    x = torch.randn(4, 3)
    torch.testing.assert_close(twin(x), model(x))


def test_a_twin_whose_weight_nobody_reads_compiles_as_one_graph() -> None:
    class Calls(Program):
        def forward(self, x: Tensor) -> Tensor:
            return self.inner(self.linear(x))

    model = Calls()
    twin = torch.compile(from_torch(model), backend="eager", fullgraph=True)
    x = torch.randn(4, 3)
    torch.testing.assert_close(twin(x), model(x))


def test_programs_read_torchs_names_of_options() -> None:
    class Asks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = nn.ModuleList([
                nn.Linear(2, 3), nn.Dropout(0.3), nn.LayerNorm(4, 1e-3), nn.GroupNorm(2, 4), nn.BatchNorm1d(5),
                nn.RMSNorm(6, 1e-4), nn.Conv2d(4, 6, 3, groups=2), nn.Embedding(7, 8), nn.PReLU(2),
                nn.InstanceNorm2d(3, affine=True), nn.ConvTranspose1d(2, 4, 3),
            ])  # fmt: skip

        def options(self) -> list[Any]:
            asked = (
                *("in_features", "out_features", "p", "eps", "normalized_shape", "num_features", "num_channels"),
                *("in_channels", "out_channels", "groups", "num_embeddings", "embedding_dim", "num_parameters"),
            )
            tensors = [getattr(it, name).shape for it in self.parts for name in ("weight", "bias") if hasattr(it, name)]
            return [*tensors, *(getattr(it, name, None) for it in self.parts for name in asked)]

    model = Asks()
    twin = from_torch(model)
    for found, expected in zip(twin.options(), model.options(), strict=True):
        assert found == expected or expected is None  # burnlike's may have more
    twin.parts[1].p = 0.5
    assert twin.parts[1].prob == 0.5
