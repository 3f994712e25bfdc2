"""Linear layers in 8 and 4 bits: outputs, gradients, copies and records."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from burnlike.errors import ArgumentError
from burnlike.interop import quantize_
from burnlike.interop.adapters.adding import AdapterOptions, add_adapters, merge_adapters
from burnlike.interop.adapters.layers import select
from burnlike.module.torch_objects.wrappers import dequantized
from burnlike.nn import LinearConfig
from burnlike.record import Record, load, save

SCHEMES = pytest.mark.parametrize("scheme", ["int8", "nf4"])
ERRORS = {"int8": 0.01, "nf4": 0.25}
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # of torchao


def network() -> Any:
    torch.manual_seed(0)
    own = LinearConfig(d_input=32, d_output=16).init()
    return nn.Sequential(nn.Linear(8, 32), nn.Tanh(), own, nn.LayerNorm(16), nn.Linear(16, 3, bias=False))


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


def test_only_known_schemes() -> None:
    with pytest.raises(ArgumentError, match="expected int8 or nf4, got 'int3'"):
        quantize_(network(), "int3")  # pyright: ignore[reportArgumentType]
