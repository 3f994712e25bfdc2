"""Programs that read weights of a twin, and linear layers in 8 and 4 bits."""

import copy
import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from burnlike import nn as layers
from burnlike.errors import ArgumentError
from burnlike.interop import from_torch, quantize_, to_torch
from burnlike.interop.adapters.adding import AdapterOptions, add_adapters, merge_adapters
from burnlike.interop.adapters.layers import select
from burnlike.module import params
from burnlike.module.torch_objects.wrappers import dequantized
from burnlike.nn import LinearConfig
from burnlike.record import Record, load, save


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


SCHEMES = pytest.mark.parametrize("scheme", ["int8", "nf4"])
ERRORS = {"int8": 0.01, "nf4": 0.25}


def network() -> Any:
    torch.manual_seed(0)
    own = LinearConfig(d_input=32, d_output=16).init()
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), own, nn.LayerNorm(16), nn.Linear(16, 3, bias=False))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@SCHEMES
def test_layers_compute_near_the_same_and_records_hold_them(scheme: Any, tmp_path: Path) -> None:
    model, x = network(), torch.randn(4, 8)
    before = model(x)
    expected_paths = ["0.weight", "2.weight"] + (["4.weight"] if scheme == "int8" else [])  # of 48 numbers
    assert quantize_(model, scheme) == expected_paths
    after = model(x)
    assert 0 < (after - before).abs().max() < ERRORS[scheme] * before.abs().max()
    assert torch.equal(copy.deepcopy(model)(x), after)
    plain = network()
    for path in expected_paths:
        name = path.split(".")[0]
        plain[int(name)].weight.data = dequantized(model[int(name)].parametrizations.weight.original).detach()
    assert torch.allclose(plain(x), after, atol=1e-6)

    save(model, tmp_path / "model.safetensors")
    names = {it for it in Record.of(model).tensors if it.startswith("0.weight.")}
    assert names >= ({"0.weight.qdata", "0.weight.scale"} if scheme == "int8" else {"0.weight.quantized_data"})
    other = network()
    torch.nn.init.normal_(other[0].weight)
    quantize_(other, scheme)
    load(other, tmp_path / "model.safetensors")
    assert torch.equal(other(x), after)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@SCHEMES
@pytest.mark.parametrize("dora", [False, True])
def test_adapters_on_a_quantized_base_are_trained_as_on_a_plain_one(scheme: Any, dora: bool) -> None:
    model = network()
    quantize_(model, scheme)
    plain = merge_adapters(copy.deepcopy(model))
    results, grads = [], []
    for one in (model, plain):
        torch.manual_seed(1)
        add_adapters(one, dict.fromkeys(select(one, ("0", "2")).values(), AdapterOptions(2, 4, dora=dora)))
        with torch.no_grad():
            for tensor in one.parameters():
                if tensor.requires_grad:
                    tensor.add_(0.1 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(2)))
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(3)).requires_grad_()
        results.append(one(x))
        functional.mse_loss(results[-1], torch.zeros(4, 3)).backward()
        grads.append([x.grad, *(it.grad for it in one.parameters() if it.requires_grad)])
    assert torch.allclose(*results, atol=1e-6)
    for first, second in zip(*grads, strict=True):
        assert torch.allclose(first, second, atol=1e-6)
        assert first.abs().max() > 0
    assert torch.allclose(merge_adapters(model)(x), results[0], atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_only_known_schemes() -> None:
    with pytest.raises(ArgumentError, match="expected int8 or nf4, got 'int3'"):
        quantize_(network(), "int3")  # pyright: ignore[reportArgumentType]
